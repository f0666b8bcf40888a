// Proven lower bounds on the period of any legal plan of a job.
//
// Every formula is planner.md's section 1 (docs/planner.md derives them): per stage, the work of
// its busiest worker, the idle time its memory forces on it before its first I, and the tail other
// stages still owe after its last one. Integer ticks; pure.
#ifndef RECYCLE_PLANNER_BOUNDS_H_
#define RECYCLE_PLANNER_BOUNDS_H_

#include <vector>

#include "recycle/plan/costs.h"
#include "recycle/planner/flat_job.h"

namespace recycle {

// The bound for the job's own options: staggered or synchronous, decoupled or not, with stragglers
// and virtual stages. Holds for any assignment of micro-batches to live workers.
Ticks LowerBound(const FlatJob& job);

// The bound on the makespan (from rest) for the job's own options.
Ticks MakespanLowerBound(const FlatJob& job);

// The bound of one stage alone if it had `live` workers: what failure normalization compares. Needs
// one stage per worker.
Ticks StageLowerBound(const FlatJob& job, int stage, int live);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_BOUNDS_H_
