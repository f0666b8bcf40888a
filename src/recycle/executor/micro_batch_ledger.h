// Which actions this worker has done of the iterations that are not closed: an action counts at its
// end or not at all. Together with the inbox, the boundary log and the parts of the reduced
// gradient it makes the Ledger that answers a Prepare.
//
//   ledger.Record(iteration, action);             // F, I, W or B, when it is done
//   ledger.Report(received, log.keys(), M)        // one entry per iteration that left anything
//   ledger.DropBefore(iteration);                 // closed
//
// Belongs to the training thread.
// Source: section 1 of the protocol in docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_MICRO_BATCH_LEDGER_H_
#define RECYCLE_EXECUTOR_MICRO_BATCH_LEDGER_H_

#include <map>
#include <vector>

#include "recycle/comm/frame.h"
#include "recycle/plan/action.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class MicroBatchLedger {
 public:
  // F before I before W of a micro-batch, each once; B is I and W.
  void Record(int iteration, const Action& done);
  void DropBefore(int iteration);
  void Clear() { progress_.clear(); }

  // `received` and `logged`: keys of boundary tensors in the inbox and in the log. `micro_batches`
  // is M. Parts of the reduced gradient are the caller's to fill in.
  std::map<int, IterationLedger> Report(const std::vector<FrameKey>& received,
                                        const std::vector<FrameKey>& logged,
                                        int micro_batches) const;

 private:
  std::map<int, std::map<MicroBatch, Progress>> progress_;  // by iteration
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_MICRO_BATCH_LEDGER_H_
