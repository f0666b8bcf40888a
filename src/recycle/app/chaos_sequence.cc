#include "recycle/app/chaos_sequence.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/prng.h"

namespace recycle {
namespace {

constexpr int kFirstIteration = 2;
constexpr int kSpacing = 4;  // iterations from one trial to the next
// Iterations without faults at the end, in which whatever was hit has to show.
constexpr int kTail = 4;
// The third break of links within a minute costs a worker (docs/RECOVERY.md): no run has as many.
constexpr int kDropsPerRun = 2;
constexpr int kCoordinatorFaultsPerRun = 2;
constexpr int kStoreFaultsPerRun = 2;
constexpr int kSlowPerRun = 2;
constexpr int kAttempts = 100;  // to draw something that is still allowed
// Of the failure timeout: a nap goes unnoticed unless the machine is busy, a sleep is a death.
constexpr double kNap = 0.3;
constexpr double kSleep = 1.5;
constexpr double kSlowFactor = 3;
constexpr double kSlowSeconds = 0.2;

enum class Deed {
  kKill,
  kSleep,
  kNap,
  kDiskFull,
  kSlow,
  kDrop,
  kKillCoordinator,
  kNapCoordinator,
  kStopStore
};

// As often as they are drawn.
constexpr std::array kDeeds = {Deed::kKill,           Deed::kKill,     Deed::kKill,
                               Deed::kKill,           Deed::kKill,     Deed::kKill,
                               Deed::kSleep,          Deed::kNap,      Deed::kSlow,
                               Deed::kDrop,           Deed::kDiskFull, Deed::kKillCoordinator,
                               Deed::kNapCoordinator, Deed::kStopStore};

// Milliseconds, so that the text of a fault is short.
double Rounded(double seconds) { return std::max(1.0, std::round(seconds * 1000)) / 1000; }

// Do they hit different processes? A dead worker comes to no second fault.
bool AreApart(const Fault& a, const Fault& b) {
  if (IsOfCoordinator(b)) return a.target.kind != b.target.kind;
  const bool is_link = b.target.kind == TargetKind::kLink;
  return !Hits(a, b.target.worker) && !(is_link && Hits(a, b.target.other));
}

class TrialMaker {
 public:
  TrialMaker(const ChaosShape& shape, std::uint64_t seed) : shape_(shape), prng_(seed) {}

  std::vector<ChaosTrial> Make() {
    std::vector<ChaosTrial> trials;
    for (int first = kFirstIteration; first + kSpacing + kTail <= shape_.iterations + 1;
         first += kSpacing) {
      const int iteration = first + static_cast<int>(prng_.Below(kSpacing));
      const std::optional<Fault> fault = MakeFault(iteration, /*earlier=*/nullptr);
      if (!fault) break;
      ChaosTrial trial{{*fault}};
      if (prng_.Below(4) == 0) {
        const std::optional<Fault> second = MakeFault(iteration, &*fault);
        if (second) trial.faults.push_back(*second);
      }
      trials.push_back(std::move(trial));
    }
    return trials;
  }

 private:
  // `earlier`: the first of two at once. Absent: next to nothing is allowed any more.
  std::optional<Fault> MakeFault(int iteration, const Fault* earlier) {
    for (int attempt = 0; attempt < kAttempts; ++attempt) {
      const std::optional<Fault> fault = TryDeed(kDeeds[prng_.Below(kDeeds.size())], iteration);
      if (fault && (earlier == nullptr || AreApart(*earlier, *fault))) return fault;
    }
    return std::nullopt;
  }

  std::optional<Fault> TryDeed(Deed deed, int iteration) {
    Fault fault;
    fault.iteration = iteration;
    switch (deed) {
      case Deed::kKill:
        return Harm(fault, FaultKind::kKill, std::nullopt);
      case Deed::kSleep:
        return Harm(fault, FaultKind::kStop, kSleep);
      case Deed::kNap:
        return Harm(fault, FaultKind::kStop, kNap);
      case Deed::kDiskFull:
        return Harm(fault, FaultKind::kDiskFull, std::nullopt);
      case Deed::kSlow:
        return Slow(fault);
      case Deed::kDrop:
        return Drop(fault);
      case Deed::kKillCoordinator:
        return HitCoordinator(fault, FaultKind::kKill, std::nullopt);
      case Deed::kNapCoordinator:
        return HitCoordinator(fault, FaultKind::kStop, kNap);
      case Deed::kStopStore:
        return StopStore(fault);
    }
    RC_CHECK(false) << "deed " << static_cast<int>(deed);
    return std::nullopt;
  }

