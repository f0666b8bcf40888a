#include "recycle/executor/quantum_book.h"

#include <algorithm>
#include <cmath>

#include "recycle/base/check.h"

namespace recycle {
namespace {

// A micro-batch's gradient may be so many times the norm of the one before, in one element and per
// token. The rounding that this costs is below 2^-40 of the norm: far less than AdamW's epsilon.
constexpr double kHeadroom = 1024;

// With tied embeddings a micro-batch may add to a parameter twice.
std::int64_t MostAddends(const ExecutorOptions& options) {
  return 2 * static_cast<std::int64_t>(options.parallel.data) * options.micro_batches;
}

}  // namespace

QuantumBook::QuantumBook(const ExecutorOptions& options, const NormBook& norms)
    : options_(options), norms_(norms) {
  if (options.reproducible) sums_.emplace(MostAddends(options));
}

int QuantumBook::Choose(int iteration) const {
  const Verdict* const before = norms_.Find(iteration - 1);
  RC_CHECK(before != nullptr || iteration == first_)
      << "iteration " << iteration << " is summed before the verdict of the one before";
  double norm = options_.presumed_norm;
  if (before != nullptr && before->squared_norm > 0 && std::isfinite(before->squared_norm)) {
    norm = std::sqrt(before->squared_norm);
  }
  const double tokens = static_cast<double>(options_.micro_batch_size) * options_.model.sequence;
  const int quantum = sums_->QuantumFor(norm * tokens * kHeadroom);
  const auto coarser = learnt_.find(iteration);
  return coarser == learnt_.end() ? quantum : std::max(quantum, coarser->second.exponent);
}

void QuantumBook::Open(int iteration) {
  if (!sums_ || open_ == iteration) return;
  sums_->Begin(Choose(iteration));
  open_ = iteration;
}

std::optional<Quantum> QuantumBook::outgrown() const {
  const std::optional<int> exponent = open_ ? sums_->coarser() : std::nullopt;
  if (!exponent) return std::nullopt;
  return Quantum{.stage = options_.worker.stage, .iteration = *open_, .exponent = *exponent};
}

bool QuantumBook::Learn(const Quantum& quantum, int version) {
  const auto known = learnt_.find(quantum.iteration);
  if (known != learnt_.end() && known->second.exponent >= quantum.exponent) return false;
  learnt_[quantum.iteration] = quantum;
  if (quantum.iteration != version) return false;
  open_.reset();
  return true;
}

std::vector<Quantum> QuantumBook::learnt() const {
  std::vector<Quantum> quanta;
  quanta.reserve(learnt_.size());
  for (const auto& [iteration, quantum] : learnt_) quanta.push_back(quantum);
  return quanta;
}

void QuantumBook::DropBefore(int iteration) {
  learnt_.erase(learnt_.begin(), learnt_.lower_bound(iteration));
}

void QuantumBook::StartOver(int iteration) {
  learnt_.clear();
  open_.reset();
  first_ = iteration;
}

}  // namespace recycle
