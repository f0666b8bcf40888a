#include "recycle/app/plan_table_command.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <atomic>
#include <filesystem>
#include <functional>
#include <nlohmann/json.hpp>
#include <optional>
#include <string>
#include <system_error>
#include <thread>
#include <vector>

#include "recycle/app/plan_figures.h"
#include "recycle/base/clock.h"
#include "recycle/planner/plan_table.h"

namespace recycle {
namespace {

double Gap(const TableLine& line) {
  return line.lower_bound > 0 ? ToUnits(line.period) / ToUnits(line.lower_bound) - 1 : 0.0;
}

std::string LineAsJson(const TableLine& line) {
  nlohmann::ordered_json json;
  json["failures"] = line.failures;
  json["per_stage"] = line.per_stage;
  json["period"] = ToUnits(line.period);
  json["makespan"] = ToUnits(line.makespan);
  json["lower_bound"] = ToUnits(line.lower_bound);
  json["gap"] = Gap(line);
  json["template"] = line.template_failures;
  return json.dump();
}

std::string LineAsText(const TableLine& line) {
  return fmt::format("{:>8} {:>12.6g} {:>12.6g} {:>12.6g} {:>7.2f}% {:>9}", line.failures,
                     ToUnits(line.period), ToUnits(line.makespan), ToUnits(line.lower_bound),
                     Gap(line) * 100, line.template_failures);
}

void PrintLines(const PlanTable& table, bool json, std::ostream& out) {
  if (!json) {
    out << fmt::format("{:>8} {:>12} {:>12} {:>12} {:>8} {:>9}\n", "failures", "period", "makespan",
                       "lower bound", "gap", "template");
  }
  for (int failures = 0; failures <= table.max_failures(); ++failures) {
    const TableLine line = table.Line(failures);
    out << (json ? LineAsJson(line) : LineAsText(line)) << "\n";
  }
}

void PrintTotals(const PlanTable& table, double table_ms, std::optional<double> materialize_ms,
                 bool json, std::ostream& out) {
  const int counts = table.max_failures() + 1;
  if (json) {
    nlohmann::ordered_json totals;
    totals["counts"] = counts;
    totals["templates"] = table.entries().size();
    totals["table_ms"] = table_ms;
    totals["materialize_ms"] = nullptr;
    if (materialize_ms) totals["materialize_ms"] = *materialize_ms;
    out << totals.dump() << "\n";
    return;
  }
  out << fmt::format("{} failure counts from {} templates in {:.1f} ms", counts,
                     table.entries().size(), table_ms);
  if (materialize_ms)
    out << fmt::format("; every plan built and checked in {:.1f} ms", *materialize_ms);
  out << "\n";
}

std::string TableFile(const std::string& folder) { return folder + "/table.json"; }

Status WriteTable(const PlanTable& table, const std::string& folder) {
  std::error_code error;
  std::filesystem::create_directories(folder, error);
  if (error) {
    return absl::PermissionDeniedError(
        fmt::format("--out-dir: {} cannot be made ({}); name a folder you may write to", folder,
                    error.message()));
  }
  return table.WriteFile(TableFile(folder));
}

// Calls work(0), ..., work(count - 1) on every core.
void RunInParallel(int count, const std::function<void(int)>& work) {
  std::atomic<int> next = 0;
  std::vector<std::jthread> threads;
  const unsigned int cores = std::max(1U, std::thread::hardware_concurrency());
  threads.reserve(cores);
  for (unsigned int i = 0; i < cores; ++i) {
    threads.emplace_back([&] {
      for (int item = next++; item < count; item = next++) work(item);
    });
  }
}

}  // namespace

Status RunPlanTableCommand(const PlanArguments& arguments, std::ostream& out) {
  RC_ASSIGN_OR_RETURN(const PlanRequest request, PlanRequestOf(arguments));
  RC_RETURN_IF_ERROR(
      CheckFailureCount("--all-failures", *arguments.all_failures, request.parallel));
  const Clock& clock = SystemClock();
  const TimePoint start = clock.Now();
  RC_ASSIGN_OR_RETURN(const PlanTable table, PlanTable::Make(request, *arguments.all_failures));
  const double table_ms = ToMilliseconds(clock.Now() - start);
  std::optional<double> materialize_ms;
  if (arguments.materialize) {
    const TimePoint begin = clock.Now();
    RC_RETURN_IF_ERROR(table.CheckAllLines(RunInParallel));
    materialize_ms = ToMilliseconds(clock.Now() - begin);
  }
  if (!arguments.out_dir.empty()) RC_RETURN_IF_ERROR(WriteTable(table, arguments.out_dir));
  PrintLines(table, arguments.json, out);
  PrintTotals(table, table_ms, materialize_ms, arguments.json, out);
  if (!arguments.json && !arguments.out_dir.empty()) {
    out << WrittenLines({TableFile(arguments.out_dir)});
  }
  return OkStatus();
}

}  // namespace recycle
