#include "recycle/app/chaos_verdict.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "recycle/app/event_writer.h"

namespace recycle {
namespace {

constexpr double kTolerance = 1e-5;

bool Agree(double loss, double reference) {
  return std::abs(loss - reference) <= kTolerance * std::abs(reference);
}

}  // namespace

ChaosEvidence ReadEvidence(const std::string& root) {
  ChaosEvidence evidence;
  for (const Json& line : ReadLines(root + "/metrics.jsonl")) {
    evidence.losses[line.value("iteration", 0)] = line.value("loss", std::nan(""));
  }
  for (const Json& line : ReadLines(root + "/samples.jsonl")) {
    std::vector<std::int64_t>& samples = evidence.samples[line.value("iteration", 0)];
    for (const Json& sample : line.value("samples", Json::array())) samples.push_back(sample);
  }
  for (auto& [iteration, samples] : evidence.samples) std::sort(samples.begin(), samples.end());
  for (const Json& line : ReadLines(root + "/events.jsonl")) {
    if (line.value("event", "") == "fault_injected") evidence.fired.insert(line.value("fault", ""));
  }
  return evidence;
}

std::vector<std::string> Differences(const ChaosEvidence& run, const ChaosEvidence& reference) {
  std::vector<std::string> problems;
  if (run.losses.size() != reference.losses.size()) {
    problems.push_back(fmt::format("{} iterations are recorded, not {}", run.losses.size(),
                                   reference.losses.size()));
  }
  for (const auto& [iteration, want] : reference.losses) {
    const auto got = run.losses.find(iteration);
    if (got == run.losses.end() || Agree(got->second, want)) continue;
    problems.push_back(
        fmt::format("loss {:.9g} in iteration {}, not {:.9g}", got->second, iteration, want));
    break;
  }
  for (const auto& [iteration, want] : reference.samples) {
    const auto got = run.samples.find(iteration);
    if (got != run.samples.end() && got->second == want) continue;
    problems.push_back(fmt::format("other samples count in iteration {}", iteration));
    break;
  }
  return problems;
}

}  // namespace recycle
