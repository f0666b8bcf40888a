#include "recycle/comm/inbox.h"

#include <gtest/gtest.h>

#include <future>

namespace recycle {
namespace {

FrameKey Key(int micro_batch) { return {0, FrameKind::kActivation, StageId(1), micro_batch}; }

Frame MakeFrame(int generation, int micro_batch, std::size_t payload_bytes = 1) {
  return {Generation(generation), Key(micro_batch),
          std::vector<std::byte>(payload_bytes, std::byte(generation))};
}

// recovery.md, Generations: what is older is dropped, what is newer waits.
TEST(InboxTest, OlderFramesAreDroppedAndNewerOnesWait) {
  Inbox inbox;
  inbox.StartGeneration(Generation(2));
  inbox.Deliver(MakeFrame(3, 0));
  inbox.Deliver(MakeFrame(1, 0));
  inbox.Deliver(MakeFrame(2, 0));
  inbox.Deliver(MakeFrame(2, 1));
  EXPECT_EQ(inbox.Take(Key(0))->generation, Generation(2));
  inbox.StartGeneration(Generation(3));  // drops micro-batch 1 of generation 2
  EXPECT_EQ(inbox.Take(Key(0))->generation, Generation(3));
  EXPECT_EQ(inbox.counters().stale_frames, 2);
  inbox.Deliver(MakeFrame(3, 1));
  EXPECT_EQ(inbox.Take(Key(1))->generation, Generation(3));
}

TEST(InboxTest, ADuplicateIsIgnoredAndBytesAreCounted) {
  Inbox inbox;
  inbox.Deliver(MakeFrame(0, 4, 10));
  inbox.Deliver(MakeFrame(0, 4, 20));
  EXPECT_EQ(inbox.Take(Key(4))->payload.size(), 10u);
  EXPECT_EQ(inbox.counters().duplicate_frames, 1);
  EXPECT_EQ(inbox.counters().frames, 2);
  EXPECT_EQ(inbox.counters().bytes, 30);
}

TEST(InboxTest, TakeBlocksUntilItsFrameComes) {
  Inbox inbox;
  std::future<StatusOr<Frame>> taken =
      std::async(std::launch::async, [&] { return inbox.Take(Key(9)); });
  inbox.Deliver(MakeFrame(0, 8));
  inbox.Deliver(MakeFrame(0, 9));
  EXPECT_TRUE(taken.get()->key == Key(9));
}

TEST(InboxTest, AnInterruptEndsEveryTakeUntilCleared) {
  Inbox inbox;
  std::future<StatusOr<Frame>> blocked =
      std::async(std::launch::async, [&] { return inbox.Take(Key(0)); });
  inbox.Interrupt(absl::AbortedError("generation 5 is coming"));
  EXPECT_EQ(blocked.get().status(), absl::AbortedError("generation 5 is coming"));
  inbox.Deliver(MakeFrame(0, 0));
  EXPECT_TRUE(absl::IsAborted(inbox.Take(Key(0)).status()));
  inbox.ClearInterrupt();
  EXPECT_TRUE(inbox.Take(Key(0)).ok());
}

}  // namespace
}  // namespace recycle
