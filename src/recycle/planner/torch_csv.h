// Export for PyTorch: the compute-only schedule CSV that torch.distributed.pipelining reads
// (`_PipelineScheduleRuntime._load_csv(file, format="compute_only")`).
//
// One line per rank (worker column), its actions in order, separated by commas: "0F0,0F1,0I0,0W0":
// stage, kind (F; I and W; B for the full backward), micro-batch. PyTorch runs the same lines on
// every data-parallel replica, so only fault-free plans whose pipelines all run alike can be
// exported.
#ifndef RECYCLE_PLANNER_TORCH_CSV_H_
#define RECYCLE_PLANNER_TORCH_CSV_H_

#include <string>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

// Error: kInvalidArgument if the plan has failures, or if pipelines differ from pipeline 0 (hint:
// plan with --affinity strict).
StatusOr<std::string> PlanToTorchCsv(const Plan& plan);

}  // namespace recycle

#endif  // RECYCLE_PLANNER_TORCH_CSV_H_
