// What travels on a link: a frame is a key, a generation, a stamp and a payload of bytes. On the
// wire it is a fixed header {magic, generation, key, stamp, payload bytes, bytes of the first part,
// checksum} and then the payload, in one message or, after the first part, in two.
//
//   Frame frame{generation, {iteration, FrameKind::kActivation, StageId(2), 7}, std::move(bytes)};
//
// Values; the functions are pure. Both ends of a link have the same byte order.
#ifndef RECYCLE_COMM_FRAME_H_
#define RECYCLE_COMM_FRAME_H_

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/base/status.h"

namespace recycle {

enum class FrameKind : std::int32_t {
  kActivation,
  kGradient,
  kNormUp,
  kNormDown,
  kValidation,
  kState,  // a piece of a copy of a stage's state, on a link of its own
};

// Activations and gradients are what micro-batches hand over at a stage's boundary. They stay valid
// from one generation to the next; everything else belongs to the generation it was sent in.
constexpr bool IsBoundary(FrameKind kind) {
  return kind == FrameKind::kActivation || kind == FrameKind::kGradient;
}

// What a receiver asks its inbox for. Within a generation there is at most one frame per key and
// receiver.
struct FrameKey {
  int iteration = 0;
  FrameKind kind = FrameKind::kActivation;
  StageId stage;         // the receiver's stage
  int micro_batch = -1;  // global index k*M+m; -1 where the frame belongs to no micro-batch
  auto operator<=>(const FrameKey&) const = default;
};

// "activation of iteration 3, stage 1, micro-batch 7"
std::string ToString(const FrameKey& key);

struct Frame {
  Generation generation;
  FrameKey key;
  std::vector<std::byte> payload;
  TimePoint stamp = {};  // when it was sent, by the time of a paced sender; else the epoch
};

// A payload that its sender may keep beyond the sending, without a copy.
using SharedBytes = std::shared_ptr<const std::vector<std::byte>>;

// A frame on its way out.
struct OutgoingFrame {
  OutgoingFrame(Generation in, const FrameKey& name, SharedBytes bytes, TimePoint sent = {})
      : generation(in), key(name), payload(std::move(bytes)), stamp(sent) {}
  OutgoingFrame(Frame frame)  // NOLINT(google-explicit-constructor): the same thing, not shared
      : OutgoingFrame(frame.generation, frame.key,
                      std::make_shared<const std::vector<std::byte>>(std::move(frame.payload)),
                      frame.stamp) {}

  Generation generation;
  FrameKey key;
  SharedBytes payload;
  TimePoint stamp;
};

inline constexpr std::size_t kFrameHeaderBytes = 64;

// A header as read from the wire.
struct FrameHeader {
  Generation generation;
  FrameKey key;
  TimePoint stamp;
  std::size_t payload_bytes = 0;
  std::size_t first_part_bytes = 0;  // payload bytes in the header's own message
  std::uint64_t checksum = 0;        // of the header's other fields and the payload
};

// The header of `frame`, whose first `first_part_bytes` travel with it.
void EncodeFrameHeader(const OutgoingFrame& frame, std::size_t first_part_bytes,
                       std::span<std::byte, kFrameHeaderBytes> wire);

// Error: kDataLoss when the bytes are no header of a frame of at most `max_payload_bytes`.
StatusOr<FrameHeader> DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> wire,
                                        std::size_t max_payload_bytes);

// The frame of a header and its payload. Error: kDataLoss when the checksum disagrees.
StatusOr<Frame> AssembleFrame(const FrameHeader& header, std::vector<std::byte> payload);

}  // namespace recycle

#endif  // RECYCLE_COMM_FRAME_H_
