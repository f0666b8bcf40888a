#include "recycle/simulator/simulation.h"

#include <algorithm>
#include <cmath>
#include <memory>
#include <vector>

namespace recycle {
namespace {

// Time and books of one policy's job.
class Engine {
 public:
  Engine(const SimulatedJob& job, FailurePolicy& policy, const IntervalObserver& observer)
      : policy_(policy), observer_(observer), samples_per_batch_(job.samples_per_batch()) {}

  Status Run(const JobTimeline& timeline) {
    RC_RETURN_IF_ERROR(policy_.Start(timeline.filled));
    for (const JobEvent& event : timeline.events) {
      RC_RETURN_IF_ERROR(RunTimersUntil(event.time_s));
      RC_RETURN_IF_ERROR(AdvanceTo(event.time_s));
      const Pace before = policy_.pace();
      RC_ASSIGN_OR_RETURN(const Reaction reaction, event.join ? policy_.Join(event.block, Now())
                                                              : policy_.Fail(event.block, Now()));
      Apply(reaction, before);
    }
    RC_RETURN_IF_ERROR(RunTimersUntil(timeline.duration_s));
    RC_RETURN_IF_ERROR(AdvanceTo(timeline.duration_s));
    if (interval_lost_ == 0) return OkStatus();
    return Report(0, 0);  // lost by an event at the very end
  }

  double samples() const { return batches_ * samples_per_batch_; }
  double lost_samples() const { return lost_batches_ * samples_per_batch_; }
  double lost_work_s() const { return lost_work_s_; }
  double stalled_s() const { return stalled_s_; }

 private:
  Moment Now() const {
    return {.now_s = now_s_, .iteration_part = iteration_part_, .stalled = stall_end_s_ > now_s_};
  }

  Status RunTimersUntil(double time_s) {
    while (policy_.NextTimer() <= time_s) {
      RC_RETURN_IF_ERROR(AdvanceTo(std::max(now_s_, policy_.NextTimer())));
      const Pace before = policy_.pace();
      RC_ASSIGN_OR_RETURN(const Reaction reaction, policy_.OnTimer(Now()));
      Apply(reaction, before);
    }
    return OkStatus();
  }

  Status AdvanceTo(double time_s) {
    const double all_s = time_s - now_s_;
    if (all_s <= 0) return OkStatus();
    const Pace& pace = policy_.pace();
    const bool halted = pace.batches_per_s == 0;
    const double stall_s = halted ? all_s : std::clamp(stall_end_s_ - now_s_, 0.0, all_s);
    const double run_s = all_s - stall_s;
    batches_ += run_s * pace.batches_per_s;
    iteration_part_ += run_s * pace.iterations_per_s;
    iteration_part_ -= std::floor(iteration_part_);
    KeepCheckpoints(run_s, pace);
    stalled_s_ += stall_s;
    RC_RETURN_IF_ERROR(Report(all_s, stall_s));
    now_s_ = time_s;
    return OkStatus();
  }

  // The checkpoints that fall into the last `run_s` seconds of running.
  void KeepCheckpoints(double run_s, const Pace& pace) {
    const Checkpointing& checkpointing = policy_.checkpointing();
    const double cycle_s = checkpointing.interval_s + checkpointing.cost_s;
    since_checkpoint_s_ += run_s;
    if (since_checkpoint_s_ < cycle_s) return;
    since_checkpoint_s_ = std::fmod(since_checkpoint_s_, cycle_s);
    safe_batches_ = batches_ - since_checkpoint_s_ * pace.batches_per_s;
  }

  Status Report(double all_s, double stall_s) {
    if (observer_ == nullptr) return OkStatus();
    const Interval interval{.from_s = now_s_,
                            .to_s = now_s_ + all_s,
                            .live = &policy_.live(),
                            .rate = policy_.pace().batches_per_s,
                            .period_s = policy_.pace().period_s,
                            .stall_s = stall_s,
                            .lost_samples = interval_lost_ * samples_per_batch_,
                            .policy = &policy_};
    interval_lost_ = 0;
    return observer_(interval);
  }

  void Apply(const Reaction& reaction, const Pace& before) {
    Lose(reaction, before);
    if (reaction.checkpoint) MakeSafe();
    if (reaction.stall_s.has_value()) {
      stall_s_ = *reaction.stall_s;
      stall_end_s_ = now_s_ + stall_s_;
    } else if (reaction.stall_again && stall_end_s_ > now_s_) {
      stall_end_s_ = now_s_ + stall_s_;
    }
  }

