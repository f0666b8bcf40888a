// `recycle chaos`: runs a job again and again under random faults (chaos_sequence.h) and holds
// every run to the unharmed one: losses, samples, exit code, and no process left behind.
//
// Run number n of a command with --seed S has the seed S + n. A run that fails is printed with the
// command that repeats exactly it. A trial counts only if all of its faults have left their event.
//
//   int code = RunChaos({.config_path = "job.yaml", .trials = 200, .seed = 1});
#ifndef RECYCLE_APP_CHAOS_COMMAND_H_
#define RECYCLE_APP_CHAOS_COMMAND_H_

#include <cstdint>
#include <string>
#include <vector>

namespace recycle {

struct ChaosArguments {
  std::string config_path;
  std::vector<std::string> overrides;  // as of TrainArguments
  int trials = 20;
  std::uint64_t seed = 1;
  std::string run_dir;  // holds the runs' folders; empty: a new one for temporary files
  bool json = false;
  bool operator==(const ChaosArguments&) const = default;
};

// Prints what it finds; the exit code of the command. This process becomes the one to which the
// kernel gives orphans: call it from a program that has no other children.
int RunChaos(const ChaosArguments& arguments);

}  // namespace recycle

#endif  // RECYCLE_APP_CHAOS_COMMAND_H_
