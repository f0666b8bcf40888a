// One real job: writes a config and a small corpus into a temporary folder, starts `recycle train`
// as its own process, and reads the run folder.
//
//   Job job({.data = 3, .pipeline = 2, .iterations = 6, .inject = {"kill 1:1 at F of iteration
//   3"}}); ASSERT_EQ(job.Run(), 0) << job.Output(); EXPECT_EQ(job.Losses().size(), 6u);
//
// The folder is removed with the object unless a test failed.
#ifndef RECYCLE_TESTS_MULTIPROCESS_JOB_H_
#define RECYCLE_TESTS_MULTIPROCESS_JOB_H_

#include <sys/types.h>

#include <chrono>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "processes.h"

namespace recycle::testing {

struct JobOptions {
  int data = 1;
  int pipeline = 1;
  int micro_batches = 2;  // per pipeline
  int micro_batch_size = 1;
  int iterations = 4;
  int layers = 4;
  int hidden = 16;
  int sequence = 16;
  double dropout = 0.0;
  bool tied = false;
  int agents = 1;
  int failure_timeout_ms = 2000;
  int checkpoint_every = 0;
  int checkpoint_keep = 2;
  int snapshot_every = 0;
  std::string method = "adaptive";
  bool staggered = false;
  bool measure = false;  // or the plan, and with it the number of generations, is the machine's
  double clip = 1.0;
  std::string command = "train";  // of `recycle`, or another one that takes a job
  std::vector<std::string> inject = {};
  std::filesystem::path run_folder = {};    // absolute; empty: in the job's own folder
  std::vector<std::string> arguments = {};  // further words of the command line
  std::function<void()> before_exec;        // runs in the child (async-signal-safe calls only)
};

// Three pipelines of two stages, two micro-batches each.
JobOptions ThreeByTwo(int iterations, std::vector<std::string> inject);

class Job {
 public:
  explicit Job(JobOptions options);
  ~Job();
  Job(const Job&) = delete;
  Job& operator=(const Job&) = delete;

  // Further words of the command line that name the job's own folder.
  void AddArguments(const std::vector<std::string>& words) {
    options_.arguments.insert(options_.arguments.end(), words.begin(), words.end());
  }

  // Starts the launcher; returns at once.
  void Start();
  // Waits for the launcher's end: its exit code, or 128 + signal. Kills it after `limit` (-1).
  int Wait(std::chrono::seconds limit = std::chrono::seconds(120));
  int Run() {
    Start();
    return Wait();
  }

  // `recycle WORD RUN_FOLDER WORKER` as a process of its own, its words in folder()/WORD.txt; the
  // caller waits for it.
  pid_t StartCommand(const std::string& word, const std::string& worker) const;

  pid_t pid() const { return pid_; }
  const std::filesystem::path& run_folder() const { return run_folder_; }
  const std::filesystem::path& folder() const { return folder_; }
  std::string Output() const;  // what the launcher printed, both streams

  // Lines of the run folder's files that are complete now; a file that is not there yet is empty.
  std::vector<nlohmann::json> Lines(const std::string& file) const;
  std::vector<nlohmann::json> Events(
      const std::string& name) const;  // events.jsonl with this event
  // Waits until `count` events of this name are there; false if the job ends or time is up first.
  bool AwaitEvents(const std::string& name, std::size_t count) const;
  bool AwaitIteration(int iteration) const;  // a line in metrics.jsonl
  bool AwaitOutput(const std::string& text) const;
  std::vector<double> Losses() const;  // by iteration
  std::vector<double> GradientNorms() const;
  std::map<std::string, pid_t> WorkerPids() const;  // worker_joined
  // Executed actions in order of their start: trace.json's complete events.
  std::vector<nlohmann::json> TraceEvents() const;
  nlohmann::json Summary() const;
  // Samples that counted, per iteration, sorted.
  std::map<int, std::vector<std::int64_t>> SamplesPerIteration() const;

 private:
  std::vector<double> Column(const std::string& key) const;
  JobOptions options_;
  std::filesystem::path folder_;
  std::filesystem::path run_folder_;
  pid_t pid_ = 0;
  bool ended_ = false;
};

// Relative difference of each pair at most `tolerance`, same length: "" or what differs.
std::string Differs(const std::vector<double>& got, const std::vector<double>& want,
                    double tolerance);

}  // namespace recycle::testing

#endif  // RECYCLE_TESTS_MULTIPROCESS_JOB_H_
