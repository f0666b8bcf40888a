// The exact bits of a stage before its last step, kept until that step is known to be right: to
// return to them, and to run an action of the iteration before once more with its parameters.
//
//   undo.Save(optimizer.state());       // before a step that nobody has judged
//   undo.Restore(optimizer.state());    // it was wrong
//   undo.Drop();                        // it was right, and its iteration is closed
//
// One copy at a time, in memory that is kept for the next one. Belongs to the training thread.
// Source: rules b and f of docs/RECOVERY.md.
#ifndef RECYCLE_EXECUTOR_STEP_UNDO_H_
#define RECYCLE_EXECUTOR_STEP_UNDO_H_

#include <vector>

#include "recycle/executor/adamw.h"

namespace recycle {

class StepUndo {
 public:
  bool held() const { return held_; }
  void Drop() { held_ = false; }

  // `state` is the same stage's every time.
  void Save(const std::vector<ParameterState>& state);
  // Needs held(), as the next.
  void Restore(const std::vector<ParameterState>& state) const;
  // Parameters change places with those kept, moments do not; a second call undoes the first.
  void SwapParameters(const std::vector<ParameterState>& state);

 private:
  struct Kept {
    std::vector<float> value, first, second;
  };
  bool held_ = false;
  std::vector<Kept> kept_;  // by parameter
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_STEP_UNDO_H_
