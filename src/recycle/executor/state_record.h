// What a copy of a stage's state consists of on the wire, in this order: parameters one after the
// other, each at the donor's version then; after every step that the donor makes meanwhile the
// reduced gradients of the parameters that have gone out already, by which the joiner makes the
// same step on them; and at the end the rest of the state. So whatever has arrived is at the
// donor's version, and nothing has to be kept for later.
//
// A record is a frame with its header, then frames with its bytes. Plain values; pure.
#ifndef RECYCLE_EXECUTOR_STATE_RECORD_H_
#define RECYCLE_EXECUTOR_STATE_RECORD_H_

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/comm/frame.h"
#include "recycle/executor/adamw.h"

namespace recycle {

enum class StateRecordKind : std::int32_t {
  kParameter,  // `index`, at `version`: value, first and second moment
  kStep,       // of iteration `version`: gradients of the first `index` parameters
  kEnd,        // all that has gone out before makes the state of `version`
};

struct StateRecordHeader {
  StateRecordKind kind = StateRecordKind::kParameter;
  std::int32_t version = 0;
  std::int32_t index = 0;
  // kEnd: what the version does not tell; see OptimizerStep::Scalars. Flags are 0 or 1.
  std::int32_t owes_validation = 0;
  std::int32_t stop_agreed = 0;
  std::int32_t stops_next = 0;
  std::int32_t clean_in_a_row = 0;
  std::int32_t skipped_in_a_row = 0;
  // On iteration `version` - 1. A snapshot's end says nothing else.
  std::int32_t knows_verdict = 0;
  std::int32_t verdict_stop = 0;
  double verdict_squared_norm = 0;
  double squared_norm = 0;  // kStep: the global one; kEnd: this stage's share of the last one
  std::uint64_t bytes = 0;  // that follow
  std::int64_t redone = 0;  // kStep: 1 if the step was made as it was first, and undone
};

// Largest payload of a frame of a copy.
inline constexpr std::size_t kStateChunkBytes = std::size_t{128} << 10;

// The key of the `number`th frame of a copy.
FrameKey StateFrameKey(int number);

std::vector<std::byte> EncodeStateHeader(const StateRecordHeader& header);
// Error: kDataLoss if `bytes` are no header of a copy of `num_parameters` parameters.
StatusOr<StateRecordHeader> DecodeStateHeader(std::span<const std::byte> bytes,
                                              std::size_t num_parameters);

// Value, first and second moment, one after the other.
std::size_t StateBytes(const ParameterState& parameter);
std::vector<std::byte> CopyState(const ParameterState& parameter);
// `bytes` has StateBytes(parameter) of them.
void WriteState(std::span<const std::byte> bytes, const ParameterState& parameter);

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_STATE_RECORD_H_
