// Checks of option values whose messages follow the house's rule: value, rule, nearest valid
// choice.
#ifndef RECYCLE_APP_OPTION_CHECKS_H_
#define RECYCLE_APP_OPTION_CHECKS_H_

#include <fmt/format.h>

#include <CLI/CLI.hpp>
#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include "recycle/app/numbers.h"

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

}  // namespace recycle

#endif  // RECYCLE_APP_OPTION_CHECKS_H_
