#include "recycle/app/simulation_report.h"

#include <fmt/format.h>

#include <nlohmann/json.hpp>

#include "recycle/app/numbers.h"

namespace recycle {
namespace {

// US dollars for a million samples; none if there are no samples.
nlohmann::ordered_json UsdPerMillion(const PolicyResult& result) {
  if (!(result.samples > 0)) return nullptr;
  return result.cost_usd / result.samples * 1e6;
}

nlohmann::ordered_json PolicyAsJson(const PolicyResult& result) {
  nlohmann::ordered_json json;
  json["policy"] = result.policy;
  json["goodput"] = result.goodput;
  json["relative_to_own"] = result.relative_to_own;
  json["samples"] = result.samples;
  json["lost_samples"] = result.lost_samples;
  json["lost_work_hours"] = result.lost_work_hours;
  json["recovery_hours"] = result.recovery_hours;
  json["ettr"] = result.ettr;
  json["gpu_hours"] = result.gpu_hours;
  json["usd"] = result.cost_usd;
  json["usd_per_million_samples"] = UsdPerMillion(result);
  json["out_of_memory"] = result.out_of_memory;
  json["note"] = result.note;
  return json;
}

nlohmann::ordered_json CurveAsJson(const std::vector<CurvePoint>& curve) {
  nlohmann::ordered_json points = nlohmann::ordered_json::array();
  for (const CurvePoint& point : curve) {
    points.push_back({point.from_s / kSecondsPerHour, point.throughput, point.live});
  }
  return points;
}

std::string ConstantsText(const PolicyConstants& constants) {
  std::string text;
  for (const ConstantInfo& info : ConstantTable()) {
    text += fmt::format("  {:<36} {:>9.6g}  {}\n", info.name, ConstantValue(constants, info.name),
                        info.source);
  }
  return text;
}

}  // namespace

std::string ReportAsJson(const SimulationReport& report) {
  const SimulationSetup& setup = report.setup;
  nlohmann::ordered_json json;
  json["hours"] = setup.timeline.duration_s / kSecondsPerHour;
  json["failures"] = setup.timeline.failures;
  json["places"] = setup.job.num_places();
  json["samples_per_batch"] = setup.job.samples_per_batch();
  json["mtbf_hours"] = nullptr;
  if (setup.timeline.failures > 0) {
    json["mtbf_hours"] = setup.timeline.mtbf_s / kSecondsPerHour;
    json["mean_repair_hours"] = setup.timeline.mean_repair_s / kSecondsPerHour;
  }
  json["model_row"] = setup.constants.model_row;
  json["notes"] = setup.notes;
  for (const ConstantInfo& info : ConstantTable()) {
    json["constants"][std::string(info.name)] = ConstantValue(setup.constants, info.name);
    json["constant_sources"][std::string(info.name)] = info.source;
  }
  for (std::size_t i = 0; i < report.results.size(); ++i) {
    nlohmann::ordered_json policy = PolicyAsJson(report.results[i]);
    policy["throughput"] = CurveAsJson(report.curves[i]);
    json["policies"].push_back(std::move(policy));
  }
  return json.dump() + "\n";
}

std::string ReportAsTable(const SimulationReport& report) {
  const SimulationSetup& setup = report.setup;
  const JobTimeline& timeline = setup.timeline;
  std::string text = fmt::format("{:.6g} hours, {}", timeline.duration_s / kSecondsPerHour,
                                 Count(timeline.failures, "failure"));
  if (timeline.failures > 0) {
    text +=
        fmt::format(" (one every {:.4g} h; {:.4g} h until repaired)",
                    timeline.mtbf_s / kSecondsPerHour, timeline.mean_repair_s / kSecondsPerHour);
  }
  text += fmt::format(", {} x {} workers of {}\n\n", setup.job.parallel.data,
                      setup.job.parallel.pipeline, Count(setup.job.parallel.tensor, "GPU"));
  text +=
      fmt::format("{:<20} {:>8} {:>8} {:>8} {:>12} {:>10} {:>10} {:>12}  {}\n", "policy", "goodput",
                  "of own", "ETTR", "samples", "lost h", "recovery h", "USD/million", "");
  for (const PolicyResult& result : report.results) {
    const nlohmann::ordered_json usd = UsdPerMillion(result);
    text += fmt::format(
        "{:<20} {:>8.4f} {:>8.4f} {:>8.4f} {:>12.6g} {:>10.4g} {:>10.4g} {:>12}  "
        "{}\n",
        result.policy, result.goodput, result.relative_to_own, result.ettr, result.samples,
        result.lost_work_hours, result.recovery_hours,
        usd.is_null() ? "-" : fmt::format("{:.5g}", usd.get<double>()), result.note);
  }
  text +=
      "\ngoodput: against fault-free 1F1B of the same costs; of own: against the policy itself "
      "without failures\n\n";
  for (const std::string& note : setup.notes) text += note + "\n";
  return text + "\nconstants in force (--set NAME=VALUE):\n" + ConstantsText(setup.constants);
}

}  // namespace recycle
