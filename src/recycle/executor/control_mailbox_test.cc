#include "recycle/executor/control_mailbox.h"

#include <gtest/gtest.h>

#include <thread>

namespace recycle {
namespace {

class FakeComm : public Interruptible {
 public:
  void Interrupt(const std::string& why) override { interrupted_ = true; }
  void Rearm() override { interrupted_ = false; }
  bool interrupted_ = false;
};

WorkerId Worker(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }

Prepare MakePrepare(int generation) {
  Prepare prepare;
  prepare.generation = Generation(generation);
  return prepare;
}

Resume MakeResume(int generation) {
  Resume resume;
  resume.generation = Generation(generation);
  return resume;
}

TEST(ControlMailbox, OnlyTheNewestPrepareCountsAndNoRelinkIsForgotten) {
  FakeComm comm;
  ControlMailbox mailbox(comm);
  Prepare first = MakePrepare(2);
  first.relinked = {{Worker(0, 0), Worker(1, 1)}};
  mailbox.Post(first);
  Prepare second = MakePrepare(3);
  second.relinked = {{Worker(0, 0), Worker(0, 1)}};
  mailbox.Post(second);
  mailbox.Post(MakePrepare(2));
  EXPECT_TRUE(mailbox.interrupted());
  EXPECT_TRUE(comm.interrupted_);
  const StatusOr<Prepare> prepare = mailbox.WaitForPrepare();
  ASSERT_TRUE(prepare.ok());
  EXPECT_EQ(prepare->generation, Generation(3));
  EXPECT_EQ(prepare->relinked.size(), 2U);
  EXPECT_FALSE(mailbox.interrupted());
  EXPECT_FALSE(comm.interrupted_);
}

TEST(ControlMailbox, ResumeOfAnOlderGenerationIsIgnored) {
  FakeComm comm;
  ControlMailbox mailbox(comm);
  mailbox.Post(MakePrepare(4));
  ASSERT_TRUE(mailbox.WaitForPrepare().ok());
  mailbox.Post(MakeResume(3));
  mailbox.Post(MakeResume(4));
  EXPECT_EQ(mailbox.WaitForResume()->generation, Generation(4));
  // The Resume of 5 does not count once 6 is prepared.
  mailbox.Post(MakePrepare(5));
  ASSERT_TRUE(mailbox.WaitForPrepare().ok());
  mailbox.Post(MakeResume(5));
  mailbox.Post(MakePrepare(6));
  EXPECT_EQ(mailbox.WaitForResume().status().code(), StatusCode::kAborted);
  EXPECT_EQ(mailbox.WaitForPrepare()->generation, Generation(6));
}

TEST(ControlMailbox, AnEndWakesWhoeverWaitsAndStays) {
  FakeComm comm;
  ControlMailbox mailbox(comm);
  std::thread control([&mailbox] { mailbox.PostEnd(absl::CancelledError("leave")); });
  EXPECT_EQ(mailbox.WaitForPrepare().status().code(), StatusCode::kCancelled);
  control.join();
  mailbox.PostEnd(absl::UnavailableError("the stream ended too"));
  EXPECT_EQ(mailbox.WaitForResume().status().code(), StatusCode::kCancelled);
  EXPECT_TRUE(comm.interrupted_);
}

}  // namespace
}  // namespace recycle
