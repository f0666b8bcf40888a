// From a job's config to what planner, coordinator and reports want. Pure, but for reading a paced
// job's profile.
#ifndef RECYCLE_APP_JOB_CONVERSION_H_
#define RECYCLE_APP_JOB_CONVERSION_H_

#include <string_view>
#include <vector>

#include "recycle/app/job_config.h"
#include "recycle/base/status.h"
#include "recycle/coordinator/coordinator.h"
#include "recycle/plan/model_shape.h"
#include "recycle/plan/plan.h"
#include "recycle/planner/planner.h"

namespace recycle {

// One core of a server in fp32. Durations computed from shapes only have to be right relative to
// one another; this makes them the right size too.
inline constexpr double kFlopsPerSecond = 2.0e10;

ModelShape ModelShapeOf(const JobConfig& config);
Parallelism ParallelismOf(const JobConfig& config);

// The job's layers per stage: the same split for executors, plans and reports.
StatusOr<std::vector<LayerRange>> LayersOf(const JobConfig& config);

CoordinatorOptions CoordinatorOptionsOf(const JobConfig& config);

// What a paced job's actions take, by its profile. Error: kInvalidArgument for a
// profile that cannot be read or does not fit the job.
StatusOr<CostProfile> PacedCostsOf(const JobConfig& config);

// schedule.staggered, unless schedule.method is one that plans synchronous steps: a job keeps to
// one kind of steps.
bool HasStaggeredSteps(const JobConfig& config);
// Can a plan of this method (--method) have staggered steps?
bool PlansStaggeredSteps(std::string_view method);

// What the planner is asked once the places `failed` are dead and some workers are slow. Costs come
// from the model's shape, those of a paced job in time from its profile, F, I and W from what was
// measured if anything was; `device_bytes` is the memory one worker may use (WorkerMemoryBytes).
// gpipe and 1f1b are schedules for a whole job: once
// a place is dead or slow, the request is for adaptive. Error: kInvalidArgument for a job that does
// not fit this machine or its profile.
StatusOr<PlanRequest> PlanRequestOf(const JobConfig& config, const PlanQuestion& question,
                                    double device_bytes);

// This machine's memory divided by the job's workers, all of which run on it.
double WorkerMemoryBytes(const JobConfig& config);

}  // namespace recycle

#endif  // RECYCLE_APP_JOB_CONVERSION_H_
