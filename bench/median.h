// The middle of what was measured.
#ifndef RECYCLE_BENCH_MEDIAN_H_
#define RECYCLE_BENCH_MEDIAN_H_

#include <algorithm>
#include <iterator>
#include <vector>

namespace recycle {

// Of two in the middle the larger one. `numbers` has some.
inline double Median(std::vector<double> numbers) {
  const auto middle = numbers.begin() + std::ssize(numbers) / 2;
  std::nth_element(numbers.begin(), middle, numbers.end());
  return *middle;
}

}  // namespace recycle

#endif  // RECYCLE_BENCH_MEDIAN_H_
