#include "recycle/comm/frame.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <array>

namespace recycle {
namespace {

constexpr std::size_t kLargestPayload = 128;

Frame SomeFrame(std::size_t payload_bytes) {
  Frame frame{Generation(7), {41, FrameKind::kGradient, StageId(3), 12}, {}};
  for (std::size_t i = 0; i < payload_bytes; ++i) frame.payload.push_back(std::byte(i * 37));
  return frame;
}

StatusOr<Frame> Decode(std::span<const std::byte, kFrameHeaderBytes> wire,
                       const std::vector<std::byte>& payload) {
  RC_ASSIGN_OR_RETURN(const FrameHeader header, DecodeFrameHeader(wire, kLargestPayload));
  return AssembleFrame(header, payload);
}

TEST(FrameTest, SurvivesTheWire) {
  for (const std::size_t bytes : {0, 1, 31, 32, 33, 128}) {
    const Frame sent = SomeFrame(bytes);
    std::array<std::byte, kFrameHeaderBytes> wire;
    EncodeFrameHeader(sent, bytes / 2, wire);
    const StatusOr<FrameHeader> header = DecodeFrameHeader(wire, kLargestPayload);
    ASSERT_TRUE(header.ok()) << header.status();
    EXPECT_EQ(header->first_part_bytes, bytes / 2);
    const StatusOr<Frame> received = AssembleFrame(*header, sent.payload);
    ASSERT_TRUE(received.ok()) << received.status();
    EXPECT_EQ(received->generation, sent.generation);
    EXPECT_TRUE(received->key == sent.key);
    EXPECT_EQ(received->payload, sent.payload);
  }
}

// recovery.md: a frame carries a checksum. No flip of a single bit anywhere gets through.
TEST(FrameTest, EveryFlippedBitIsFound) {
  const Frame sent = SomeFrame(77);
  std::array<std::byte, kFrameHeaderBytes> wire;
  EncodeFrameHeader(sent, 38, wire);
  ASSERT_TRUE(Decode(wire, sent.payload).ok());
  for (std::size_t bit = 0; bit < 8 * wire.size(); ++bit) {
    auto damaged = wire;
    damaged[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_TRUE(absl::IsDataLoss(Decode(damaged, sent.payload).status())) << "header bit " << bit;
  }
  for (std::size_t bit = 0; bit < 8 * sent.payload.size(); ++bit) {
    auto damaged = sent.payload;
    damaged[bit / 8] ^= std::byte(1 << bit % 8);
    EXPECT_TRUE(absl::IsDataLoss(Decode(wire, damaged).status())) << "payload bit " << bit;
  }
}

TEST(FrameTest, AnErrorNamesTheFrame) {
  Frame frame = SomeFrame(5);
  std::array<std::byte, kFrameHeaderBytes> wire;
  EncodeFrameHeader(frame, 5, wire);
  frame.payload[2] = std::byte(0xff);
  EXPECT_THAT(std::string(Decode(wire, frame.payload).status().message()),
              testing::HasSubstr("gradient of iteration 41, stage 3, micro-batch 12"));
}

}  // namespace
}  // namespace recycle
