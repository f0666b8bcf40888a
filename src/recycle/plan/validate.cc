#include "recycle/plan/validate.h"

#include <fmt/format.h>

#include <algorithm>
#include <cstdint>
#include <utility>

#include "recycle/base/index.h"
#include "recycle/plan/deadlock.h"
#include "recycle/plan/memory_meter.h"

namespace recycle {
namespace {

// How far a micro-batch has come at a stage, and who has it.
struct Progress {
  std::int32_t worker = -1;  // index into plan.workers; -1 = nobody yet
  std::uint8_t last = 0;     // 0 = nothing, 1 = F done, 2 = I done, 3 = W or B done
};
constexpr std::uint8_t kForwardDone = 1;
constexpr std::uint8_t kInputDone = 2;
constexpr std::uint8_t kAllDone = 3;

// Applies rules 0, 1, 2 and 4; rule 3 is deadlock.h's.
class Checker {
 public:
  Checker(const Plan& plan, std::size_t limit)
      : plan_(plan), limit_(limit), stages_(plan.parallel.num_stages()) {}

  std::vector<Violation> Run() {
    if (const Status shape = CheckPlanShape(plan_); !shape.ok()) {
      Report(0, std::nullopt, std::nullopt, std::string(shape.message()));
      return std::move(violations_);
    }
    CheckWorkerList();
    CheckInitial();
    if (!violations_.empty()) return std::move(violations_);
    progress_.resize(Index(stages_) * Index(plan_.parallel.data) * Index(plan_.micro_batches));
    committed_.resize(Index(stages_));
    for (const StageId stage : plan_.committed) committed_[Index(stage.value())] = true;
    for (std::size_t w = 0; w < plan_.workers.size() && !Full(); ++w) WalkWorker(w);
    if (!ids_out_of_range_ && !Full()) CheckComplete();
    const bool only_memory = std::all_of(violations_.begin(), violations_.end(),
                                         [](const Violation& found) { return found.rule == 4; });
    if (only_memory && !Full()) {
      for (Violation& violation : FindDeadlock(plan_, limit_ - violations_.size())) {
        violations_.push_back(std::move(violation));
      }
    }
    return std::move(violations_);
  }

 private:
  // Step actions of one stage seen so far on one worker.
  struct Steps {
    int reduces = 0;
    int validates = 0;
    int steps = 0;
    bool backward_seen = false;
  };

  bool Full() const { return violations_.size() >= limit_; }

  void Report(int rule, std::optional<WorkerId> worker, std::optional<std::size_t> position,
              std::string message) {
    if (!Full()) violations_.push_back({rule, worker, position, std::move(message)});
  }

  // "workers" must be the live workers, each once, in order; "failed" ascending.
  void CheckWorkerList() {
    for (std::size_t f = 1; f < plan_.failed.size(); ++f) {
      if (plan_.failed[f - 1] < plan_.failed[f]) continue;
      Report(
          0, plan_.failed[f], std::nullopt,
          fmt::format("failed lists worker {} twice or out of order", ToString(plan_.failed[f])));
    }
    const std::vector<WorkerId> live = LiveWorkers(plan_.parallel, plan_.failed);
    std::size_t next = 0;
    for (const WorkerSchedule& entry : plan_.workers) {
      if (std::count(plan_.failed.begin(), plan_.failed.end(), entry.worker) > 0) {
        Report(
            0, entry.worker, std::nullopt,
            fmt::format("worker {} has actions but is listed as failed", ToString(entry.worker)));
        continue;
      }
      while (next < live.size() && live[next] < entry.worker) ReportUnlisted(live[next++]);
      if (next < live.size() && live[next] == entry.worker) {
        ++next;
        continue;
      }
      Report(0, entry.worker, std::nullopt,
             fmt::format("worker {} is listed twice or out of order: workers must be ascending",
                         ToString(entry.worker)));
    }
    while (next < live.size() && !Full()) ReportUnlisted(live[next++]);
  }

  void ReportUnlisted(WorkerId worker) {
    Report(0, worker, std::nullopt,
           fmt::format("live worker {} has no entry: list it under workers, or under failed",
                       ToString(worker)));
  }

