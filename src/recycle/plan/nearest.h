// "Did you mean ...": the known name most like a wrong one. For messages about keys and options.
#ifndef RECYCLE_PLAN_NEAREST_H_
#define RECYCLE_PLAN_NEAREST_H_

#include <string_view>
#include <vector>

namespace recycle {

// The entry of `known` that needs the fewest insertions, deletions and replacements of characters
// (Levenshtein distance) to become `name`; the first of them on a tie. `known` must not be empty.
std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& known);

}  // namespace recycle

#endif  // RECYCLE_PLAN_NEAREST_H_
