// Paced jobs (device.kind: paced) for tests and benchmarks: their profile, and what their plans
// say.
//
//   Job job({.data = 3, .pipeline = 4, ...});
//   Pace(job, costs, /*time_scale=*/0.1);
//   ASSERT_EQ(job.Run(), 0) << job.Output();
//   EXPECT_NEAR(IterationMs(job).at(5), PlannedMs(job, /*generation=*/1), 0.01);
#ifndef RECYCLE_TESTS_MULTIPROCESS_PACED_H_
#define RECYCLE_TESTS_MULTIPROCESS_PACED_H_

#include <map>

#include "job.h"
#include "recycle/plan/costs.h"

namespace recycle::testing {

// Costs of `stages` stages in ms, the same for all, with sends of `send_ms`.
CostProfile ProfileOf(int stages, const StageCosts& costs, double send_ms);

// Writes `costs` into the job's folder and has the job run by them. Before it starts.
void Pace(Job& job, const CostProfile& costs, double time_scale);

// The period, in ms, that the timeline gives the plan of `generation` for whole iterations.
double PlannedMs(const Job& job, int generation);

// By iteration (from 1): iteration_ms, by the workers' time.
std::map<int, double> IterationMs(const Job& job);

}  // namespace recycle::testing

#endif  // RECYCLE_TESTS_MULTIPROCESS_PACED_H_
