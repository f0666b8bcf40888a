// Sums of floats that do not depend on the order of their addends. Every addend is rounded to a
// multiple of the quantum, a power of two, and integers are added. So however micro-batches are
// spread over workers, and whoever runs them, their gradients have the same sum to the bit.
//
//   FixedPointSums sums(2 * num_micro_batches);
//   sums.Begin(sums.QuantumFor(1000.0));    // takes addends of up to 1000
//   sums.Add(gradient, accumulators);       // of the same length
//   if (const std::optional<int> coarser = sums.coarser()) { ... }  // begin again with that one
//   double total = static_cast<double>(accumulators[i]) * sums.unit();
//
// What does not fit is found before it is converted, so accumulators never overflow unnoticed.
// Accumulators are the caller's; integers count quanta. Not thread-safe.
// Source: "Reproducible sums" in docs/RECOVERY.md.
#ifndef RECYCLE_NN_FIXED_POINT_SUMS_H_
#define RECYCLE_NN_FIXED_POINT_SUMS_H_

#include <cmath>
#include <cstdint>
#include <optional>
#include <span>

namespace recycle {

class FixedPointSums {
 public:
  // An accumulator gets `most_addends` numbers at most, 1 to 2^40.
  explicit FixedPointSums(std::int64_t most_addends);

  // The finest quantum, as an exponent of two, that takes addends of up to `largest` > 0 (finite).
  int QuantumFor(double largest) const;

  // From now on accumulators, zeroed by the caller, count multiples of 2^quantum.
  void Begin(int quantum);
  int quantum() const { return quantum_; }
  double unit() const { return std::ldexp(1.0, quantum_); }

  // accumulators[i] += numbers[i]. Accumulators have no meaning once an addend was not finite or
  // did not fit.
  void Add(std::span<const float> numbers, std::span<std::int64_t> accumulators);

  // Of all addends since Begin.
  bool finite() const { return finite_; }
  // The finest quantum that takes them; absent: this one does.
  std::optional<int> coarser() const;

 private:
  const int addend_bits_;  // an addend has 2^addend_bits_ quanta at most
  int quantum_ = 0;
  bool finite_ = true;
  float largest_ = 0;  // magnitude of the finite ones
};

}  // namespace recycle

#endif  // RECYCLE_NN_FIXED_POINT_SUMS_H_
