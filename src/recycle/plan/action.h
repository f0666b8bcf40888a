// An action: one thing a worker does, in the notation used everywhere (plans, tests, logs, traces,
// the command line): "2F1.5" = stage 2 runs the forward of micro-batch 5 of pipeline 1.
//
// Kinds with a micro-batch: F (forward), I (backward for the input), W (backward for the weights),
// B (I and W in one go). Without: REDUCE_GRAD (all-reduce of the stage's gradient with its
// barrier), VALIDATE (judge norm and overflow), STEP (optimizer step).
//
// Source of F/I/W: Qi et al., "Zero Bubble Pipeline Parallelism", ICLR 2024; the paper's section on
// decoupled back-propagation.
#ifndef RECYCLE_PLAN_ACTION_H_
#define RECYCLE_PLAN_ACTION_H_

#include <compare>
#include <cstdint>
#include <ostream>
#include <string>
#include <string_view>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"

namespace recycle {

enum class ActionKind : std::uint8_t {
  kForward,         // F
  kBackwardInput,   // I
  kBackwardWeight,  // W
  kBackward,        // B
  kReduceGrad,      // REDUCE_GRAD
  kValidate,        // VALIDATE
  kStep,            // STEP
};

// "F", "I", "W", "B", "REDUCE_GRAD", "VALIDATE", "STEP".
std::string_view KindText(ActionKind kind);

// True for F, I, W and B.
constexpr bool HasMicroBatch(ActionKind kind) { return kind <= ActionKind::kBackward; }

// A value. `micro_batch` is {0, 0} where the kind has none.
struct Action {
  ActionKind kind = ActionKind::kForward;
  StageId stage;
  MicroBatch micro_batch;
  constexpr auto operator<=>(const Action&) const = default;
};

std::string ToString(const Action& action);
std::ostream& operator<<(std::ostream& out, const Action& action);

// The inverse of ToString. Error: kInvalidArgument naming the text, what is wrong and an example.
StatusOr<Action> ParseAction(std::string_view text);

}  // namespace recycle

#endif  // RECYCLE_PLAN_ACTION_H_
