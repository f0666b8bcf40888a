// recycle: re-routing. A dead worker's micro-batches go to its stage's peers under the plan for the
// largest number of failures of a stage; the iteration in progress is repaired, not repeated: what
// the dead worker had done of it is redone by its peers. A node that comes takes the place that
// helps most and copies its state in the background.
//
// Failure normalization: when a stage has lost more workers than it must have, a live worker of
// another stage takes over one of its dead places as soon as that pays: gain until the mean repair
// above the copy's cost to the job. One move at a time, in the background. With moves off nobody
// changes roles: a node that comes takes its block's own places.
//
// A stage without workers has lost its state: the job restarts from a checkpoint, with workers of
// other stages filling the empty one; with fewer workers than stages it waits for the next node.
//
// Ablations: recycle-rerun repeats the iteration in progress; recycle-no-stagger, -no-decouple and
// -naive run plans without those techniques.
#ifndef RECYCLE_SIMULATOR_RECYCLE_POLICY_H_
#define RECYCLE_SIMULATOR_RECYCLE_POLICY_H_

#include <optional>
#include <string>
#include <vector>

#include "recycle/simulator/failure_policy.h"

namespace recycle {

struct RecycleOptions {
  std::string_view name = "recycle";
  PlanVariant variant = PlanVariant::kFull;
  bool rerun = false;  // the iteration in progress is lost at a failure
};

class RecyclePolicy : public FailurePolicy {
 public:
  RecyclePolicy(const PolicyInput& input, const RecycleOptions& options);
  std::string_view name() const override { return options_.name; }
  Status Start(const std::vector<bool>& filled_blocks) override;
  StatusOr<Reaction> Fail(int block, const Moment& moment) override;
  StatusOr<Reaction> Join(int block, const Moment& moment) override;
  double NextTimer() const override;
  StatusOr<Reaction> OnTimer(const Moment& moment) override;
  PlanInForce plan() const override;

 private:
  // A worker on its way into a place: a new one, or one that leaves another place for it.
  struct Copy {
    int worker = 0;
    int place = 0;
    double end_s = 0;
  };

  double CopySeconds() const;
  int HolderOf(int place) const { return worker_at_[static_cast<std::size_t>(place)]; }
  void Occupy(int worker, int place);
  void Vacate(int place, double now_s);
  bool IsReserved(int place) const;
  // Dead workers per stage once every copy is done.
  std::vector<int> FailedAfterCopies() const;
  StatusOr<double> PeriodFor(const std::vector<int>& failed_per_stage) const;
  Status UpdatePace();

  // Takes worker `worker` out; adds what its peers have to redo to `redo_s`.
  void LoseWorker(int worker, const Moment& moment, double& redo_s);
  // The place for a worker that comes; -1 if every dead place is on its way to be filled.
  StatusOr<int> PlaceFor(int worker) const;
  // The place that lowers the period most, of those the lowest.
  StatusOr<int> BestPlace() const;
  // Ends every copy and fills empty stages from the fullest ones, all from a checkpoint.
  void LayOutAgain(double now_s);

  // Starts the next role move if one pays, or notes when to look again.
  Status PlanMove(double now_s);
  // The largest number of failures of a stage that is worth moving to; the present one if none is.
  StatusOr<int> MoveTarget(const std::vector<int>& failed) const;
  int LongestDeadAbove(const std::vector<int>& failed, int target) const;
  int DonorBelow(const std::vector<int>& failed, int target) const;

  const RecycleOptions options_;
  std::vector<int> worker_at_;      // by place; -1: nobody
  std::vector<int> place_of_;       // by worker (its number is its block's place); -1: none
  std::vector<double> dead_since_;  // by place
  std::vector<Copy> joining_;
  std::optional<Copy> move_;
  double look_again_s_ = std::numeric_limits<double>::infinity();
  bool halted_ = false;  // fewer workers than stages
};

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_RECYCLE_POLICY_H_
