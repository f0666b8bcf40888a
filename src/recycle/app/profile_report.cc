#include "recycle/app/profile_report.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "recycle/base/check.h"

namespace recycle {
namespace {

using Values = std::vector<double>;

// When the last of those who take part in something has begun and ended it.
struct Meeting {
  double last_start = -std::numeric_limits<double>::infinity();
  double last_end = -std::numeric_limits<double>::infinity();
  void Add(const ActionSample& sample) {
    last_start = std::max(last_start, sample.start_ms);
    last_end = std::max(last_end, sample.end_ms);
  }
};

double Median(const Values& values) { return MeasureOf(values).median; }

// Durations per stage and kind.
class Durations {
 public:
  Durations(const ProfileSamples& samples, int skipped) {
    for (const ActionSample& sample : samples.actions) {
      if (sample.iteration > skipped) Add(sample);
    }
    for (const auto& [key, meeting] : reductions_) {
      values_[{key.second, ActionKind::kReduceGrad}].push_back(meeting.last_end -
                                                               meeting.last_start);
    }
    for (const auto& [key, meeting] : validations_) {
      const double everywhere = everywhere_.at(key.first).last_start;
      const double start = everywhere <= meeting.last_end ? everywhere : meeting.last_start;
      values_[{key.second, ActionKind::kValidate}].push_back(meeting.last_end - start);
    }
  }

  std::map<ActionKind, Measure> Of(StageId stage) const {
    std::map<ActionKind, Measure> measures;
    for (const auto& [key, values] : values_) {
      if (key.first == stage) measures[key.second] = MeasureOf(values);
    }
    return measures;
  }

  int iterations() const { return static_cast<int>(steps_.size()); }

  // From the end of one iteration's last step to that of the next.
  Measure IterationTime() const {
    Values values;
    for (auto step = steps_.begin(); step != steps_.end(); ++step) {
      const auto before = steps_.find(step->first - 1);
      if (before != steps_.end()) {
        values.push_back(step->second.last_end - before->second.last_end);
      }
    }
    return MeasureOf(values);
  }

 private:
  void Add(const ActionSample& sample) {
    const StageId stage = sample.worker.stage;
    switch (sample.action.kind) {
      case ActionKind::kReduceGrad:
        reductions_[{sample.iteration, stage}].Add(sample);
        return;
      case ActionKind::kValidate:
        validations_[{sample.iteration, stage}].Add(sample);
        everywhere_[sample.iteration].Add(sample);
        return;
      case ActionKind::kStep:
        steps_[sample.iteration].Add(sample);
        break;
      case ActionKind::kForward:
      case ActionKind::kBackwardInput:
      case ActionKind::kBackwardWeight:
      case ActionKind::kBackward:
        break;
    }
    values_[{stage, sample.action.kind}].push_back(sample.end_ms - sample.start_ms);
  }

