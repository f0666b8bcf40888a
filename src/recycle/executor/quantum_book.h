// The fixed-point sums of a stage's gradients, and with which quantum each iteration makes them.
//
// A quantum follows from what all workers know alike: the norm of the whole gradient of the
// iteration before, whoever has summed it (a constant where there is none: at the beginning, after
// a gradient that was not finite). A gradient that is far larger than that does not fit; then the
// stage makes all its sums of the iteration again, with the quantum that fits. That too is the same
// whoever finds it, and in which order: in the end it is the finest in which all of the iteration's
// gradients on the stage fit.
//
//   book.Open(t);                                  // before a W of t; needs the verdict of t - 1
//   if (book.outgrown()) { ... }                   // after it: tell the coordinator
//   if (book.Learn(quantum, version)) { ... }      // from a Resume: what was summed is void
//
// Pure; belongs to the training thread.
// Source: "Reproducible sums" in docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_QUANTUM_BOOK_H_
#define RECYCLE_EXECUTOR_QUANTUM_BOOK_H_

#include <map>
#include <optional>
#include <vector>

#include "recycle/executor/executor_options.h"
#include "recycle/executor/norm_book.h"
#include "recycle/nn/fixed_point_sums.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class QuantumBook {
 public:
  // The references must outlive this.
  QuantumBook(const ExecutorOptions& options, const NormBook& norms);

  // nullptr: sums are floats, and nothing else here does anything.
  FixedPointSums* sums() { return sums_ ? &*sums_ : nullptr; }

  // From now on sums are those of `iteration`, if they are not already.
  void Open(int iteration);
  // A gradient of the open iteration does not fit: what would.
  std::optional<Quantum> outgrown() const;

  // What a Resume says of this worker's stage. True: this worker has summed with a finer one, or
  // may have, so that what it has done of iteration `version` is void.
  bool Learn(const Quantum& quantum, int version);
  // What has been learnt, ascending.
  std::vector<Quantum> learnt() const;

  void DropBefore(int iteration);
  // Another state has been taken over, of version `iteration`, perhaps without its gradient's norm.
  void StartOver(int iteration);

 private:
  int Choose(int iteration) const;

  const ExecutorOptions& options_;
  const NormBook& norms_;
  std::optional<FixedPointSums> sums_;
  std::optional<int> open_;  // iteration
  int first_ = 0;            // iteration before which no norm need be known
  std::map<int, Quantum> learnt_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_QUANTUM_BOOK_H_
