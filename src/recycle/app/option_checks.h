// Checks of option values whose messages follow the house's rule: value, rule, nearest valid
// choice.
#ifndef RECYCLE_APP_OPTION_CHECKS_H_
#define RECYCLE_APP_OPTION_CHECKS_H_

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/app/numbers.h"
#include "recycle/plan/nearest.h"

namespace recycle {

// An integer in [least, most].
inline CLI::Validator IntegerBetween(std::int64_t least, std::int64_t most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    const auto number = ParseInteger<std::int64_t>(text);
    if (number && *number >= least && *number <= most) return "";
    const double wanted = std::round(ParseReal(text).value_or(static_cast<double>(least)));
    return fmt::format("{} is not an integer from {} to {}; the nearest valid choice is {:.0f}",
                       text, least, most,
                       std::clamp(wanted, static_cast<double>(least), static_cast<double>(most)));
  };
  return {check, ""};
}

// A finite number above 0.
inline CLI::Validator PositiveReal() {
  const auto check = [](const std::string& text) -> std::string {
    if (ParseReal(text).value_or(0) > 0) return "";
    return fmt::format("{} is not a number above 0; the nearest valid choice is 1", text);
  };
  return {check, ""};
}

// One of `words`.
inline CLI::Validator OneOf(const std::vector<std::string_view>& words) {
  const auto check = [words](const std::string& text) -> std::string {
    if (std::find(words.begin(), words.end(), text) != words.end()) return "";
    return fmt::format("{} is not one of {}; the nearest valid choice is {}", text,
                       fmt::join(words, ", "), NearestName(text, words));
  };
  return {check, ""};
}

}  // namespace recycle

#endif  // RECYCLE_APP_OPTION_CHECKS_H_
