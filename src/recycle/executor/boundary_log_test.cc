#include "recycle/executor/boundary_log.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>

#include "recycle/base/prng.h"
#include "recycle/testing/small_job.h"

namespace recycle {
namespace {

constexpr std::size_t kSize = 1000;

FrameKey Key(int iteration, int micro_batch, FrameKind kind = FrameKind::kActivation) {
  return {iteration, kind, StageId(1), micro_batch};
}

SharedBytes Payload(const FrameKey& key) {
  Prng prng(static_cast<std::uint64_t>(key.iteration * 100 + key.micro_batch));
  std::vector<std::byte> bytes(kSize);
  for (std::byte& byte : bytes) byte = std::byte(prng.Next());
  return std::make_shared<const std::vector<std::byte>>(std::move(bytes));
}

void ExpectHolds(const BoundaryLog& log, const FrameKey& key) {
  const StatusOr<SharedBytes> found = log.Find(key);
  ASSERT_TRUE(found.ok()) << found.status();
  EXPECT_EQ(**found, *Payload(key)) << ToString(key);
}

TEST(BoundaryLog, SharesPayloadsUntilTheirIterationIsClosed) {
  BoundaryLog log(1 << 20, "");
  const SharedBytes payload = Payload(Key(3, 0));
  log.Keep(Key(3, 0), payload);
  log.Keep(Key(3, 0, FrameKind::kGradient), Payload(Key(3, 0)));
  log.Keep(Key(4, 1), Payload(Key(4, 1)));
  log.Keep(Key(4, 1), Payload(Key(9, 9)));  // made again: the same bits, by the rules
  EXPECT_EQ(log.Find(Key(3, 0))->get(), payload.get()) << "no copy";
  EXPECT_EQ(log.bytes_in_memory(), 3 * static_cast<std::int64_t>(kSize));
  EXPECT_EQ(log.bytes_in_file(), 0);
  log.DropBefore(4);
  EXPECT_EQ(log.keys(), std::vector<FrameKey>{Key(4, 1)});
  EXPECT_TRUE(absl::IsNotFound(log.Find(Key(3, 0)).status()));
  ExpectHolds(log, Key(4, 1));
  EXPECT_EQ(log.bytes_in_memory(), static_cast<std::int64_t>(kSize));
}

TEST(BoundaryLog, WhatMemoryMayNotHoldGoesToAFileThatHasNoNameAndDoesNotGrow) {
  const TestFolder folder;
  BoundaryLog log(2 * kSize, folder.path());
  for (int iteration = 0; iteration < 50; ++iteration) {
    for (int b = 0; b < 5; ++b) log.Keep(Key(iteration, b), Payload(Key(iteration, b)));
    // Two iterations are open at a time.
    EXPECT_LE(log.bytes_in_memory(), 2 * static_cast<std::int64_t>(kSize));
    EXPECT_LE(log.bytes_in_file(), 10 * static_cast<std::int64_t>(kSize));
    for (const FrameKey& key : log.keys()) ExpectHolds(log, key);
    log.DropBefore(iteration);
  }
  EXPECT_TRUE(std::filesystem::is_empty(folder.path()));
  log.DropBefore(50);
  EXPECT_EQ(log.bytes_in_memory() + log.bytes_in_file(), 0);
}

TEST(BoundaryLog, WithoutAFileEverythingStaysInMemory) {
  BoundaryLog log(0, "/no/such/folder");
  for (int b = 0; b < 3; ++b) log.Keep(Key(0, b), Payload(Key(0, b)));
  EXPECT_EQ(log.bytes_in_memory(), 3 * static_cast<std::int64_t>(kSize));
  for (int b = 0; b < 3; ++b) ExpectHolds(log, Key(0, b));
}

}  // namespace
}  // namespace recycle