  // `part`: of the failure timeout.
  std::optional<Fault> Harm(Fault fault, FaultKind what, std::optional<double> part) {
    const WorkerId victim = AnyWorker();
    if (harmed_.contains(victim) || Unharmed(victim.stage) == 1) return std::nullopt;
    harmed_.insert(victim);
    fault.what = what;
    fault.target.worker = victim;
    fault.point = AnyPoint(/*has_peer=*/true);
    if (part) fault.for_seconds = Rounded(*part * shape_.failure_timeout_s);
    return fault;
  }

  std::optional<Fault> Slow(Fault fault) {
    const WorkerId victim = AnyWorker();
    if (harmed_.contains(victim) || slowed_ == kSlowPerRun) return std::nullopt;
    ++slowed_;
    fault.what = FaultKind::kSlow;
    fault.factor = kSlowFactor;
    fault.for_seconds = kSlowSeconds;
    fault.target.worker = victim;
    fault.point = AnyPoint(/*has_peer=*/false);
    return fault;
  }

  // Between neighbours of a pipeline: they send to each other whatever else is lost.
  std::optional<Fault> Drop(Fault fault) {
    const WorkerId from = AnyWorker();
    const WorkerId to{from.pipeline, StageId(from.stage.value() + 1)};
    const bool is_link = to.stage.value() < shape_.pipeline;
    if (!is_link || drops_ == kDropsPerRun || harmed_.contains(from) || harmed_.contains(to)) {
      return std::nullopt;
    }
    ++drops_;
    fault.what = FaultKind::kDrop;
    fault.target = {.kind = TargetKind::kLink, .worker = from, .other = to};
    fault.point = FaultPoint::kSend;
    return fault;
  }

  std::optional<Fault> HitCoordinator(Fault fault, FaultKind what, std::optional<double> part) {
    if (coordinator_faults_ == kCoordinatorFaultsPerRun) return std::nullopt;
    ++coordinator_faults_;
    fault.what = what;
    fault.target.kind = TargetKind::kCoordinator;
    fault.point = FaultPoint::kStep;  // the beginning of the iteration
    if (part) fault.for_seconds = Rounded(*part * shape_.failure_timeout_s);
    return fault;
  }

  // For less than the failure timeout, after which a coordinator would go on without it.
  std::optional<Fault> StopStore(Fault fault) {
    if (store_faults_ == kStoreFaultsPerRun) return std::nullopt;
    ++store_faults_;
    fault.what = FaultKind::kStop;
    fault.target.kind = TargetKind::kStore;
    fault.point = FaultPoint::kStep;  // the beginning of the iteration
    fault.for_seconds = Rounded(kNap * shape_.failure_timeout_s);
    return fault;
  }

  WorkerId AnyWorker() {
    const auto pipeline =
        static_cast<std::int32_t>(prng_.Below(static_cast<std::uint64_t>(shape_.data)));
    const auto stage =
        static_cast<std::int32_t>(prng_.Below(static_cast<std::uint64_t>(shape_.pipeline)));
    return {PipelineId(pipeline), StageId(stage)};
  }

  // One that a live worker comes to in every iteration; some need a live peer of the stage.
  FaultPoint AnyPoint(bool has_peer) {
    std::vector<FaultPoint> points = {FaultPoint::kForward, FaultPoint::kBackwardInput,
                                      FaultPoint::kBackwardWeight, FaultPoint::kStep};
    if (shape_.pipeline > 1) points.insert(points.end(), {FaultPoint::kSend, FaultPoint::kRecv});
    if (has_peer) points.insert(points.end(), {FaultPoint::kAllReduce, FaultPoint::kCommit});
    return points[prng_.Below(points.size())];
  }

  int Unharmed(StageId stage) const {
    const auto harmed = std::count_if(harmed_.begin(), harmed_.end(),
                                      [stage](WorkerId worker) { return worker.stage == stage; });
    return shape_.data - static_cast<int>(harmed);
  }

  const ChaosShape shape_;
  Prng prng_;
  std::set<WorkerId> harmed_;
  int slowed_ = 0;
  int drops_ = 0;
  int coordinator_faults_ = 0;
  int store_faults_ = 0;
};

}  // namespace

std::vector<ChaosTrial> ChaosTrials(const ChaosShape& shape, std::uint64_t seed) {
  RC_CHECK(shape.iterations >= kChaosMinIterations) << shape.iterations << " iterations";
  return TrialMaker(shape, seed).Make();
}

}  // namespace recycle
