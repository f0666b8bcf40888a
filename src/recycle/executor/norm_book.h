// What a worker knows of the gradient norms of the last iterations, while nobody waits for them:
// with staggered steps the sum of squares of iteration t goes up the stages with the activations
// of t + 1, each stage adding its own, and the last stage's verdict comes down with the gradients.
//
//   book.SetOwn(t, gradients.SquaredNorm(...));          // this stage's share, once t is reduced
//   rider = book.RiderUp(t + 1, rider_of_the_input);     // goes with the result of an F of t + 1
//   book.NoteTotal(t + 1, rider_of_the_input);           // last stage: the same, to judge by
//   book.Note({.iteration = t, .squared_norm = ...});    // the verdict, from wherever
//   rider = book.RiderDown(t + 1);                       // goes with the result of an I of t + 1
//
// The reduced gradient is unique and sums run in one order, so whoever says a number says the same
// bits. Pure; belongs to the training thread.
// Source: the paper's section on the staggered optimizer; section 3.1 of the protocol in
// docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_NORM_BOOK_H_
#define RECYCLE_EXECUTOR_NORM_BOOK_H_

#include <array>
#include <cstddef>
#include <map>
#include <optional>
#include <span>
#include <vector>

#include "recycle/protocol/messages.h"

namespace recycle {

// What rides with a boundary tensor of iteration t, about t - 1.
struct NormRider {
  double squared = 0;  // up: the stages' below and the sender's; down: of the whole gradient
  bool stop = false;   // down only: the verdict's
};

// A rider takes up this many bytes behind the tensor, also where there is none.
inline constexpr std::size_t kRiderBytes = 16;
std::array<std::byte, kRiderBytes> EncodeRider(const std::optional<NormRider>& rider);
std::optional<NormRider> DecodeRider(std::span<const std::byte, kRiderBytes> bytes);

class NormBook {
 public:
  // This stage's sum of squares of the reduced gradient of `iteration`.
  void SetOwn(int iteration, double squared) { own_[iteration] = squared; }
  std::optional<double> own(int iteration) const;

  // What goes up with an F of `iteration` whose input brought `below`; on the first stage that is
  // a rider of 0. Nothing if this worker does not know its share.
  std::optional<NormRider> RiderUp(int iteration, const std::optional<NormRider>& below) const;
  // What goes down with an I of `iteration`: the verdict on the one before, if it is known.
  std::optional<NormRider> RiderDown(int iteration) const;

  // Last stage: what RiderUp says of an F of `iteration` is the norm of the one before.
  void NoteTotal(int iteration, const std::optional<NormRider>& below);
  // The norm of `iteration` before there is a verdict.
  std::optional<double> total(int iteration) const;

  // The first one of an iteration counts.
  void Note(const Verdict& verdict) { verdicts_.try_emplace(verdict.iteration, verdict); }
  const Verdict* Find(int iteration) const;
  std::vector<Verdict> verdicts() const;  // ascending

  void DropBefore(int iteration);
  void Clear();

 private:
  std::map<int, double> own_;  // all by iteration
  std::map<int, double> totals_;
  std::map<int, Verdict> verdicts_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_NORM_BOOK_H_
