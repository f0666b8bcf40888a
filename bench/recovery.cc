// How fast a SIGKILL is noticed, decided, told and survived: real jobs of 6, 12 and 24 executors
// under full load, one worker killed in each.
//
//   build/dev/bench/recovery [TRIALS [EXECUTORS]]        (default 100 trials of each size)
//
// Prints a line per trial and the percentiles: kill -> noticed (first sign at the coordinator) ->
// stored (the decision is durable) -> told (Prepare is out) -> acting (first action of the new
// generation). The kill's time is the injector's own stamp on the machine's monotonic clock.
#include <fmt/format.h>

#include <algorithm>
#include <cstdlib>
#include <vector>

#include "job.h"
#include "recycle/base/prng.h"

namespace recycle::testing {
namespace {

struct Shape {
  int data = 1;
  int pipeline = 1;
  int executors() const { return data * pipeline; }
};
constexpr Shape kShapes[] = {{3, 2}, {4, 3}, {6, 4}};

struct Series {
  const char* name;
  std::vector<double> milliseconds = {};
};

double Percentile(std::vector<double> values, double share) {
  std::sort(values.begin(), values.end());
  const auto rank = static_cast<std::size_t>(share * static_cast<double>(values.size() - 1) + 0.5);
  return values.at(rank);
}

std::string DrawFault(Prng& prng, const Shape& shape) {
  static const char* const kPoints[] = {"F", "I", "W", "send", "all-reduce", "step"};
  return fmt::format("kill {}:{} at {} of iteration {}", prng.Below(shape.data),
                     prng.Below(shape.pipeline), kPoints[prng.Below(std::size(kPoints))],
                     3 + prng.Below(3));
}

JobOptions MakeJob(const Shape& shape, const std::string& fault) {
  return {.data = shape.data,
          .pipeline = shape.pipeline,
          .micro_batches = 4,
          .micro_batch_size = 2,
          .iterations = 8,
          .hidden = 64,
          .sequence = 64,
          .inject = {fault}};
}

bool RunTrials(const Shape& shape, int trials) {
  Series noticed{"kill -> noticed"};
  Series stored{"kill -> stored"};
  Series told{"kill -> told"};
  Series acting{"stored -> acting"};
  Prng prng(11);
  for (int trial = 1; trial <= trials; ++trial) {
    const std::string fault = DrawFault(prng, shape);
    Job job(MakeJob(shape, fault));
    job.Start();
    if (const int code = job.Wait(); code != 0) {
      fmt::print("trial {}: '{}' ended with {}:\n{}\n", trial, fault, code, job.Output());
      return false;
    }
    const nlohmann::json failure = job.Events("failure_detected").at(0);
    const nlohmann::json resumed = job.Events("resumed").at(1);
    noticed.milliseconds.push_back(failure.at("signal_ms"));
    stored.milliseconds.push_back(failure.at("stored_ms"));
    told.milliseconds.push_back(failure.at("told_ms"));
    acting.milliseconds.push_back(resumed.at("resume_ms"));
    fmt::print(
        "{:3} {:45} cause {:8} noticed {:6.1f}  stored {:6.1f}  told {:6.1f}  acting +{:6.1f} ms  "
        "replayed {:3} rerouted {:3} regenerated {:2}\n",
        trial, fault, failure.at("cause").get<std::string>(), noticed.milliseconds.back(),
        stored.milliseconds.back(), told.milliseconds.back(), acting.milliseconds.back(),
        resumed.at("replayed_actions").get<int>(), resumed.at("rerouted_actions").get<int>(),
        resumed.at("regenerated_actions").get<int>());
  }
  fmt::print("\n{} executors, {} trials, ms      p50      p90      p99      max\n",
             shape.executors(), trials);
  for (const Series& series : {noticed, stored, told, acting}) {
    fmt::print("{:24} {:12.1f} {:8.1f} {:8.1f} {:8.1f}\n", series.name,
               Percentile(series.milliseconds, 0.5), Percentile(series.milliseconds, 0.9),
               Percentile(series.milliseconds, 0.99), Percentile(series.milliseconds, 1.0));
  }
  fmt::print("\n");
  return true;
}

int Run(int trials, int executors) {
  bool found = false;
  for (const Shape& shape : kShapes) {
    if (executors != 0 && executors != shape.executors()) continue;
    found = true;
    if (!RunTrials(shape, trials)) return 1;
  }
  if (!found) fmt::print("no shape of {} executors: 6, 12 or 24\n", executors);
  return found ? 0 : 2;
}

}  // namespace
}  // namespace recycle::testing

int main(int argc, char** argv) {
  return recycle::testing::Run(argc > 1 ? std::atoi(argv[1]) : 100,
                               argc > 2 ? std::atoi(argv[2]) : 0);
}
