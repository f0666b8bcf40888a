// The figures of a whole run, gathered iteration by iteration: summary.json and the words at the
// end.
//
// goodput: the share of the training time (from the first action to the last step) that was not
// spent on regrouping after a failure.
//
//   RunSummary summary;
//   summary.AddIteration({.loss = 8.3, .tokens = 4096, .elapsed = 100ms, .generation = g});
//
// A plain value; not thread-safe.
#ifndef RECYCLE_APP_SUMMARY_H_
#define RECYCLE_APP_SUMMARY_H_

#include <cstdint>
#include <optional>
#include <string>

#include "recycle/app/event_writer.h"
#include "recycle/base/clock.h"
#include "recycle/base/ids.h"

namespace recycle {

// Tokens per second over a stretch of the run.
class Throughput {
 public:
  void Add(std::int64_t tokens, Duration elapsed);
  std::optional<double> tokens_per_s() const;

 private:
  std::int64_t tokens_ = 0;
  Duration elapsed_{};
};

class RunSummary {
 public:
  struct Iteration {
    double loss = 0;  // mean over its tokens
    std::int64_t tokens = 0;
    Duration elapsed{};      // since the iteration before, or since training began
    Generation generation;   // in which it ended
    bool disturbed = false;  // a regroup fell into it
  };
  void AddIteration(const Iteration& iteration);
  void AddFailures(int workers);
  // Iterations that were done and have to be done again.
  void AddLostIterations(int iterations) { lost_iterations_ += iterations; }
  // A regroup came to its end: `wasted` was spent on nothing that counts.
  void AddRegroup(int replayed_actions, Duration wasted);

  int failures() const { return failures_; }

  // What run.md's table says of summary.json, and first_loss, tokens and tokens_per_s: fault_free
  // (before the first loss) and now (in the last generation, once an iteration was
  // run in it undisturbed).
  Json ToJson(int iterations, const std::string& parameters_sha256, Duration wall) const;

 private:
  std::optional<double> first_loss_;
  std::optional<double> final_loss_;
  std::int64_t tokens_ = 0;
  int failures_ = 0;
  int lost_iterations_ = 0;
  int replayed_actions_ = 0;
  Duration training_{};
  Duration wasted_{};
  Throughput fault_free_;
  Throughput last_;
  Generation last_generation_;
};

}  // namespace recycle

#endif  // RECYCLE_APP_SUMMARY_H_