  void CheckInitial() {
    if (plan_.initial.empty() && !plan_.committed.empty()) {
      Report(0, std::nullopt, std::nullopt,
             "committed stages make sense only together with initial");
    }
    done_.assign(plan_.workers.size(), nullptr);
    for (const InitialState& state : plan_.initial) {
      const WorkerSchedule* entry = FindWorker(plan_.workers, state.worker);
      if (entry == nullptr) {
        Report(0, state.worker, std::nullopt,
               fmt::format("initial names worker {}, which is not alive", ToString(state.worker)));
        continue;
      }
      const InitialState*& done = done_[Index(entry - plan_.workers.data())];
      if (done != nullptr || state.iteration != plan_.initial.front().iteration) {
        Report(0, state.worker, std::nullopt,
               fmt::format("initial of worker {}: one entry a worker, all for the same iteration",
                           ToString(state.worker)));
      }
      done = &state;
    }
  }

  // Runs through done + actions of worker `w`; `position` is absent for what is done.
  void WalkWorker(std::size_t w) {
    const WorkerSchedule& entry = plan_.workers[w];
    MemoryMeter memory(plan_, entry.worker.stage);
    steps_.assign(Index(stages_), {});
    const std::vector<StageId> stages = StagesOfColumn(plan_.parallel, entry.worker.stage);
    const std::optional<double> capacity =
        plan_.costs.stages[Index(stages[0].value())].capacity_bytes;
    const auto run = [&](const Action& action, std::optional<std::size_t> position) {
      if (!CheckPlace(entry.worker, position, action)) return;
      double bytes = 0;
      if (!HasMicroBatch(action.kind)) {
        CheckStep(entry.worker, position, action);
        return;
      }
      if (steps_[Index(action.stage.value())].reduces > 0) {
        Report(2, entry.worker, position,
               fmt::format("worker {}: {} comes after the REDUCE_GRAD of its stage",
                           ToString(entry.worker), ToString(action)));
      }
      if (committed_[Index(action.stage.value())]) {
        bytes = RunCommitted(w, position, action, memory);
      } else {
        steps_[Index(action.stage.value())].backward_seen |= action.kind != ActionKind::kForward;
        if (CheckOrder(w, position, action)) bytes = memory.Run(action);
      }
      constexpr double kSlack = 1 + 1e-9;  // sums of decimal fractions do not come out even
      if (capacity && bytes > *capacity * kSlack) {
        Report(
            4, entry.worker, position,
            fmt::format("worker {}: {} brings its memory to {:.10g}, above capacity_bytes {:.10g}",
                        ToString(entry.worker), ToString(action), bytes, *capacity));
      }
    };
    if (done_[w] != nullptr) {
      for (const Action& action : done_[w]->done) run(action, std::nullopt);
    }
    for (std::size_t p = 0; p < entry.actions.size() && !Full(); ++p) run(entry.actions[p], p);
    for (const StageId stage : stages) CheckStepsThere(entry.worker, w, stage);
  }

  // Rules 0 and 1: the action's stage is on this worker, its micro-batch and kind exist.
  bool CheckPlace(WorkerId worker, std::optional<std::size_t> position, const Action& action) {
    const std::int32_t stage = action.stage.value();
    const MicroBatch b = action.micro_batch;
    if (stage < 0 || stage >= stages_ || b.home.value() < 0 ||
        b.home.value() >= plan_.parallel.data || b.index < 0 || b.index >= plan_.micro_batches) {
      ids_out_of_range_ = true;
      Report(0, worker, position,
             fmt::format(
                 "worker {}: {} does not exist: stages are 0 to {}, micro-batches 0.0 to {}.{}",
                 ToString(worker), ToString(action), stages_ - 1, plan_.parallel.data - 1,
                 plan_.micro_batches - 1));
      return false;
    }
    if (plan_.parallel.Column(action.stage) != worker.stage) {
      Report(1, worker, position,
             fmt::format("worker {} has {}, but stage {} belongs to the workers of column {}",
                         ToString(worker), ToString(action), stage,
                         plan_.parallel.Column(action.stage).value()));
      return false;
    }
    const bool half =
        action.kind == ActionKind::kBackwardInput || action.kind == ActionKind::kBackwardWeight;
    if (half && !plan_.options.decoupled) {
      Report(0, worker, position,
             fmt::format(
                 "worker {} has {}, but the plan says decoupled: false, which has only F and B",
                 ToString(worker), ToString(action)));
    }
    return true;
  }

