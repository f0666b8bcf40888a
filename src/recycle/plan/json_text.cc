#include "recycle/plan/json_text.h"

#include <fmt/format.h>

#include <cstdlib>
#include <nlohmann/json.hpp>

namespace recycle {

std::string QuotedJson(const std::string& text) {
  return nlohmann::json(text).dump(-1, ' ', true, nlohmann::json::error_handler_t::replace);
}

std::string UnitsText(Ticks ticks) {
  const char* sign = ticks < 0 ? "-" : "";
  const Ticks size = std::abs(ticks);
  std::string text = fmt::format("{}{}.{:06}", sign, size / kTicksPerUnit, size % kTicksPerUnit);
  text.erase(text.find_last_not_of('0') + 1);
  if (text.back() == '.') text.pop_back();
  return text;
}

}  // namespace recycle
