// A policy: what a training system does when workers die and come back. The engine (simulation.h)
// keeps the time and the books; a policy says how fast the job runs now and what an event costs.
//
// A stall stops all progress. Work is counted in *batches* (a whole global batch is 1) beside
// *iterations*: they differ where a policy drops part of the batch. Work may also be bound to
// checkpoints: then what was done since the last one is lost when a policy says so.
//
// Not thread-safe. Sources: docs/simulator.md has every policy's rules.
#ifndef RECYCLE_SIMULATOR_FAILURE_POLICY_H_
#define RECYCLE_SIMULATOR_FAILURE_POLICY_H_

#include <limits>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/simulator/live_places.h"
#include "recycle/simulator/policy_constants.h"
#include "recycle/simulator/simulated_job.h"
#include "recycle/simulator/simulation_planner.h"

namespace recycle {

// What every policy of a simulation is made of. Outlives them.
struct PolicyInput {
  const SimulatedJob& job;
  const PolicyConstants& constants;
  SimulationPlanner& planner;
  double mtbf_s = std::numeric_limits<double>::infinity();  // of the whole job
  double mean_repair_s = 0;
  bool move_roles = true;  // recycle: live workers take over dead places
};

// How fast the job runs.
struct Pace {
  double iterations_per_s = 0;
  double batches_per_s = 0;  // iterations times the share of the batch that they train
  double period_s = 0;       // of the schedule in force
};

// The schedule in force, for the audit.
struct PlanInForce {
  enum class Kind : std::uint8_t { kNone, kOneFOneB, kRerouting };
  Kind kind = Kind::kNone;
  int pipelines = 0;      // kOneFOneB
  int micro_batches = 0;  // kOneFOneB, per pipeline
  PlanVariant variant = PlanVariant::kFull;
  std::vector<WorkerId> failed = {};  // kRerouting
  auto operator<=>(const PlanInForce&) const = default;
};

// How often work is made safe, and what that costs while running.
struct Checkpointing {
  double interval_s = std::numeric_limits<double>::infinity();  // of work
  double cost_s = 0;
  // The share of time that is work.
  double Share() const { return cost_s == 0 ? 1 : 1 / (1 + cost_s / interval_s); }
};

// The moment of an event, as the engine sees it.
struct Moment {
  double now_s = 0;
  double iteration_part = 0;  // x: the part done of the iteration in progress
  bool stalled = false;
};

// What an event does to the job.
struct Reaction {
  std::optional<double> stall_s = {};  // a stall of this length begins, in place of a running one
  bool stall_again = false;            // a running stall begins anew, as long as it was
  bool iteration_lost = false;         // the part done of the iteration in progress is lost
  bool back_to_checkpoint = false;     // everything since the last checkpoint is lost
  bool checkpoint = false;             // everything until now is safe
  double lost_batches = 0;             // in addition
};

class FailurePolicy {
 public:
  explicit FailurePolicy(const PolicyInput& input);
  virtual ~FailurePolicy() = default;
  FailurePolicy(const FailurePolicy&) = delete;
  FailurePolicy& operator=(const FailurePolicy&) = delete;

  virtual std::string_view name() const = 0;
  // Called once, before anything else, with the blocks that have a node. Errors: the planner's.
  virtual Status Start(const std::vector<bool>& filled_blocks) = 0;
  // A block's node is gone, or has come. Errors: the planner's.
  virtual StatusOr<Reaction> Fail(int block, const Moment& moment) = 0;
  virtual StatusOr<Reaction> Join(int block, const Moment& moment) = 0;
  // When the policy wants to be called next, and the call.
  virtual double NextTimer() const { return std::numeric_limits<double>::infinity(); }
  virtual StatusOr<Reaction> OnTimer(const Moment& /*moment*/) { return Reaction{}; }

  const Pace& pace() const { return pace_; }
  const Checkpointing& checkpointing() const { return checkpointing_; }
  virtual PlanInForce plan() const = 0;
  // The workers by place, as the policy has laid them out.
  const LivePlaces& live() const { return live_; }
  virtual bool out_of_memory() const { return false; }
  // A reconstruction or assumption worth printing beside the result; empty if there is none.
  virtual std::string note() const { return ""; }

 protected:
  static double Seconds(Ticks period) { return static_cast<double>(period) * 1e-9; }
  // The job runs iterations of `period` that train `share` of the batch.
  static Pace PaceOf(Ticks period, double share = 1);
  // Checkpoints at Young's interval (J. W. Young, "A first order approximation to the optimum
  // checkpoint interval", 1974), or at the one that `constants` state.
  Checkpointing CheckpointsOf(const RestartConstants& constants) const;
  // The places of a block.
  std::vector<int> PlacesOf(int block) const;

  const PolicyInput input_;
  LivePlaces live_;
  Pace pace_;
  // Every policy restarts from a checkpoint when all else fails, by restart's constants; only some
  // pay for keeping checkpoints while they run.
  Checkpointing checkpointing_;
};

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_FAILURE_POLICY_H_
