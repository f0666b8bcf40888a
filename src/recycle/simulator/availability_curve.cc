#include "recycle/simulator/availability_curve.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "recycle/base/prng.h"
#include "recycle/simulator/text_lines.h"

namespace recycle {
namespace {

constexpr int kMostNodes = 1'000'000;    // running at once
constexpr int kMostEvents = 10'000'000;  // of one curve

// "2021-12-11" as days since 1970.
std::optional<double> DaysOf(std::string_view date) {
  if (date.size() != 10 || date[4] != '-' || date[7] != '-') return std::nullopt;
  const auto year = WholeIn(date.substr(0, 4));
  const auto month = WholeIn(date.substr(5, 2));
  const auto day = WholeIn(date.substr(8, 2));
  if (!year || !month || !day || *month < 1 || *day < 1) return std::nullopt;
  const std::chrono::year_month_day civil{std::chrono::year(*year),
                                          std::chrono::month(static_cast<unsigned>(*month)),
                                          std::chrono::day(static_cast<unsigned>(*day))};
  if (!civil.ok()) return std::nullopt;
  return static_cast<double>(std::chrono::sys_days(civil).time_since_epoch().count());
}

// "11:09:45" as seconds of the day.
std::optional<double> SecondsOf(std::string_view time) {
  if (time.size() != 8 || time[2] != ':' || time[5] != ':') return std::nullopt;
  const auto hours = WholeIn(time.substr(0, 2));
  const auto minutes = WholeIn(time.substr(3, 2));
  const auto seconds = WholeIn(time.substr(6, 2));
  if (!hours || !minutes || !seconds) return std::nullopt;
  if (*hours < 0 || *hours > 23 || *minutes < 0 || *minutes > 59) return std::nullopt;
  if (*seconds < 0 || *seconds > 60) return std::nullopt;
  return *hours * 3600.0 + *minutes * 60.0 + *seconds;
}

struct Row {
  double time_s = 0;
  int count = 0;
};

StatusOr<Row> ReadRow(std::string_view line, double seconds_per_unit) {
  const std::vector<std::string_view> fields = Fields(line);
  std::optional<double> time_s;
  if (fields.size() == 3) {
    const std::optional<double> days = DaysOf(fields[0]);
    const std::optional<double> seconds = SecondsOf(fields[1]);
    if (days && seconds) time_s = *days * kSecondsPerDay + *seconds;
  } else if (fields.size() == 2) {
    const std::optional<double> time = NumberIn(fields[0]);
    if (time && *time >= 0) time_s = *time * seconds_per_unit;
  }
  const std::optional<int> count = WholeIn(fields.back());
  if (!time_s || !count || *count < 0) {
    return absl::InvalidArgumentError(fmt::format(
        "'{}' must be time,count or YYYY-MM-DD, HH:MM:SS, count with a count of 0 or more", line));
  }
  if (*count > kMostNodes) {
    return absl::InvalidArgumentError(
        fmt::format("count is {}, more than {} nodes are not simulated", *count, kMostNodes));
  }
  return Row{*time_s, *count};
}

// Follows the counts with nodes.
class CurveFollower {
 public:
  explicit CurveFollower(std::uint64_t seed) : prng_(seed) {}

  Status Follow(const Row& row) {
    if (!first_s_.has_value()) first_s_ = row.time_s;
    const double time_s = row.time_s - *first_s_;
    if (time_s < trace_.end_s) {
      return absl::InvalidArgumentError(fmt::format(
          "time runs backwards by {} s (hint: samples of several pollers are mixed; clean the "
          "file first)",
          trace_.end_s - time_s));
    }
    trace_.end_s = time_s;
    while (static_cast<int>(up_.size()) < row.count) {
      up_.push_back(trace_.num_nodes);
      trace_.events.push_back({time_s, trace_.num_nodes++, true});
    }
    while (static_cast<int>(up_.size()) > row.count) {
      const std::size_t drawn = prng_.Below(up_.size());
      trace_.events.push_back({time_s, up_[drawn], false});
      up_.erase(up_.begin() + static_cast<std::ptrdiff_t>(drawn));
    }
    if (trace_.events.size() <= kMostEvents) return OkStatus();
    return absl::InvalidArgumentError(fmt::format(
        "more than {} nodes have come and gone, which is the most of a trace", kMostEvents));
  }

  bool empty() const { return !first_s_.has_value(); }
  FailureTrace Finish() && { return std::move(trace_); }

 private:
  Prng prng_;
  FailureTrace trace_;
  std::optional<double> first_s_;
  std::vector<int> up_;
};

}  // namespace

StatusOr<FailureTrace> ReadAvailabilityCurve(std::string_view text, const CurveOptions& options) {
  CurveFollower follower(options.seed);
  RC_RETURN_IF_ERROR(ForEachLine(text, [&](std::string_view line) -> Status {
    RC_ASSIGN_OR_RETURN(const Row row, ReadRow(line, options.seconds_per_unit));
    return follower.Follow(row);
  }));
  if (follower.empty()) {
    return absl::InvalidArgumentError("line 1: the curve is empty; it must have a row");
  }
  return std::move(follower).Finish();
}

}  // namespace recycle
