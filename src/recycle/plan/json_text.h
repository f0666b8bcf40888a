// Pieces of JSON text that the writers of plans and costs share.
//
// Pure.
#ifndef RECYCLE_PLAN_JSON_TEXT_H_
#define RECYCLE_PLAN_JSON_TEXT_H_

#include <string>
#include <string_view>

#include "recycle/plan/costs.h"

namespace recycle {

// `text` as a JSON string.
std::string QuotedJson(const std::string& text);

// Ticks as decimal units, exactly: 1050000 is "1.05".
std::string UnitsText(Ticks ticks);

// "[print(first), print(second), ...]".
template <typename Items, typename Print>
std::string ListText(const Items& items, Print print, std::string_view separator = ", ") {
  std::string text = "[";
  for (const auto& item : items) {
    if (text.size() > 1) text += separator;
    text += print(item);
  }
  return text + "]";
}

}  // namespace recycle

#endif  // RECYCLE_PLAN_JSON_TEXT_H_
