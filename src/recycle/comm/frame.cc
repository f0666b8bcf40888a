#include "recycle/comm/frame.h"

#include <fmt/format.h>

#include <array>
#include <cstring>

#include "recycle/base/check.h"
#include "recycle/base/prng.h"

namespace recycle {
namespace {

constexpr std::uint64_t kMagic = 0x4d415246'43594352;  // "RCYCFRAM", little-endian

// The header as it lies on the wire.
struct WireHeader {
  std::uint64_t magic;
  std::int64_t generation;
  std::int32_t iteration;
  std::int32_t kind;
  std::int32_t stage;
  std::int32_t micro_batch;
  std::int64_t stamp_ns;
  std::uint64_t payload_bytes;
  std::uint64_t first_part_bytes;
  std::uint64_t checksum;
};
static_assert(sizeof(WireHeader) == kFrameHeaderBytes);

std::uint64_t LoadWord(const std::byte* bytes) {
  std::uint64_t word;
  std::memcpy(&word, bytes, sizeof(word));
  return word;
}

// A checksum against damage, not against malice, at memory speed: four lanes of multiply and rotate
// over 32 bytes a round, then a mix. Each lane step is a bijection of its lane for a fixed word and
// of the word for a fixed lane, so a single damaged word always changes the result.
std::uint64_t Checksum(std::uint64_t seed, std::span<const std::byte> bytes) {
  constexpr std::uint64_t kMultiplier = 0x9fb21c651e98df25U;  // odd
  const auto step = [](std::uint64_t lane, std::uint64_t word) {
    lane = (lane ^ word) * kMultiplier;
    return (lane << 29) | (lane >> 35);
  };
  std::array<std::uint64_t, 4> lanes{seed, Mix64(seed), ~seed, Mix64(~seed)};
  const std::byte* next = bytes.data();
  std::size_t left = bytes.size();
  for (; left >= 32; left -= 32, next += 32) {
    for (std::size_t i = 0; i < 4; ++i) lanes[i] = step(lanes[i], LoadWord(next + 8 * i));
  }
  if (left > 0) {
    std::array<std::byte, 32> tail{};
    std::memcpy(tail.data(), next, left);
    for (std::size_t i = 0; i < 4; ++i) lanes[i] = step(lanes[i], LoadWord(tail.data() + 8 * i));
  }
  return HashKeys({lanes[0], lanes[1], lanes[2], lanes[3], bytes.size()});
}

std::int64_t Nanoseconds(TimePoint stamp) { return stamp.time_since_epoch().count(); }

std::uint64_t FrameChecksum(Generation generation, const FrameKey& key, TimePoint stamp,
                            std::size_t first_part_bytes, std::span<const std::byte> payload) {
  const auto word = [](auto value) { return static_cast<std::uint64_t>(value); };
  return Checksum(HashKeys({word(generation.value()), word(key.iteration), word(key.kind),
                            word(key.stage.value()), word(key.micro_batch),
                            word(Nanoseconds(stamp)), first_part_bytes}),
                  payload);
}

const char* KindName(FrameKind kind) {
  switch (kind) {
    case FrameKind::kActivation:
      return "activation";
    case FrameKind::kGradient:
      return "gradient";
    case FrameKind::kNormUp:
      return "norm up";
    case FrameKind::kNormDown:
      return "norm down";
    case FrameKind::kValidation:
      return "validation";
    case FrameKind::kState:
      return "state";
  }
  RC_CHECK(false) << "frame kind " << static_cast<int>(kind);
  return "";
}

}  // namespace

std::string ToString(const FrameKey& key) {
  const std::string micro_batch =
      key.micro_batch < 0 ? "" : fmt::format(", micro-batch {}", key.micro_batch);
  return fmt::format("{} of iteration {}, stage {}{}", KindName(key.kind), key.iteration,
                     key.stage.value(), micro_batch);
}

void EncodeFrameHeader(const OutgoingFrame& frame, std::size_t first_part_bytes,
                       std::span<std::byte, kFrameHeaderBytes> wire) {
  const FrameKey& key = frame.key;
  const WireHeader header{
      kMagic,
      frame.generation.value(),
      key.iteration,
      static_cast<std::int32_t>(key.kind),
      key.stage.value(),
      key.micro_batch,
      Nanoseconds(frame.stamp),
      frame.payload->size(),
      first_part_bytes,
      FrameChecksum(frame.generation, key, frame.stamp, first_part_bytes, *frame.payload)};
  std::memcpy(wire.data(), &header, sizeof(header));
}

StatusOr<FrameHeader> DecodeFrameHeader(std::span<const std::byte, kFrameHeaderBytes> wire,
                                        std::size_t max_payload_bytes) {
  WireHeader header;
  std::memcpy(&header, wire.data(), sizeof(header));
  if (header.magic != kMagic) {
    return absl::DataLossError(
        fmt::format("a frame begins with {:#018x} instead of {:#018x}", header.magic, kMagic));
  }
  if (header.kind < 0 || header.kind > static_cast<std::int32_t>(FrameKind::kState)) {
    return absl::DataLossError(fmt::format("frame kind {} is unknown", header.kind));
  }
  if (header.payload_bytes > max_payload_bytes || header.first_part_bytes > header.payload_bytes) {
    return absl::DataLossError(fmt::format(
        "a frame says {} payload bytes, the first {} with its header; at most {} are possible",
        header.payload_bytes, header.first_part_bytes, max_payload_bytes));
  }
  return FrameHeader{Generation(header.generation),
                     {header.iteration, static_cast<FrameKind>(header.kind), StageId(header.stage),
                      header.micro_batch},
                     TimePoint(Duration(header.stamp_ns)),
                     header.payload_bytes,
                     header.first_part_bytes,
                     header.checksum};
}

StatusOr<Frame> AssembleFrame(const FrameHeader& header, std::vector<std::byte> payload) {
  const std::uint64_t checksum =
      FrameChecksum(header.generation, header.key, header.stamp, header.first_part_bytes, payload);
  if (payload.size() != header.payload_bytes || checksum != header.checksum) {
    return absl::DataLossError(
        fmt::format("checksum of the {} is {:#018x}, its header says {:#018x}: damaged on the way",
                    ToString(header.key), checksum, header.checksum));
  }
  return Frame{header.generation, header.key, std::move(payload), header.stamp};
}

}  // namespace recycle
