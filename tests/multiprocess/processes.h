// What the operating system says about processes: the figures of these tests come from here and
// from the run folder's files, not from the program's own counters alone.
#ifndef RECYCLE_TESTS_MULTIPROCESS_PROCESSES_H_
#define RECYCLE_TESTS_MULTIPROCESS_PROCESSES_H_

#include <sys/types.h>

#include <chrono>
#include <cstdint>
#include <functional>
#include <string>
#include <vector>

namespace recycle::testing {

// A process that cannot be mistaken for a later one with the same number.
struct ProcessIdentity {
  pid_t pid = 0;
  std::uint64_t start_ticks = 0;  // field 22 of /proc/PID/stat
  bool operator==(const ProcessIdentity&) const = default;
};

// start_ticks is 0 if there is no such process.
ProcessIdentity Identify(pid_t pid);
// Runs, sleeps or is stopped: not gone and no zombie.
bool IsAlive(const ProcessIdentity& process);
// `root` and everything below it, by parent pid, right now.
std::vector<ProcessIdentity> Descendants(pid_t root);
std::string CommandLine(pid_t pid);

// Local addresses ("127.0.0.1") of every TCP socket that one of `pids` listens on.
std::vector<std::string> ListeningAddresses(const std::vector<pid_t>& pids);
// Names in /dev/shm.
std::vector<std::string> SharedMemoryFiles();

// Looks at `condition` every few ms until it holds; false at the deadline. The only waiting on
// things that give no notice (other processes, files); the deadline is a failure, never a
// measurement.
bool Eventually(std::chrono::milliseconds deadline, const std::function<bool()>& condition);

// CLOCK_MONOTONIC and Unix time now.
double MonotonicSeconds();
double UnixSeconds();

}  // namespace recycle::testing

#endif  // RECYCLE_TESTS_MULTIPROCESS_PROCESSES_H_
