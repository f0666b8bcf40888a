#include "recycle/simulator/recycle_policy.h"

#include <algorithm>

#include "recycle/base/check.h"
#include "recycle/base/index.h"

namespace recycle {
namespace {

constexpr double kNever = std::numeric_limits<double>::infinity();

int Largest(const std::vector<int>& counts) {
  return *std::max_element(counts.begin(), counts.end());
}

}  // namespace

RecyclePolicy::RecyclePolicy(const PolicyInput& input, const RecycleOptions& options)
    : FailurePolicy(input),
      options_(options),
      worker_at_(Index(input.job.num_places())),
      place_of_(Index(input.job.num_places())),
      dead_since_(Index(input.job.num_places()), 0) {
  for (int place = 0; place < input.job.num_places(); ++place) {
    worker_at_[Index(place)] = place;
    place_of_[Index(place)] = place;
  }
}

double RecyclePolicy::CopySeconds() const {
  const Parallelism& parallel = input_.job.parallel;
  const double stage_parameters = input_.job.parameters / parallel.pipeline / parallel.tensor;
  return input_.constants.recycle_state_bytes * stage_parameters /
         (input_.constants.recycle_copy_gb_per_s * 1e9);
}

void RecyclePolicy::Occupy(int worker, int place) {
  RC_CHECK(!live_.IsLive(place)) << "place " << place << " is taken";
  worker_at_[Index(place)] = worker;
  place_of_[Index(worker)] = place;
  live_.Set(place, true);
}

void RecyclePolicy::Vacate(int place, double now_s) {
  place_of_[Index(HolderOf(place))] = -1;
  worker_at_[Index(place)] = -1;
  live_.Set(place, false);
  dead_since_[Index(place)] = now_s;
}

bool RecyclePolicy::IsReserved(int place) const {
  if (move_.has_value() && move_->place == place) return true;
  return std::any_of(joining_.begin(), joining_.end(),
                     [&](const Copy& copy) { return copy.place == place; });
}

std::vector<int> RecyclePolicy::FailedAfterCopies() const {
  std::vector<int> failed = live_.failed_per_stage();
  for (const Copy& copy : joining_) --failed[Index(live_.StageOf(copy.place))];
  if (move_.has_value()) {
    --failed[Index(live_.StageOf(move_->place))];
    ++failed[Index(live_.StageOf(place_of_[Index(move_->worker)]))];
  }
  return failed;
}

StatusOr<double> RecyclePolicy::PeriodFor(const std::vector<int>& failed_per_stage) const {
  if (Largest(failed_per_stage) >= live_.num_pipelines()) return kNever;
  RC_ASSIGN_OR_RETURN(const Ticks period,
                      input_.planner.ReroutingPeriod(options_.variant, failed_per_stage));
  return Seconds(period);
}

Status RecyclePolicy::UpdatePace() {
  pace_ = {};
  if (halted_) return OkStatus();
  RC_ASSIGN_OR_RETURN(const double period_s, PeriodFor(live_.failed_per_stage()));
  pace_ = {.iterations_per_s = 1 / period_s, .batches_per_s = 1 / period_s, .period_s = period_s};
  return OkStatus();
}

PlanInForce RecyclePolicy::plan() const {
  if (halted_) return {};
  return {
      .kind = PlanInForce::Kind::kRerouting, .variant = options_.variant, .failed = live_.Failed()};
}

Status RecyclePolicy::Start(const std::vector<bool>& filled_blocks) {
  for (std::size_t block = 0; block < filled_blocks.size(); ++block) {
    if (filled_blocks[block]) continue;
    for (const int place : PlacesOf(static_cast<int>(block))) Vacate(place, 0);
  }
  if (live_.HasEmptyStage()) LayOutAgain(0);
  RC_RETURN_IF_ERROR(UpdatePace());
  return PlanMove(0);
}

void RecyclePolicy::LoseWorker(int worker, const Moment& moment, double& redo_s) {
  std::erase_if(joining_, [&](const Copy& copy) { return copy.worker == worker; });
  if (move_.has_value() && move_->worker == worker) move_.reset();
  const int place = place_of_[Index(worker)];
  if (place < 0) return;
  Vacate(place, moment.now_s);
  const int stage = live_.StageOf(place);
  const StageCosts& costs = input_.job.costs.stages[Index(stage)];
  const double micro_batch_s =
      Seconds(costs.forward + costs.backward_input + costs.backward_weight);
  redo_s += moment.iteration_part * input_.job.micro_batches * micro_batch_s /
            std::max(1, live_.LiveAt(stage));
}

StatusOr<Reaction> RecyclePolicy::Fail(int block, const Moment& moment) {
  const int live_before = live_.count();
  const Pace before = pace_;
  double redo_s = 0;
  for (const int worker : PlacesOf(block)) LoseWorker(worker, moment, redo_s);
  if (live_.count() == live_before) return Reaction{};  // it was still copying
  Reaction reaction{.stall_s =
                        input_.constants.recycle_detect_s + input_.constants.recycle_resume_s};
  if (live_.HasEmptyStage()) {
    reaction = {.stall_s = input_.constants.recycle_detect_s + input_.constants.restart.restart_s,
                .back_to_checkpoint = true};
    LayOutAgain(moment.now_s);
  } else if (options_.rerun) {
    reaction.iteration_lost = true;
  } else {
    reaction.lost_batches = redo_s * before.batches_per_s;
  }
  RC_RETURN_IF_ERROR(UpdatePace());
  RC_RETURN_IF_ERROR(PlanMove(moment.now_s));
  return reaction;
}

void RecyclePolicy::LayOutAgain(double now_s) {
  move_.reset();
  for (const Copy& copy : joining_) Occupy(copy.worker, copy.place);
  joining_.clear();
  halted_ = live_.count() < live_.num_stages();
  if (halted_) return;
  while (live_.HasEmptyStage()) {
    const std::vector<int>& failed = live_.failed_per_stage();
    const auto empty = static_cast<int>(
        std::find(failed.begin(), failed.end(), live_.num_pipelines()) - failed.begin());
    const auto fullest =
        static_cast<int>(std::min_element(failed.begin(), failed.end()) - failed.begin());
    int donor = live_.num_places() - live_.num_stages() + fullest;
    while (!live_.IsLive(donor)) donor -= live_.num_stages();
    const int worker = HolderOf(donor);
    Vacate(donor, now_s);
    Occupy(worker, empty);  // the empty stage's place in pipeline 0
  }
}

StatusOr<int> RecyclePolicy::BestPlace() const {
  std::vector<int> failed = FailedAfterCopies();
  int best = -1;
  double least = kNever;
  for (int place = 0; place < live_.num_places(); ++place) {
    if (live_.IsLive(place) || IsReserved(place)) continue;
    // Only a stage's first dead place need be looked at: the others help as much.
    int& count = failed[Index(live_.StageOf(place))];
    if (count <= 0) continue;
    --count;
    RC_ASSIGN_OR_RETURN(const double period_s, PeriodFor(failed));
    ++count;
    if (best >= 0 && period_s >= least) continue;
    best = place;
    least = period_s;
  }
  return best;
}

StatusOr<int> RecyclePolicy::PlaceFor(int worker) const {
  const bool own_is_free = !live_.IsLive(worker) && !IsReserved(worker);
  if (!input_.move_roles && own_is_free) return worker;
  return BestPlace();
}

StatusOr<Reaction> RecyclePolicy::Join(int block, const Moment& moment) {
  for (const int worker : PlacesOf(block)) {
    RC_ASSIGN_OR_RETURN(int place, PlaceFor(worker));
    if (place < 0) {  // the last dead place is being filled by a move, which is not needed now
      RC_CHECK(move_.has_value()) << "more workers than places";
      place = move_->place;
      move_.reset();
    }
    joining_.push_back({worker, place, moment.now_s + CopySeconds()});
  }
  if (!halted_) {
    RC_RETURN_IF_ERROR(PlanMove(moment.now_s));
    return Reaction{};
  }
  LayOutAgain(moment.now_s);
  RC_RETURN_IF_ERROR(UpdatePace());
  if (halted_) return Reaction{};
  RC_RETURN_IF_ERROR(PlanMove(moment.now_s));
  return Reaction{.stall_s = input_.constants.restart.restart_s};
}

double RecyclePolicy::NextTimer() const {
  double next_s = look_again_s_;
  for (const Copy& copy : joining_) next_s = std::min(next_s, copy.end_s);
  if (move_.has_value()) next_s = std::min(next_s, move_->end_s);
  return next_s;
}

StatusOr<Reaction> RecyclePolicy::OnTimer(const Moment& moment) {
  look_again_s_ = kNever;
  for (const Copy& copy : joining_) {
    if (copy.end_s <= moment.now_s) Occupy(copy.worker, copy.place);
  }
  std::erase_if(joining_, [&](const Copy& copy) { return copy.end_s <= moment.now_s; });
  if (move_.has_value() && move_->end_s <= moment.now_s) {
    const Copy move = *move_;
    move_.reset();
    Vacate(place_of_[Index(move.worker)], moment.now_s);
    Occupy(move.worker, move.place);
  }
  RC_RETURN_IF_ERROR(UpdatePace());
  RC_RETURN_IF_ERROR(PlanMove(moment.now_s));
  return Reaction{};
}

StatusOr<int> RecyclePolicy::MoveTarget(const std::vector<int>& failed) const {
  const int present = Largest(failed);
  int sum = 0;
  for (const int count : failed) sum += count;
  const int least = (sum + live_.num_stages() - 1) / live_.num_stages();
  RC_ASSIGN_OR_RETURN(const double present_s, PeriodFor(failed));
  const double cost_s = CopySeconds() / live_.num_pipelines();
  int best = present;
  double best_gain_s = 0;
  for (int target = least; target < present; ++target) {
    // Every stage at most at `target`; the surplus moves to stages below it.
    std::vector<int> after(failed.size(), target);
    int moves = 0;
    for (const int count : failed) moves += std::max(0, count - target);
    RC_ASSIGN_OR_RETURN(const double period_s, PeriodFor(after));
    const double gain_s = input_.mean_repair_s * (1 - period_s / present_s) - moves * cost_s;
    if (gain_s <= best_gain_s) continue;
    best = target;
    best_gain_s = gain_s;
  }
  return best;
}

int RecyclePolicy::LongestDeadAbove(const std::vector<int>& failed, int target) const {
  int longest = -1;
  for (int place = 0; place < live_.num_places(); ++place) {
    if (live_.IsLive(place) || failed[Index(live_.StageOf(place))] <= target) continue;
    if (IsReserved(place)) continue;
    if (longest < 0 || dead_since_[Index(place)] < dead_since_[Index(longest)]) longest = place;
  }
  return longest;
}

int RecyclePolicy::DonorBelow(const std::vector<int>& failed, int target) const {
  int stage = -1;
  for (int i = 0; i < live_.num_stages(); ++i) {
    if (failed[Index(i)] >= target || live_.LiveAt(i) < 2) continue;
    if (stage < 0 || failed[Index(i)] <= failed[Index(stage)]) stage = i;
  }
  if (stage < 0) return -1;
  int place = live_.num_places() - live_.num_stages() + stage;
  while (!live_.IsLive(place)) place -= live_.num_stages();
  return HolderOf(place);
}

Status RecyclePolicy::PlanMove(double now_s) {
  look_again_s_ = kNever;
  if (!input_.move_roles || halted_ || move_.has_value() || input_.mean_repair_s == 0) {
    return OkStatus();
  }
  const std::vector<int> failed = FailedAfterCopies();
  if (Largest(failed) < 2) return OkStatus();  // one failure a stage is as even as it gets
  RC_ASSIGN_OR_RETURN(const int target, MoveTarget(failed));
  const int place = LongestDeadAbove(failed, target);
  const int worker = DonorBelow(failed, target);
  if (place < 0 || worker < 0) return OkStatus();
  const double copy_s = CopySeconds();
  const double ready_s = dead_since_[Index(place)] + copy_s;
  if (ready_s > now_s) {
    look_again_s_ = ready_s;
    return OkStatus();
  }
  move_ = Copy{worker, place, now_s + copy_s};
  return OkStatus();
}

}  // namespace recycle