  // Rules 1 and 2 for one micro-batch: F, then I, then W (or B), once, on one worker.
  bool CheckOrder(std::size_t w, std::optional<std::size_t> position, const Action& action) {
    Progress& progress = ProgressOf(action.stage, action.micro_batch);
    const WorkerId worker = plan_.workers[w].worker;
    const std::int32_t self = static_cast<std::int32_t>(w);
    if (action.kind == ActionKind::kForward) {
      if (progress.worker >= 0) {
        Report(1, worker, position,
               fmt::format("worker {}: {} ran on worker {} already: every micro-batch once",
                           ToString(worker), ToString(action),
                           ToString(plan_.workers[Index(progress.worker)].worker)));
        return false;
      }
      progress = {self, kForwardDone};
      return true;
    }
    const bool weight = action.kind == ActionKind::kBackwardWeight;
    const std::uint8_t needed = weight ? kInputDone : kForwardDone;
    if (progress.worker == self && progress.last == needed) {
      progress.last = action.kind == ActionKind::kBackwardInput ? kInputDone : kAllDone;
      return true;
    }
    const std::string text = ToString(action);
    if (progress.worker >= 0 && progress.worker != self) {
      Report(1, worker, position,
             fmt::format(
                 "worker {}: {} runs apart from its F on worker {}: one worker runs all of a "
                 "micro-batch's actions of a stage",
                 ToString(worker), text, ToString(plan_.workers[Index(progress.worker)].worker)));
    } else if (progress.last > needed) {
      Report(1, worker, position,
             fmt::format("worker {}: {} is done already: one I and one W, or one B",
                         ToString(worker), text));
    } else {
      Report(
          2, worker, position,
          fmt::format("worker {}: {} comes before its {}: the order is F, I, W", ToString(worker),
                      text, weight && progress.last == kForwardDone ? "I" : "F"));
    }
    return false;
  }

  // Committed stages: what is done counts for nothing; among the actions only F and I, each once.
  double RunCommitted(std::size_t w, std::optional<std::size_t> position, const Action& action,
                      MemoryMeter& memory) {
    if (!position) return 0;
    const WorkerSchedule& entry = plan_.workers[w];
    Progress& progress = ProgressOf(action.stage, action.micro_batch);
    const bool forward = action.kind == ActionKind::kForward;
    if (!forward && action.kind != ActionKind::kBackwardInput) {
      Report(1, entry.worker, position,
             fmt::format("worker {}: {} on committed stage {}: only F and I can be regenerated",
                         ToString(entry.worker), ToString(action), action.stage.value()));
      return 0;
    }
    const std::uint8_t reached = forward ? kForwardDone : kInputDone;
    if (progress.last >= reached) {
      Report(progress.last == reached ? 1 : 2, entry.worker, position,
             fmt::format("worker {}: {} is regenerated twice or after its I",
                         ToString(entry.worker), ToString(action)));
      return 0;
    }
    progress.worker = static_cast<std::int32_t>(w);
    progress.last = reached;
    return memory.Regenerate(entry.actions, *position);
  }

  // Rule 2 for step actions: REDUCE_GRAD after every W, STEP after it; VALIDATE between the two if
  // synchronous, before the first I or B if staggered. Committed stages are reduced already.
  void CheckStep(WorkerId worker, std::optional<std::size_t> position, const Action& action) {
    Steps& steps = steps_[Index(action.stage.value())];
    const auto report = [&](const char* why) {
      Report(2, worker, position,
             fmt::format("worker {}: {} {}", ToString(worker), ToString(action), why));
    };
    if (action.kind == ActionKind::kReduceGrad) ++steps.reduces;
    const bool reduced = steps.reduces > 0 || committed_[Index(action.stage.value())];
    if (action.kind == ActionKind::kStep) {
      ++steps.steps;
      if (!reduced) report("comes before its REDUCE_GRAD");
      if (steps.validates == 0 && !plan_.options.staggered) report("comes before its VALIDATE");
    }
    if (action.kind != ActionKind::kValidate) return;
    ++steps.validates;
    if (plan_.options.staggered && steps.backward_seen) {
      report(
          "comes after the stage's first I or B: staggered plans judge the iteration before first");
    }
    if (!plan_.options.staggered && !reduced) report("comes before its REDUCE_GRAD");
  }

