#include "recycle/nn/fixed_point_sums.h"

#include <algorithm>
#include <bit>

#include "recycle/base/check.h"

namespace recycle {
namespace {

// A double of this size has no bits for fractions: adding it rounds to an integer, to even where
// it lies in the middle, and leaves that in the low bits. For numbers of up to 2^51.
constexpr double kRounder = 0x1.8p52;
constexpr int kRounderBits = 51;
constexpr int kAccumulatorBits = 62;

constexpr std::uint32_t kMagnitude = 0x7fffffff;
constexpr std::uint32_t kInfinity = 0x7f800000;

// Returns the bits of the largest magnitude, which order as magnitudes do, and above all those of
// what is not finite. Plain arrays that do not overlap, so that the compiler makes vector code of
// it; unsigned, because what does not fit may wrap around. `scale` is a power of two, so that
// nothing is rounded but once.
std::uint32_t AddScaled(std::size_t size, double scale, const float* __restrict numbers,
                        std::uint64_t* __restrict accumulators) {
  std::int32_t largest = 0;
  for (std::size_t i = 0; i < size; ++i) {
    const auto magnitude =
        static_cast<std::int32_t>(std::bit_cast<std::uint32_t>(numbers[i]) & kMagnitude);
    largest = std::max(largest, magnitude);
    const double rounded = static_cast<double>(numbers[i]) * scale + kRounder;
    accumulators[i] +=
        std::bit_cast<std::uint64_t>(rounded) - std::bit_cast<std::uint64_t>(kRounder);
  }
  return static_cast<std::uint32_t>(largest);
}

int AddendBits(std::int64_t most_addends) {
  RC_CHECK(most_addends >= 1 && most_addends <= std::int64_t{1} << 40) << most_addends;
  const int count_bits = std::bit_width(static_cast<std::uint64_t>(most_addends - 1));
  return std::min(kRounderBits, kAccumulatorBits - count_bits);
}

}  // namespace

FixedPointSums::FixedPointSums(std::int64_t most_addends)
    : addend_bits_(AddendBits(most_addends)) {}

int FixedPointSums::QuantumFor(double largest) const {
  RC_CHECK(largest > 0 && std::isfinite(largest)) << largest;
  int exponent = 0;  // largest <= 2^exponent
  if (std::frexp(largest, &exponent) == 0.5) --exponent;
  return exponent - addend_bits_;
}

void FixedPointSums::Begin(int quantum) {
  quantum_ = quantum;
  finite_ = true;
  largest_ = 0;
}

void FixedPointSums::Add(std::span<const float> numbers, std::span<std::int64_t> accumulators) {
  RC_CHECK(numbers.size() == accumulators.size())
      << numbers.size() << " numbers for " << accumulators.size() << " accumulators";
  const std::uint32_t largest =
      AddScaled(numbers.size(), std::ldexp(1.0, -quantum_), numbers.data(),
                reinterpret_cast<std::uint64_t*>(accumulators.data()));
  if (largest >= kInfinity) {
    finite_ = false;
  } else {
    largest_ = std::max(largest_, std::bit_cast<float>(largest));
  }
}

std::optional<int> FixedPointSums::coarser() const {
  if (largest_ == 0) return std::nullopt;
  const int needed = QuantumFor(largest_);
  return needed > quantum_ ? std::optional(needed) : std::nullopt;
}

}  // namespace recycle
