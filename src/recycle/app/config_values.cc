#include "recycle/app/config_values.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <nlohmann/json.hpp>

#include "recycle/plan/nearest.h"

namespace recycle {

std::string Shortened(const std::string& text) {
  constexpr std::size_t kLongestShown = 60;
  return text.size() <= kLongestShown ? text : fmt::format("{}...", text.substr(0, kLongestShown));
}

std::string Quoted(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

bool IsPlainScalar(const YAML::Node& value) { return value.IsScalar() && value.Tag() != "!"; }

std::string DescribeValue(const YAML::Node& value) {
  if (value.IsSequence()) return "a list";
  if (value.IsMap()) return "a map";
  if (!value.IsScalar()) return "empty";
  const std::string text = Shortened(value.Scalar());
  const bool number = IsPlainScalar(value) && ParseReal(value.Scalar()).has_value();
  return number ? text : Quoted(text);
}

Status BadValue(const std::string& path, const std::string& value, const std::string& rule,
                const std::string& nearest) {
  return absl::InvalidArgumentError(fmt::format(
      "{} is {}, but it must be {}; the nearest valid choice is {}", path, value, rule, nearest));
}

Status NotBuiltYet(const std::string& path, const std::string& value, const std::string& instead) {
  return absl::UnimplementedError(
      fmt::format("{} is {}, which is not built yet; use {}", path, value, instead));
}

std::string RealRange::Rule() const {
  const bool bounded = most < std::numeric_limits<double>::max();
  const std::string low = open_below ? fmt::format("above {}", least)
                                     : fmt::format("{}{}", bounded ? "from " : "of ", least);
  if (!bounded) return fmt::format("a number {}{}", low, open_below ? "" : " or more");
  return fmt::format("a number {} {} {}", low, open_above ? "to below" : "to", most);
}

bool RealRange::Contains(double value) const {
  return (open_below ? value > least : value >= least) &&
         (open_above ? value < most : value <= most);
}

double RealRange::Nearest(double value) const {
  // An open bound itself is not valid; a round number close to it says more than the next double.
  const double step = most < std::numeric_limits<double>::max() ? (most - least) / 1000 : 0.001;
  const double low = open_below ? least + step : least;
  const double high = open_above ? most - step : most;
  return std::clamp(value, low, high);
}

std::string IntegerRange::Rule() const {
  if (most >= std::numeric_limits<std::int32_t>::max()) {
    return fmt::format("an integer of {} or more", least);
  }
  return fmt::format("an integer from {} to {}", least, most);
}

StatusOr<std::int64_t> ReadInteger(const std::string& path, const YAML::Node& value,
                                   const IntegerRange& range) {
  const auto number =
      IsPlainScalar(value) ? ParseInteger<std::int64_t>(value.Scalar()) : std::nullopt;
  if (number && *number >= range.least && *number <= range.most) return *number;
  // A number in quotes is not valid, but the nearest choice to it is that number.
  const auto real = value.IsScalar() ? ParseReal(value.Scalar()) : std::nullopt;
  const double wanted = real ? std::round(*real) : static_cast<double>(range.least);
  const double nearest =
      std::clamp(wanted, static_cast<double>(range.least), static_cast<double>(range.most));
  return BadValue(path, DescribeValue(value), range.Rule(), fmt::format("{:.0f}", nearest));
}

StatusOr<double> ReadReal(const std::string& path, const YAML::Node& value,
                          const RealRange& range) {
  const auto number = value.IsScalar() ? ParseReal(value.Scalar()) : std::nullopt;
  if (number && IsPlainScalar(value) && range.Contains(*number)) return *number;
  return BadValue(path, DescribeValue(value), range.Rule(),
                  fmt::format("{}", range.Nearest(number.value_or(range.least))));
}

StatusOr<bool> ReadBoolean(const std::string& path, const YAML::Node& value) {
  if (IsPlainScalar(value) && value.Scalar() == "true") return true;
  if (IsPlainScalar(value) && value.Scalar() == "false") return false;
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  const bool like_true = text == "1" || text == "yes" || text == "on" ||
                         NearestName(text, {"false", "true"}) == "true";
  return BadValue(path, DescribeValue(value), "true or false", like_true ? "true" : "false");
}

std::string WordsRule(const Words& words) {
  std::string rule =
      fmt::format("{}{}", words.built.size() == 1 ? "" : "one of ", fmt::join(words.built, ", "));
  if (!words.planned.empty()) {
    rule += fmt::format(" ({}: not built yet)", fmt::join(words.planned, ", "));
  }
  return rule;
}

StatusOr<std::string> ReadWord(const std::string& path, const YAML::Node& value,
                               const Words& words) {
  const std::string text = value.IsScalar() ? value.Scalar() : "";
  const auto known = [&text](const std::vector<std::string_view>& list) {
    return std::find(list.begin(), list.end(), text) != list.end();
  };
  if (known(words.built)) return text;
  if (known(words.planned)) {
    return NotBuiltYet(path, text, fmt::format("{}", fmt::join(words.built, " or ")));
  }
  return BadValue(path, DescribeValue(value), WordsRule(words),
                  std::string(NearestName(text, words.built)));
}

StatusOr<std::string> ReadText(const std::string& path, const YAML::Node& value,
                               const std::string& rule, const std::string& example) {
  if (value.IsScalar() && !value.Scalar().empty()) return value.Scalar();
  return BadValue(path, DescribeValue(value), rule, example);
}

}  // namespace recycle