  // The counts of step actions once worker `w` is through.
  void CheckStepsThere(WorkerId worker, std::size_t w, StageId stage) {
    const Steps& steps = steps_[Index(stage.value())];
    const bool committed = committed_[Index(stage.value())];
    const bool validate_optional =
        plan_.options.staggered && done_[w] != nullptr && steps.backward_seen;
    const auto check = [&](int count, bool optional, ActionKind kind) {
      if (count == 1 || (count == 0 && optional)) return;
      Report(1, worker, std::nullopt,
             fmt::format("worker {} has {} {} times: must be once", ToString(worker),
                         ToString(Action{kind, stage, {}}), count));
    };
    check(steps.reduces, committed, ActionKind::kReduceGrad);
    check(steps.validates, committed || validate_optional, ActionKind::kValidate);
    check(steps.steps, committed, ActionKind::kStep);
  }

  // Rule 1, the other way round: nothing is missing.
  void CheckComplete() {
    for (int s = 0; s < stages_; ++s) {
      if (committed_[Index(s)]) continue;
      for (int m = 0; m < plan_.micro_batches; ++m) {
        for (int k = 0; k < plan_.parallel.data && !Full(); ++k) {
          const MicroBatch b{PipelineId(k), m};
          const Progress& progress = ProgressOf(StageId(s), b);
          if (progress.last == kAllDone) continue;
          const char* missing = progress.last == kInputDone     ? "W"
                                : progress.last == kForwardDone ? "I and W, or B,"
                                                                : "F";
          std::optional<WorkerId> worker;
          if (progress.worker >= 0) worker = plan_.workers[Index(progress.worker)].worker;
          Report(1, worker, std::nullopt,
                 fmt::format("micro-batch {} has no {} at stage {}", ToString(b), missing, s));
        }
      }
    }
  }

  Progress& ProgressOf(StageId stage, MicroBatch b) {
    return progress_[(Index(stage.value()) * Index(plan_.parallel.data) + Index(b.home.value())) *
                         Index(plan_.micro_batches) +
                     Index(b.index)];
  }

  const Plan& plan_;
  const std::size_t limit_;
  const std::int32_t stages_;
  std::vector<Violation> violations_;
  bool ids_out_of_range_ = false;
  std::vector<Progress> progress_;
  std::vector<bool> committed_;
  std::vector<const InitialState*> done_;  // per worker, or nullptr
  std::vector<Steps> steps_;               // per stage, of the worker being walked
};

}  // namespace

std::vector<Violation> FindViolations(const Plan& plan, std::size_t limit) {
  return Checker(plan, limit).Run();
}

Status Validate(const Plan& plan) {
  constexpr std::size_t kLimit = 20;
  const std::vector<Violation> violations = FindViolations(plan, kLimit);
  if (violations.empty()) return OkStatus();
  const char* more = violations.size() == kLimit ? " or more" : "";
  return absl::FailedPreconditionError(fmt::format("illegal plan ({} violation(s){}): rule {}: {}",
                                                   violations.size(), more, violations[0].rule,
                                                   violations[0].message));
}

std::vector<double> PeakMemory(const Plan& plan) {
  std::vector<double> peaks;
  peaks.reserve(plan.workers.size());
  for (const WorkerSchedule& entry : plan.workers) {
    MemoryMeter memory(plan, entry.worker.stage);
    const auto committed = [&](const Action& action) {
      return std::count(plan.committed.begin(), plan.committed.end(), action.stage) > 0;
    };
    double peak = 0;
    for (const InitialState& state : plan.initial) {
      if (state.worker != entry.worker) continue;
      for (const Action& action : state.done) {
        if (!committed(action)) peak = std::max(peak, memory.Run(action));
      }
    }
    for (std::size_t p = 0; p < entry.actions.size(); ++p) {
      const Action& action = entry.actions[p];
      peak = std::max(peak,
                      committed(action) ? memory.Regenerate(entry.actions, p) : memory.Run(action));
    }
    peaks.push_back(peak);
  }
  return peaks;
}

}  // namespace recycle
