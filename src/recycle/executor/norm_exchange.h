// The global gradient norm over all stages, never through the coordinator: after a stage's commit
// round the sum of squares goes up the stages, each adding its own, and the last stage's total
// comes back down with the verdict whether all stop after this iteration. Nobody has the total
// without an entry of every stage, so whoever has it knows that every live worker holds its reduced
// gradient.
//
// Peers of a stage hold the same bits, so it does not matter whom one hears: worker (k,i) hears
// (k,j) of the neighbouring stage j where that lives, else the live peer of rank k mod n there.
#ifndef RECYCLE_EXECUTOR_NORM_EXCHANGE_H_
#define RECYCLE_EXECUTOR_NORM_EXCHANGE_H_

#include <functional>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/executor/peer_network.h"

namespace recycle {

// The worker of `stage` that `listener` hears. `members`: the live workers, ascending; one of them
// at least is in `stage`.
WorkerId NormSource(const std::vector<WorkerId>& members, WorkerId listener, StageId stage);

// The workers of `stage` that hear `speaker`, ascending.
std::vector<WorkerId> NormListeners(const std::vector<WorkerId>& members, WorkerId speaker,
                                    StageId stage);

struct GlobalNorm {
  double squared = 0;  // sum of squares over all parameters, each once
  bool stop = false;   // all workers stop after this iteration
};

// The way up and the answer: returns the total of `iteration`. All live workers call it. `own` is
// what this stage adds; its `stop` counts on the last stage only. `before_answer` runs between the
// two: fault injection. Errors: kAborted (see PeerNetwork).
StatusOr<GlobalNorm> CollectNorm(PeerNetwork& network, int num_stages, int iteration,
                                 GlobalNorm own, const std::function<void()>& before_answer);

// The way down: tells the listeners of the stage below. Call it right after CollectNorm. Error:
// kUnavailable if one of them is gone; the others are told.
Status PassNormDown(PeerNetwork& network, int iteration, const GlobalNorm& total);

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_NORM_EXCHANGE_H_