  void Lose(const Reaction& reaction, const Pace& before) {
    double lost = reaction.lost_batches;
    const double share =
        before.iterations_per_s > 0 ? before.batches_per_s / before.iterations_per_s : 0;
    if (reaction.iteration_lost) {
      lost += iteration_part_ * share;
      iteration_part_ = 0;
    } else if (share > 0) {
      iteration_part_ = std::max(0.0, iteration_part_ - lost / share);
    }
    if (reaction.back_to_checkpoint) {
      lost = batches_ - safe_batches_;
      iteration_part_ = 0;
    }
    if (lost > 0) {
      batches_ -= lost;
      lost_batches_ += lost;
      interval_lost_ += lost;
      if (before.batches_per_s > 0) lost_work_s_ += lost / before.batches_per_s;
    }
    safe_batches_ = std::min(safe_batches_, batches_);
    if (reaction.back_to_checkpoint) MakeSafe();
  }

  void MakeSafe() {
    safe_batches_ = batches_;
    since_checkpoint_s_ = 0;
  }

  FailurePolicy& policy_;
  const IntervalObserver& observer_;
  const double samples_per_batch_;
  double now_s_ = 0;
  double batches_ = 0;         // done and kept
  double iteration_part_ = 0;  // of the iteration in progress
  double stall_s_ = 0;         // length of the last stall
  double stall_end_s_ = 0;
  double safe_batches_ = 0;        // in the last checkpoint
  double since_checkpoint_s_ = 0;  // running time
  double lost_batches_ = 0;
  double interval_lost_ = 0;  // by events since the last interval
  double lost_work_s_ = 0;
  double stalled_s_ = 0;
};

// Batches per second of `policy` when every worker is there and nothing ever fails.
StatusOr<double> OwnRate(const SimulationRequest& request, std::string_view name) {
  const PolicyInput input{
      .job = request.job, .constants = request.constants, .planner = request.planner};
  RC_ASSIGN_OR_RETURN(const std::unique_ptr<FailurePolicy> policy, MakePolicy(name, input));
  const auto blocks = static_cast<std::size_t>(request.job.num_blocks());
  RC_RETURN_IF_ERROR(policy->Start(std::vector<bool>(blocks, true)));
  return policy->pace().batches_per_s;
}

}  // namespace

StatusOr<PolicyResult> Simulate(const SimulationRequest& request, const JobTimeline& timeline,
                                std::string_view name, const IntervalObserver& observer) {
  const SimulatedJob& job = request.job;
  const PolicyInput input{.job = job,
                          .constants = request.constants,
                          .planner = request.planner,
                          .mtbf_s = timeline.mtbf_s,
                          .mean_repair_s = timeline.mean_repair_s,
                          .move_roles = request.move_roles};
  RC_ASSIGN_OR_RETURN(const double own_rate, OwnRate(request, name));
  RC_ASSIGN_OR_RETURN(const Ticks reference, request.planner.OneFOneBPeriod(job.micro_batches));
  RC_ASSIGN_OR_RETURN(const std::unique_ptr<FailurePolicy> policy, MakePolicy(name, input));
  Engine engine(job, *policy, observer);
  RC_RETURN_IF_ERROR(engine.Run(timeline));

  PolicyResult result;
  result.policy = name;
  result.samples = engine.samples();
  const double batches = result.samples / job.samples_per_batch();
  result.goodput = batches * static_cast<double>(reference) * 1e-9 / timeline.duration_s;
  result.relative_to_own = own_rate > 0 ? batches / (timeline.duration_s * own_rate) : 0;
  result.lost_samples = engine.lost_samples();
  result.lost_work_hours = engine.lost_work_s() / kSecondsPerHour;
  result.recovery_hours = engine.stalled_s() / kSecondsPerHour;
  result.ettr =
      std::max(0.0, 1 - (engine.stalled_s() + engine.lost_work_s()) / timeline.duration_s);
  result.gpu_hours = timeline.node_s / kSecondsPerHour * job.gpus_per_node;
  result.cost_usd = result.gpu_hours * request.constants.gpu_hour;
  result.out_of_memory = policy->out_of_memory();
  result.note = policy->note();
  return result;
}

}  // namespace recycle
