#include "recycle/plan/nearest.h"

#include <algorithm>
#include <cstddef>
#include <numeric>

#include "recycle/base/check.h"

namespace recycle {
namespace {

std::size_t EditDistance(std::string_view from, std::string_view to) {
  std::vector<std::size_t> row(to.size() + 1);
  std::iota(row.begin(), row.end(), std::size_t{0});
  for (std::size_t i = 0; i < from.size(); ++i) {
    std::size_t diagonal = row[0];
    row[0] = i + 1;
    for (std::size_t j = 0; j < to.size(); ++j) {
      const std::size_t replace = diagonal + (from[i] == to[j] ? 0 : 1);
      diagonal = row[j + 1];
      row[j + 1] = std::min({replace, row[j] + 1, row[j + 1] + 1});
    }
  }
  return row.back();
}

}  // namespace

std::string_view NearestName(std::string_view name, const std::vector<std::string_view>& known) {
  RC_CHECK(!known.empty());
  constexpr std::size_t kLongest = 64;  // what is longer is no slip of the finger
  const std::string_view head = name.substr(0, kLongest);
  return *std::min_element(known.begin(), known.end(), [&](std::string_view a, std::string_view b) {
    return EditDistance(head, a) < EditDistance(head, b);
  });
}

}  // namespace recycle
