// Randomness that is the same bits on every machine: an explicit seed, integer arithmetic only, no
// std::*_distribution (they differ between standard libraries).
//
// Mix64 and HashKeys are pure; a Prng is not thread-safe.
#ifndef RECYCLE_BASE_PRNG_H_
#define RECYCLE_BASE_PRNG_H_

#include <cstdint>
#include <initializer_list>
#include <utility>
#include <vector>

namespace recycle {

// The finalizer of SplitMix64 (Steele, Lea, Flood: "Fast splittable pseudorandom number
// generators", OOPSLA 2014): a bijection of 64-bit words.
constexpr std::uint64_t Mix64(std::uint64_t x) {
  x += 0x9e3779b97f4a7c15U;
  x = (x ^ (x >> 30)) * 0xbf58476d1ce4e5b9U;
  x = (x ^ (x >> 27)) * 0x94d049bb133111ebU;
  return x ^ (x >> 31);
}

// One word that depends on every key and on their order.
constexpr std::uint64_t HashKeys(std::initializer_list<std::uint64_t> keys) {
  std::uint64_t hash = 0;
  for (const std::uint64_t key : keys) hash = Mix64(hash ^ Mix64(key));
  return hash;
}

// SplitMix64 as a stream.
class Prng {
 public:
  explicit Prng(std::uint64_t seed) : state_(seed) {}

  std::uint64_t Next() {
    const std::uint64_t word = Mix64(state_);
    state_ += 0x9e3779b97f4a7c15U;
    return word;
  }

  // Uniform in [0, bound); bound > 0. The bias is below bound / 2^64.
  std::uint64_t Below(std::uint64_t bound) {
    return static_cast<std::uint64_t>((static_cast<unsigned __int128>(Next()) * bound) >> 64);
  }

  // Uniform in [0, 1), a multiple of 2^-53.
  double Uniform() { return static_cast<double>(Next() >> 11) * 0x1.0p-53; }

  template <typename T>
  void Shuffle(std::vector<T>& items) {
    for (std::size_t i = items.size(); i > 1; --i) std::swap(items[i - 1], items[Below(i)]);
  }

 private:
  std::uint64_t state_;
};

}  // namespace recycle

#endif  // RECYCLE_BASE_PRNG_H_