  std::map<std::pair<StageId, ActionKind>, Values> values_;
  std::map<std::pair<int, StageId>, Meeting> reductions_;
  std::map<std::pair<int, StageId>, Meeting> validations_;
  std::map<int, Meeting> everywhere_;  // the validation, over all stages
  std::map<int, Meeting> steps_;
};

void AddStates(const ProfileSamples& samples, std::vector<StageProfile>& stages) {
  for (const StateSample& state : samples.states) {
    StageProfile& stage = stages.at(static_cast<std::size_t>(state.stage.value()));
    stage.parameter_bytes = state.parameter_bytes;
    stage.state_bytes = state.state_bytes;
  }
}

void AddHeld(const ProfileSamples& samples, int skipped, std::vector<StageProfile>& stages) {
  std::map<std::pair<StageId, ActionKind>, Values> changes;
  std::map<std::pair<WorkerId, int>, double> held;
  for (const HeldSample& sample : samples.held) {
    if (sample.iteration <= skipped || !HasMicroBatch(sample.action.kind)) continue;
    const StageId stage = sample.worker.stage;
    changes[{stage, sample.action.kind}].push_back(sample.bytes);
    double& now = held[{sample.worker, sample.iteration}];
    now += sample.bytes;
    double& peak = stages.at(static_cast<std::size_t>(stage.value())).peak_bytes;
    peak = std::max(peak, now);
  }
  for (const auto& [key, values] : changes) {
    StageProfile& stage = stages.at(static_cast<std::size_t>(key.first.value()));
    const double median = Median(values);
    if (key.second == ActionKind::kForward) stage.forward_bytes = median;
    if (key.second == ActionKind::kBackwardInput) stage.freed_bytes = -median;
    if (key.second == ActionKind::kBackwardWeight) stage.deferred_bytes = -median;
  }
}

// Sends in one direction of a link, by what is sent.
struct LinkSamples {
  Values tensors_ms;
  Values norms_ms;
  double bytes = 0;
};

LinkProfile ProfileOf(WorkerId from, WorkerId to, const LinkSamples& samples) {
  LinkProfile link;
  link.from = from;
  link.to = to;
  link.bytes = samples.bytes;
  link.ms = MeasureOf(samples.tensors_ms);
  if (samples.norms_ms.empty()) return link;
  link.latency_ms = Median(samples.norms_ms);
  const double carrying_ms = link.ms.median - *link.latency_ms;
  if (carrying_ms > 0) link.bytes_per_s = link.bytes / (carrying_ms / 1e3);
  return link;
}

void AddSends(const ProfileSamples& samples, int skipped, ProfileReport& report) {
  std::map<std::pair<WorkerId, WorkerId>, LinkSamples> links;
  const std::size_t boundaries = report.stages.size() - 1;
  std::vector<Values> forward(boundaries);
  std::vector<Values> backward(boundaries);
  for (const SendSample& sample : samples.sends) {
    if (sample.iteration <= skipped) continue;
    LinkSamples& link = links[{sample.from, sample.to}];
    if (sample.kind == SentKind::kNorm) {
      link.norms_ms.push_back(sample.ms);
      continue;
    }
    link.tensors_ms.push_back(sample.ms);
    link.bytes = sample.bytes;
    const auto stage = static_cast<std::size_t>(sample.from.stage.value());
    report.stages.at(stage).boundary_bytes = sample.bytes;
    if (sample.kind == SentKind::kActivation) {
      forward.at(stage).push_back(sample.ms);
    } else {
      backward.at(stage - 1).push_back(sample.ms);
    }
  }
  for (const Values& values : forward) report.send_forward.push_back(MeasureOf(values));
  for (const Values& values : backward) report.send_backward.push_back(MeasureOf(values));
  for (const auto& [ends, link] : links) {
    if (!link.tensors_ms.empty()) {
      report.links.push_back(ProfileOf(ends.first, ends.second, link));
    }
  }
}

Status CheckComplete(const ProfileReport& report) {
  for (std::size_t stage = 0; stage < report.stages.size(); ++stage) {
    const std::map<ActionKind, Measure>& ms = report.stages[stage].ms;
    const bool backward =
        ms.contains(ActionKind::kBackward) ||
        (ms.contains(ActionKind::kBackwardInput) && ms.contains(ActionKind::kBackwardWeight));
    if (backward && ms.contains(ActionKind::kForward) && ms.contains(ActionKind::kReduceGrad) &&
        ms.contains(ActionKind::kStep)) {
      continue;
    }
    return absl::DataLossError(
        fmt::format("stage {} has no whole iteration after the first {}, which are left out", stage,
                    report.skipped));
  }
  return OkStatus();
}

double MedianOr0(const StageProfile& stage, ActionKind kind) {
  const auto found = stage.ms.find(kind);
  return found == stage.ms.end() ? 0 : found->second.median;
}

StatusOr<StageCosts> StageCostsOf(const StageProfile& stage) {
  double input = MedianOr0(stage, ActionKind::kBackwardInput);
  double weight = MedianOr0(stage, ActionKind::kBackwardWeight);
  const bool decoupled = stage.ms.contains(ActionKind::kBackwardInput);
  if (!decoupled) input = weight = MedianOr0(stage, ActionKind::kBackward) / 2;
  StageCosts costs;
  RC_ASSIGN_OR_RETURN(costs.forward, ToTicks(MedianOr0(stage, ActionKind::kForward), "F"));
  RC_ASSIGN_OR_RETURN(costs.backward_input, ToTicks(input, "I"));
  RC_ASSIGN_OR_RETURN(costs.backward_weight, ToTicks(weight, "W"));
  RC_ASSIGN_OR_RETURN(costs.all_reduce,
                      ToTicks(MedianOr0(stage, ActionKind::kReduceGrad), "all-reduce"));
  RC_ASSIGN_OR_RETURN(costs.optimizer, ToTicks(MedianOr0(stage, ActionKind::kValidate) +
                                                   MedianOr0(stage, ActionKind::kStep),
                                               "step"));
  costs.deferred_bytes = decoupled ? stage.deferred_bytes : stage.forward_bytes;
  costs.activation_bytes = std::max(stage.forward_bytes, costs.deferred_bytes);
  costs.boundary_bytes = stage.boundary_bytes;
  costs.parameter_bytes = stage.parameter_bytes;
  costs.state_bytes = stage.state_bytes;
  return costs;
}

}  // namespace

Measure MeasureOf(std::vector<double> values) {
  if (values.empty()) return {};
  std::sort(values.begin(), values.end());
  const std::size_t size = values.size();
  const auto rank95 = static_cast<std::size_t>(std::ceil(0.95 * static_cast<double>(size)));
  return {.samples = static_cast<int>(size),
          .median = (values[(size - 1) / 2] + values[size / 2]) / 2,
          .p95 = values[rank95 - 1]};
}

StatusOr<ProfileReport> MakeProfileReport(const ProfileSamples& samples, int num_stages,
                                          int skipped) {
  RC_CHECK(num_stages >= 1) << num_stages;
  const Durations durations(samples, skipped);
  ProfileReport report;
  report.iterations = durations.iterations();
  report.skipped = skipped;
  report.iteration_ms = durations.IterationTime();
  report.stages.resize(static_cast<std::size_t>(num_stages));
  for (int stage = 0; stage < num_stages; ++stage) {
    report.stages[static_cast<std::size_t>(stage)].ms = durations.Of(StageId(stage));
  }
  AddStates(samples, report.stages);
  AddHeld(samples, skipped, report.stages);
  AddSends(samples, skipped, report);
  RC_RETURN_IF_ERROR(CheckComplete(report));
  return report;
}

StatusOr<CostProfile> CostsOf(const ProfileReport& report) {
  CostProfile costs;
  for (const StageProfile& stage : report.stages) {
    RC_ASSIGN_OR_RETURN(const StageCosts stage_costs, StageCostsOf(stage));
    costs.stages.push_back(stage_costs);
  }
  const auto ticks = [](const std::vector<Measure>& sends, std::vector<Ticks>& out) -> Status {
    for (const Measure& send : sends) {
      RC_ASSIGN_OR_RETURN(const Ticks median, ToTicks(send.median, "send"));
      out.push_back(median);
    }
    return OkStatus();
  };
  RC_RETURN_IF_ERROR(ticks(report.send_forward, costs.send_forward));
  RC_RETURN_IF_ERROR(ticks(report.send_backward, costs.send_backward));
  return costs;
}

}  // namespace recycle
