// The way back to a stage before its last step, kept until that step is known to be right: to make
// it again, and to run an action of the iteration before once more with its parameters.
//
//   undo.Keep(optimizer, step);          // before a step that nobody has judged
//   undo.Restore(optimizer, gradients);  // it was wrong
//   undo.Drop();                         // it was right, and its iteration is closed
//
// Exact: a copy of the bits, in memory that is kept for the next one. Else the step is undone by
// its inverse, which needs the step's gradients and no memory, and is not exact. One step at a
// time. Belongs to the training thread. Source: rules b and f of docs/RECOVERY.md; "Without memory"
// there.
#ifndef RECYCLE_EXECUTOR_STEP_UNDO_H_
#define RECYCLE_EXECUTOR_STEP_UNDO_H_

#include <optional>
#include <span>
#include <vector>

#include "recycle/executor/adamw.h"

namespace recycle {

class StepUndo {
 public:
  explicit StepUndo(bool exact) : exact_(exact) {}

  bool held() const { return held_; }
  void Drop() { held_ = false; }

  // `optimizer` is the same stage's every time. `next`: the step to come; absent: there will be
  // none, and the way back is nothing.
  void Keep(AdamW& optimizer, const std::optional<AdamWStep>& next);
  // Needs held(), as the next. `gradients`: what was stepped by.
  void Restore(AdamW& optimizer, const std::vector<std::span<const float>>& gradients) const;
  // Parameters become those before the step, moments stay; a second call undoes the first, to the
  // bit.
  void SwapParameters(AdamW& optimizer);

 private:
  struct Kept {
    std::vector<float> value, first, second;
  };
  const bool exact_;
  bool held_ = false;
  std::optional<AdamWStep> made_;
  std::vector<Kept> kept_;  // by parameter; not exact: values, between two SwapParameters
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_STEP_UNDO_H_
