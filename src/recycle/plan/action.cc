#include "recycle/plan/action.h"

#include <array>
#include <charconv>
#include <optional>

#include "recycle/base/check.h"

namespace recycle {
namespace {

constexpr std::array kKinds = {
    ActionKind::kForward,  ActionKind::kBackwardInput, ActionKind::kBackwardWeight,
    ActionKind::kBackward, ActionKind::kReduceGrad,    ActionKind::kValidate,
    ActionKind::kStep,
};

// Reads a number of at least 0 from the front of `text` and removes it; nullopt if there is none or
// it does not fit.
std::optional<std::int32_t> TakeNumber(std::string_view& text) {
  std::int32_t value = 0;
  const auto [rest, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || value < 0) return std::nullopt;
  text.remove_prefix(static_cast<std::size_t>(rest - text.data()));
  return value;
}

std::optional<ActionKind> TakeKind(std::string_view& text) {
  std::size_t length = 0;
  while (length < text.size() &&
         (text[length] == '_' || (text[length] >= 'A' && text[length] <= 'Z'))) {
    ++length;
  }
  const std::string_view word = text.substr(0, length);
  for (const ActionKind kind : kKinds) {
    if (word == KindText(kind)) {
      text.remove_prefix(length);
      return kind;
    }
  }
  return std::nullopt;
}

Status BadAction(std::string_view text, std::string_view why) {
  return absl::InvalidArgumentError("action '" + std::string(text.substr(0, 64)) +
                                    "': " + std::string(why) + "; write e.g. 2F1.5 or 2STEP");
}

bool IsReserved(std::string_view rest) {
  return rest == "UNSHARD" || rest == "RESHARD" ||
         (rest.size() > 1 && rest[0] == 'R' && rest[1] >= '0' && rest[1] <= '9');
}

}  // namespace

std::string_view KindText(ActionKind kind) {
  switch (kind) {
    case ActionKind::kForward:
      return "F";
    case ActionKind::kBackwardInput:
      return "I";
    case ActionKind::kBackwardWeight:
      return "W";
    case ActionKind::kBackward:
      return "B";
    case ActionKind::kReduceGrad:
      return "REDUCE_GRAD";
    case ActionKind::kValidate:
      return "VALIDATE";
    case ActionKind::kStep:
      return "STEP";
  }
  RC_CHECK(false) << "action kind " << static_cast<int>(kind);
  return "";
}

std::string ToString(const Action& action) {
  std::string text = std::to_string(action.stage.value());
  text += KindText(action.kind);
  if (HasMicroBatch(action.kind)) text += ToString(action.micro_batch);
  return text;
}

std::ostream& operator<<(std::ostream& out, const Action& action) {
  return out << ToString(action);
}

StatusOr<Action> ParseAction(std::string_view text) {
  std::string_view rest = text;
  const std::optional<std::int32_t> stage = TakeNumber(rest);
  if (!stage) return BadAction(text, "it must start with a stage number");
  const std::optional<ActionKind> kind = TakeKind(rest);
  if (!kind && IsReserved(rest)) {
    return BadAction(text, "R, UNSHARD and RESHARD are reserved and not supported yet");
  }
  if (!kind) return BadAction(text, "the kind must be F, I, W, B, REDUCE_GRAD, VALIDATE or STEP");
  Action action{*kind, StageId(*stage), {}};
  if (!HasMicroBatch(*kind)) {
    if (!rest.empty()) return BadAction(text, "this kind has no micro-batch");
    return action;
  }
  const std::optional<std::int32_t> home = TakeNumber(rest);
  if (!home || !rest.starts_with('.')) return BadAction(text, "a micro-batch is PIPELINE.NUMBER");
  rest.remove_prefix(1);
  const std::optional<std::int32_t> index = TakeNumber(rest);
  if (!index || !rest.empty()) return BadAction(text, "a micro-batch is PIPELINE.NUMBER");
  action.micro_batch = MicroBatch{PipelineId(*home), *index};
  return action;
}

}  // namespace recycle
