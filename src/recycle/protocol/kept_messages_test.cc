#include "recycle/protocol/kept_messages.h"

#include <gtest/gtest.h>

#include <utility>

namespace recycle {
namespace {

WorkerId WorkerAt(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }

Ledger MakeLedger(int generation, int version) {
  Ledger ledger;
  ledger.generation = Generation(generation);
  ledger.version = version;
  return ledger;
}

Prepare MakePrepare(int generation, std::vector<WorkerId> members) {
  Prepare prepare;
  prepare.generation = Generation(generation);
  prepare.members = std::move(members);
  return prepare;
}

class KeptMessagesTest : public ::testing::Test {
 protected:
  void SetUp() override { kept_.OnSend(Hello{WorkerAt(1, 1), 7, Generation(0), 0}); }

  void Done(int iteration) {
    IterationDone done;
    done.iteration = iteration;
    kept_.OnSend(done);
  }
  std::vector<int> Results() const {
    std::vector<int> iterations;
    for (const ExecutorMessage& message : kept_.Again()) {
      if (const auto* done = std::get_if<IterationDone>(&message)) {
        iterations.push_back(done->iteration);
      }
    }
    return iterations;
  }
  std::vector<WorkerId> Accused() const {
    std::vector<WorkerId> accused;
    for (const ExecutorMessage& message : kept_.Again()) {
      if (const auto* broken = std::get_if<LinkBroken>(&message)) accused.push_back(broken->peer);
    }
    return accused;
  }

  KeptMessages kept_;
};

TEST_F(KeptMessagesTest, HelloComesFirstAndSaysWhatTheNewestLedgerPromised) {
  Done(4);
  kept_.OnSend(MakeLedger(3, 5));
  const std::vector<ExecutorMessage> again = kept_.Again();
  ASSERT_EQ(again.size(), 2U);
  const Hello& hello = std::get<Hello>(again.front());
  EXPECT_EQ(hello.worker, WorkerAt(1, 1));
  EXPECT_EQ(hello.pid, 7);
  EXPECT_EQ(hello.generation, Generation(3));
  EXPECT_EQ(hello.version, 5);
}

// Else the next coordinator takes it for a member that has its donor's state.
TEST_F(KeptMessagesTest, WhoCopiesAStateIsNoMemberWhateverItHasPromised) {
  const auto promised = [this] { return std::get<Hello>(kept_.Again().front()).generation; };
  kept_.OnSend(MakeLedger(3, 5));
  Transfer transfer;
  transfer.donor = WorkerAt(1, 1);
  transfer.joiner = WorkerAt(0, 1);
  kept_.OnReceive(transfer);
  EXPECT_EQ(promised(), Generation(3));
  std::swap(transfer.donor, transfer.joiner);
  kept_.OnReceive(transfer);
  EXPECT_EQ(promised(), Generation(0));
}

TEST_F(KeptMessagesTest, ResultsStayUntilTheyAreRecorded) {
  for (const int iteration : {4, 5, 6}) Done(iteration);
  EXPECT_EQ(Results(), (std::vector{4, 5, 6}));
  kept_.OnReceive(Recorded{.iteration = 5});
  EXPECT_EQ(Results(), std::vector{6});
  kept_.OnReceive(Recorded{.iteration = 4});  // late, from the coordinator before
  EXPECT_EQ(Results(), std::vector{6});
}

TEST_F(KeptMessagesTest, ABrokenLinkStaysUntilItIsMadeAnewOrItsOtherEndIsGone) {
  for (const int pipeline : {0, 1, 2}) {
    kept_.OnSend(LinkBroken{Generation(2), WorkerAt(pipeline, 0), "reset"});
  }
  Prepare prepare = MakePrepare(3, {WorkerAt(0, 0), WorkerAt(1, 0), WorkerAt(1, 1)});
  prepare.relinked = {{WorkerAt(0, 0), WorkerAt(1, 1)}, {WorkerAt(1, 0), WorkerAt(2, 1)}};
  kept_.OnReceive(prepare);
  EXPECT_EQ(Accused(), std::vector{WorkerAt(1, 0)});
}

TEST_F(KeptMessagesTest, FinishedIsOfTheGenerationInWhichItWasSaid) {
  Finished finished;
  finished.version = 8;
  kept_.OnSend(finished);
  ASSERT_EQ(kept_.Again().size(), 2U);
  EXPECT_EQ(std::get<Finished>(kept_.Again().back()).version, 8);
  kept_.OnReceive(MakePrepare(4, {WorkerAt(1, 1)}));
  EXPECT_EQ(kept_.Again().size(), 1U);
}

TEST_F(KeptMessagesTest, SnapshotsStayUntilNewerOnesCountOrEverybodyHasGoneBack) {
  const auto versions = [this] {
    std::vector<int> kept;
    const std::vector<ExecutorMessage> again = kept_.Again();
    for (const SnapshotHeld& held : std::get<Hello>(again.front()).snapshots) {
      kept.push_back(held.version);
    }
    return kept;
  };
  for (const int version : {4, 8, 12}) kept_.OnSend(SnapshotHeld{StageId(1), version, 8});
  kept_.OnReceive(SnapshotCounts{8});
  EXPECT_EQ(versions(), (std::vector{8, 12}));
  Prepare back = MakePrepare(3, {WorkerAt(1, 1)});
  back.restore = 8;
  back.from_memory = true;
  kept_.OnReceive(back);
  EXPECT_EQ(versions(), (std::vector{8, 12}));
  Resume resume;
  resume.generation = Generation(3);
  kept_.OnReceive(resume);
  EXPECT_EQ(versions(), std::vector{8});
  back.from_memory = false;
  kept_.OnReceive(back);
  kept_.OnReceive(resume);
  EXPECT_TRUE(versions().empty());
}

TEST(KeptMessages, NothingIsSaidBeforeHello) {
  KeptMessages kept;
  kept.OnSend(MakeLedger(1, 0));
  EXPECT_TRUE(kept.Again().empty());
}

TEST_F(KeptMessagesTest, WhatWasMeasuredIsToldToEveryCoordinator) {
  kept_.OnSend(MeasuredCosts{10, 11, 12});
  kept_.OnReceive(MakePrepare(2, {WorkerAt(1, 1)}));
  const std::vector<ExecutorMessage> again = kept_.Again();
  ASSERT_EQ(again.size(), 2U);
  EXPECT_EQ(std::get<MeasuredCosts>(again.back()), (MeasuredCosts{10, 11, 12}));
}

}  // namespace
}  // namespace recycle
