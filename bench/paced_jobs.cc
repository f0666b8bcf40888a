#include "paced_jobs.h"

#include <fmt/format.h>

#include <cstdlib>

namespace recycle::testing {

std::vector<Layout> Layouts() {
  return {{3,
           4,
           6,
           0.2,
           {"kill 1:2 at F of iteration 2", "kill 0:1 at F of iteration 3",
            "kill 2:3 at F of iteration 4"}},
          {4,
           8,
           8,
           0.5,
           {"kill 1:2 at F of iteration 2", "kill 0:5 at F of iteration 3",
            "kill 3:7 at F of iteration 4"}}};
}

CostProfile Costs(int stages, double forward_ms) {
  const auto ticks = [forward_ms](double share) {
    return ToTicks(forward_ms * share, "cost").value();
  };
  return ProfileOf(stages,
                   {.forward = ticks(1),
                    .backward_input = ticks(1.05),
                    .backward_weight = ticks(0.85),
                    .optimizer = ticks(0.2),
                    .all_reduce = ticks(0.3)},
                   /*send_ms=*/0.05 * forward_ms);
}

JobOptions OptionsOf(const Layout& layout, int iterations, int failures) {
  return {.data = layout.data,
          .pipeline = layout.pipeline,
          .micro_batches = layout.micro_batches,
          .iterations = iterations,
          .layers = layout.pipeline,
          .staggered = true,
          .clip = 1000,
          .inject = {layout.faults.begin(), layout.faults.begin() + failures},
          .arguments = {"--set", "resilience.role_changes=false"}};
}

Periods Measure(Job& job, const Layout& layout) {
  Pace(job, Costs(layout.pipeline, 100), layout.time_scale);
  job.Start();
  if (!job.AwaitIteration(kFirst - 1)) Fail(job, "too slow");
  const double began_s = MonotonicSeconds();
  if (!job.AwaitIteration(kLast)) Fail(job, "too slow");
  constexpr int kIterations = kLast - kFirst + 1;
  Periods periods;
  periods.wall_ms = 1e3 * (MonotonicSeconds() - began_s) / kIterations / layout.time_scale;
  Finish(job);
  for (const auto& [iteration, ms] : IterationMs(job)) {
    if (iteration >= kFirst && iteration <= kLast) periods.stamped_ms += ms / kIterations;
  }
  periods.planned_ms = PlannedMs(job, static_cast<int>(std::ssize(job.Events("generation"))));
  return periods;
}

void Finish(Job& job) {
  if (const int code = job.Wait(kLimit); code != 0) Fail(job, fmt::format("ended with {}", code));
}

void Fail(const Job& job, const std::string& what) {
  fmt::print(stderr, "{}:\n{}\n", what, job.Output());
  std::exit(1);
}

double ErrorPercent(double measured, double expected) { return 100 * (measured / expected - 1); }

}  // namespace recycle::testing
