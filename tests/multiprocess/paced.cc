#include "paced.h"

#include <fmt/format.h>

#include <fstream>

#include "recycle/plan/costs_json.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/timeline.h"

namespace recycle::testing {

CostProfile ProfileOf(int stages, const StageCosts& costs, double send_ms) {
  const std::vector<Ticks> sends(static_cast<std::size_t>(stages) - 1,
                                 ToTicks(send_ms, "send").value());
  return {.unit = "ms",
          .stages = std::vector<StageCosts>(static_cast<std::size_t>(stages), costs),
          .send_forward = sends,
          .send_backward = sends};
}

void Pace(Job& job, const CostProfile& costs, double time_scale) {
  const std::filesystem::path profile = job.folder() / "profile.json";
  std::ofstream(profile) << CostsToJson(costs);
  job.AddArguments({"--set", "device.kind=paced", "--set",
                    fmt::format("device.profile={}", profile.string()), "--set",
                    fmt::format("device.time_scale={}", time_scale)});
}

double PlannedMs(const Job& job, int generation) {
  const std::filesystem::path plan = job.run_folder() / fmt::format("plans/g{}.json", generation);
  return ToUnits(ComputeFigures(ReadPlanFile(plan.string()).value()).value().period);
}

std::map<int, double> IterationMs(const Job& job) {
  std::map<int, double> times;
  for (const nlohmann::json& line : job.Lines("metrics.jsonl")) {
    times[line.at("iteration").get<int>()] = line.at("iteration_ms").get<double>();
  }
  return times;
}

}  // namespace recycle::testing
