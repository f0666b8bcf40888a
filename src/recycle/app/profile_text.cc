#include "recycle/app/profile_text.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>
#include <string_view>

#include "recycle/plan/costs_json.h"

namespace recycle {
namespace {

using Json = nlohmann::ordered_json;

constexpr double kPerMega = 1e6;

std::string_view NameOf(ActionKind kind) {
  switch (kind) {
    case ActionKind::kReduceGrad:
      return "all-reduce";
    case ActionKind::kValidate:
      return "validate";
    case ActionKind::kStep:
      return "step";
    case ActionKind::kForward:
    case ActionKind::kBackwardInput:
    case ActionKind::kBackwardWeight:
    case ActionKind::kBackward:
      return KindText(kind);
  }
  return "";
}

std::string DurationLine(std::size_t stage, std::string_view kind, const Measure& measure) {
  return fmt::format("{:>6} {:>14} {:>8} {:>11.3f} {:>11.3f}\n", stage, kind, measure.samples,
                     measure.median, measure.p95);
}

std::string DurationTable(const ProfileReport& report) {
  std::string text = fmt::format("{:>6} {:>14} {:>8} {:>11} {:>11}\n", "stage", "kind", "samples",
                                 "median ms", "p95 ms");
  for (std::size_t stage = 0; stage < report.stages.size(); ++stage) {
    for (const auto& [kind, measure] : report.stages[stage].ms) {
      text += DurationLine(stage, NameOf(kind), measure);
    }
    if (stage < report.send_forward.size()) {
      text += DurationLine(stage, "send forward", report.send_forward[stage]);
    }
    if (stage > 0) text += DurationLine(stage, "send backward", report.send_backward[stage - 1]);
  }
  return text;
}

std::string BytesTable(const ProfileReport& report) {
  std::string text =
      fmt::format("{:>6} {:>14} {:>9} {:>9} {:>11} {:>12} {:>12} {:>9}\n", "stage", "parameters MB",
                  "state MB", "F keeps", "I frees", "kept till W", "boundary", "peak MB");
  for (std::size_t i = 0; i < report.stages.size(); ++i) {
    const StageProfile& stage = report.stages[i];
    text +=
        fmt::format("{:>6} {:>14.3f} {:>9.3f} {:>9.3f} {:>11.3f} {:>12.3f} {:>12.3f} {:>9.3f}\n", i,
                    stage.parameter_bytes / kPerMega, stage.state_bytes / kPerMega,
                    stage.forward_bytes / kPerMega, stage.freed_bytes / kPerMega,
                    stage.deferred_bytes / kPerMega, stage.boundary_bytes / kPerMega,
                    stage.peak_bytes / kPerMega);
  }
  return text;
}

std::string LinkTable(const ProfileReport& report) {
  std::string text = fmt::format("{:>12} {:>8} {:>10} {:>11} {:>11} {:>11} {:>9}\n", "link",
                                 "frames", "bytes", "median ms", "p95 ms", "latency ms", "MB/s");
  for (const LinkProfile& link : report.links) {
    const std::string latency =
        link.latency_ms ? fmt::format("{:.3f}", *link.latency_ms) : std::string("-");
    const std::string bandwidth =
        link.bytes_per_s ? fmt::format("{:.1f}", *link.bytes_per_s / kPerMega) : std::string("-");
    text += fmt::format("{:>12} {:>8} {:>10} {:>11.3f} {:>11.3f} {:>11} {:>9}\n",
                        ToString(link.from) + " > " + ToString(link.to), link.ms.samples,
                        link.bytes, link.ms.median, link.ms.p95, latency, bandwidth);
  }
  return text;
}

Json MeasureJson(const Measure& measure) {
  return {{"samples", measure.samples}, {"median_ms", measure.median}, {"p95_ms", measure.p95}};
}

Json StageJson(const ProfileReport& report, std::size_t index) {
  const StageProfile& stage = report.stages[index];
  Json json;
  for (const auto& [kind, measure] : stage.ms) json[NameOf(kind)] = MeasureJson(measure);
  if (index < report.send_forward.size()) {
    json["send forward"] = MeasureJson(report.send_forward[index]);
  }
  if (index > 0) json["send backward"] = MeasureJson(report.send_backward[index - 1]);
  json["parameter_bytes"] = stage.parameter_bytes;
  json["state_bytes"] = stage.state_bytes;
  json["forward_bytes"] = stage.forward_bytes;
  json["freed_bytes"] = stage.freed_bytes;
  json["deferred_bytes"] = stage.deferred_bytes;
  json["boundary_bytes"] = stage.boundary_bytes;
  json["peak_bytes"] = stage.peak_bytes;
  return json;
}

Json LinkJson(const LinkProfile& link) {
  Json json = {{"from", ToString(link.from)}, {"to", ToString(link.to)}, {"bytes", link.bytes}};
  json.update(MeasureJson(link.ms));
  json["latency_ms"] = link.latency_ms ? Json(*link.latency_ms) : Json(nullptr);
  json["bytes_per_s"] = link.bytes_per_s ? Json(*link.bytes_per_s) : Json(nullptr);
  return json;
}

}  // namespace

std::string ProfileAsText(const ProfileReport& report, double planned_ms) {
  return fmt::format("{} iterations measured; the {} before them, which warm up, are left out\n",
                     report.iterations, report.skipped) +
         fmt::format(
             "an iteration took {:.3f} ms (median; p95 {:.3f}); its schedule with these costs: "
             "{:.3f} ms\n\n",
             report.iteration_ms.median, report.iteration_ms.p95, planned_ms) +
         DurationTable(report) + "\n" + BytesTable(report) + "\n" +
         (report.links.empty() ? std::string() : LinkTable(report) + "\n");
}

std::string ProfileAsJson(const ProfileReport& report, const CostProfile& costs,
                          double planned_ms) {
  Json stages = Json::array();
  for (std::size_t i = 0; i < report.stages.size(); ++i) stages.push_back(StageJson(report, i));
  Json links = Json::array();
  for (const LinkProfile& link : report.links) links.push_back(LinkJson(link));
  const Json json = {{"format", "recycle-profile/1"},
                     {"iterations", report.iterations},
                     {"skipped", report.skipped},
                     {"iteration", MeasureJson(report.iteration_ms)},
                     {"planned_iteration_ms", planned_ms},
                     {"stages", stages},
                     {"links", links},
                     {"costs", Json::parse(CostsToJson(costs))}};
  return json.dump(2) + "\n";
}

}  // namespace recycle
