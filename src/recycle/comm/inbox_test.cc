#include "recycle/comm/inbox.h"

#include <gtest/gtest.h>

#include <future>

namespace recycle {
namespace {

FrameKey Key(int micro_batch, FrameKind kind = FrameKind::kActivation, int iteration = 0) {
  return {iteration, kind, StageId(1), micro_batch};
}

Frame MakeFrame(int generation, const FrameKey& key, std::size_t payload_bytes = 1) {
  return {Generation(generation), key,
          std::vector<std::byte>(payload_bytes, std::byte(generation))};
}

Frame MakeFrame(int generation, int micro_batch, std::size_t payload_bytes = 1) {
  return MakeFrame(generation, Key(micro_batch), payload_bytes);
}

// recovery.md, Generations: what is older is dropped, what is newer waits.
TEST(InboxTest, OlderFramesAreDroppedAndNewerOnesWait) {
  Inbox inbox;
  inbox.StartGeneration(Generation(2));
  inbox.Deliver(MakeFrame(3, 0));
  inbox.Deliver(MakeFrame(1, 0));
  inbox.Deliver(MakeFrame(2, 0));
  EXPECT_EQ(inbox.Take(Key(0))->generation, Generation(2));
  inbox.StartGeneration(Generation(3));
  EXPECT_EQ(inbox.Take(Key(0))->generation, Generation(3));
  EXPECT_EQ(inbox.counters().stale_frames, 1);
  inbox.Deliver(MakeFrame(3, 1));
  EXPECT_EQ(inbox.Take(Key(1))->generation, Generation(3));
}

TEST(InboxTest, BoundaryTensorsStayWhenTheGenerationEndsAndNothingElseDoes) {
  Inbox inbox;
  inbox.StartGeneration(Generation(2));
  for (const FrameKind kind : {FrameKind::kActivation, FrameKind::kGradient, FrameKind::kNormUp,
                               FrameKind::kNormDown, FrameKind::kValidation}) {
    inbox.Deliver(MakeFrame(2, Key(4, kind)));
  }
  const std::vector<FrameKey> kept = {Key(4, FrameKind::kActivation), Key(4, FrameKind::kGradient)};
  EXPECT_EQ(inbox.Promise(Generation(3)), kept);
  inbox.StartGeneration(Generation(3));
  EXPECT_EQ(inbox.counters().stale_frames, 3);
  EXPECT_EQ(inbox.Take(Key(4))->generation, Generation(2));
  // What is sent again although it came: the first one counts.
  inbox.Deliver(MakeFrame(3, Key(4, FrameKind::kGradient)));
  EXPECT_EQ(inbox.counters().duplicate_frames, 1);
  EXPECT_EQ(inbox.Take(Key(4, FrameKind::kGradient))->generation, Generation(2));
}

// recovery-rules.md, counterexample 6: a ledger is a promise.
TEST(InboxTest, AfterThePromiseNothingOlderIsAcceptedEvenBeforeTheNewGenerationRuns) {
  Inbox inbox;
  inbox.StartGeneration(Generation(2));
  inbox.Deliver(MakeFrame(2, 0));
  inbox.Deliver(MakeFrame(3, 1));  // of a generation that never runs here
  inbox.Deliver(MakeFrame(3, Key(1, FrameKind::kNormUp)));
  EXPECT_EQ(inbox.Promise(Generation(4)), (std::vector<FrameKey>{Key(0), Key(1)}));
  inbox.Deliver(MakeFrame(2, 2));
  inbox.Deliver(MakeFrame(3, 3));
  inbox.Deliver(MakeFrame(4, 5));  // a peer has resumed already
  EXPECT_EQ(inbox.Promise(Generation(4)), (std::vector<FrameKey>{Key(0), Key(1)}))
      << "what is newer than the running generation waits";
  inbox.StartGeneration(Generation(4));
  EXPECT_EQ(inbox.Promise(Generation(4)), (std::vector<FrameKey>{Key(0), Key(1), Key(5)}));
  EXPECT_EQ(inbox.counters().stale_frames, 3);
}

TEST(InboxTest, AClosedIterationLeavesNothingAndAcceptsNothing) {
  Inbox inbox;
  inbox.Deliver(MakeFrame(0, Key(0)));
  inbox.Deliver(MakeFrame(0, Key(0, FrameKind::kActivation, 1)));
  inbox.Deliver(MakeFrame(0, Key(0, FrameKind::kNormUp)));
  inbox.Deliver(MakeFrame(1, Key(2)));
  inbox.DropBefore(1);
  inbox.Deliver(MakeFrame(0, Key(1)));
  EXPECT_TRUE(inbox.Take(Key(0, FrameKind::kNormUp)).ok()) << "norms are asked for again";
  inbox.StartGeneration(Generation(1));
  EXPECT_EQ(inbox.Promise(Generation(1)),
            (std::vector<FrameKey>{Key(0, FrameKind::kActivation, 1)}));
  EXPECT_EQ(inbox.counters().stale_frames, 3);
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
