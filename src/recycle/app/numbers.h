// Numbers as text: read strictly (the whole text or nothing, in every locale), and told to people.
#ifndef RECYCLE_APP_NUMBERS_H_
#define RECYCLE_APP_NUMBERS_H_

#include <fmt/format.h>

#include <charconv>
#include <cmath>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <system_error>

namespace recycle {

// A finite number: "20", "0.5", "3.0e-4". Absent if `text` is anything else.
inline std::optional<double> ParseReal(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

// A decimal integer that fits Integer. Absent if `text` is anything else.
template <typename Integer>
std::optional<Integer> ParseInteger(std::string_view text) {
  Integer value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

// "1 worker", "3 workers".
inline std::string Count(std::int64_t number, std::string_view noun) {
  return fmt::format("{} {}{}", number, noun, number == 1 ? "" : "s");
}

}  // namespace recycle

#endif  // RECYCLE_APP_NUMBERS_H_
