// Paced jobs (tests/multiprocess/paced.h) as the benchmarks run them: their costs, failures, and
// how long an iteration takes.
//
//   Job job(OptionsOf(layout, kLast + 1, /*failures=*/1));
//   const Periods periods = Measure(job, layout);
//
// A job that fails ends the program.
#ifndef RECYCLE_BENCH_PACED_JOBS_H_
#define RECYCLE_BENCH_PACED_JOBS_H_

#include <chrono>
#include <string>
#include <vector>

#include "paced.h"
#include "recycle/plan/costs.h"

namespace recycle::testing {

// No job takes so long.
inline constexpr std::chrono::seconds kLimit{600};

struct Layout {
  int data, pipeline, micro_batches;
  double time_scale;
  std::vector<std::string> faults;  // one after the other
};

// Of Table 2: 3 x 4 and 4 x 8, each with three failures in iterations 2 to 4.
std::vector<Layout> Layouts();

// The ratios of bench/paper, in ms.
CostProfile Costs(int stages, double forward_ms);

// Staggered, nobody changes its role; the first `failures` of the layout's faults.
JobOptions OptionsOf(const Layout& layout, int iterations, int failures);

// The iterations that are measured: stages have gone ahead of their verdicts for some, and the one
// after them, the last, waits for all.
inline constexpr int kFirst = 15;
inline constexpr int kLast = 24;

// An iteration of kFirst to kLast, in ms of the profile.
struct Periods {
  double planned_ms = 0;  // by the newest generation's plan
  double stamped_ms = 0;  // by the workers' time, mean
  double wall_ms = 0;     // by the machine's clock, mean
};

// Runs `job`, which has not been started, with F = 100 ms.
Periods Measure(Job& job, const Layout& layout);

void Finish(Job& job);
[[noreturn]] void Fail(const Job& job, const std::string& what);

double ErrorPercent(double measured, double expected);

}  // namespace recycle::testing

#endif  // RECYCLE_BENCH_PACED_JOBS_H_
