#include "recycle/app/run_history.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <memory>
#include <string>
#include <system_error>
#include <utility>

#include "recycle/base/file.h"
#include "recycle/plan/plan_json.h"

namespace recycle {
namespace {

namespace fs = std::filesystem;

Status Cut(const std::string& path, std::size_t size) {
  std::error_code error;
  fs::resize_file(path, size, error);
  if (!error) return OkStatus();
  return absl::PermissionDeniedError(
      fmt::format("'{}' cannot be cut to its whole lines: {}", path, error.message()));
}

// The whole lines of a file, which is cut behind them; none if it is not there.
StatusOr<std::vector<Json>> WholeLines(const std::string& path) {
  std::vector<Json> lines;
  const StatusOr<std::string> text = ReadWholeFile(path);
  if (!text.ok()) return lines;
  std::size_t whole = 0;
  for (std::size_t end = 0; (end = text->find('\n', whole)) != std::string::npos; whole = end + 1) {
    Json line = Json::parse(text->begin() + static_cast<std::ptrdiff_t>(whole),
                            text->begin() + static_cast<std::ptrdiff_t>(end), nullptr,
                            /*allow_exceptions=*/false);
    if (line.is_discarded()) break;
    lines.push_back(std::move(line));
  }
  if (whole < text->size()) RC_RETURN_IF_ERROR(Cut(path, whole));
  return lines;
}

}  // namespace

StatusOr<RunHistory> RunHistory::Read(const RunFolder& folder) {
  RunHistory history;
  RC_ASSIGN_OR_RETURN(history.events_, WholeLines(folder.Events()));
  RC_ASSIGN_OR_RETURN(history.metrics_, WholeLines(folder.Metrics()));
  RC_RETURN_IF_ERROR(DropLinesAfter(folder.Samples(), history.iterations_done()));
  return history;
}

std::vector<Json> RunHistory::Events(std::string_view name) const {
  std::vector<Json> found;
  std::copy_if(events_.begin(), events_.end(), std::back_inserter(found),
               [name](const Json& event) { return event.at("event") == name; });
  return found;
}

std::int32_t RunHistory::iterations_done() const {
  return metrics_.empty() ? 0 : metrics_.back().at("iteration").get<std::int32_t>();
}

std::optional<double> RunHistory::last_loss() const {
  if (metrics_.empty()) return std::nullopt;
  return NumberOf(metrics_.back().at("loss"));
}

Generation RunHistory::NewestOf(std::string_view event) const {
  const std::vector<Json> found = Events(event);
  return Generation(found.empty() ? 0 : found.back().at("generation").get<std::int64_t>());
}

bool RunHistory::RestoredIn(Generation generation) const {
  bool restored = false;
  for (const Json& event : events_) {
    const std::string name = event.at("event");
    if (name == "generation" && event.at("generation") == generation.value()) restored = false;
    restored = restored || name == "restored";
  }
  return restored && announced() == generation;
}

AssignedWork RunHistory::LastTold(const RunFolder& folder) const {
  AssignedWork told;
  const std::vector<Json> resumes = Events("resumed");
  if (resumes.empty()) return told;
  StatusOr<Plan> whole = ReadPlanFile(folder.Plan(resumed()));
  if (!whole.ok()) return told;
  told.plan = std::make_shared<const Plan>(*std::move(whole));
  // Open iterations follow one another from the one that resumed first.
  told.next_iteration = resumes.back().at("iteration").get<std::int32_t>() - 1;
  for (;;) {
    StatusOr<Plan> rest = ReadPlanFile(folder.RestPlan(resumed(), told.next_iteration));
    if (!rest.ok()) return told;
    told.open.push_back({.iteration = told.next_iteration,
                         .rest = std::make_shared<const Plan>(*std::move(rest)),
                         .resends = {},
                         .hand_overs = {}});
    ++told.next_iteration;
  }
}

}  // namespace recycle
