#include "recycle/executor/fault_injector.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <variant>

#include "recycle/base/check.h"

namespace recycle {
namespace {

class RecordingLink : public ControlLink {
 public:
  void Send(const ExecutorMessage& message) override { sent_.push_back(message); }
  StatusOr<CoordinatorMessage> Receive() override { return absl::UnavailableError("none"); }
  void Close() override {}
  std::vector<ExecutorMessage> sent_;
};

class FaultInjectorTest : public testing::Test {
 protected:
  FaultInjectorTest() {
    std::string pattern = testing::TempDir() + "recycle-faults-XXXXXX";
    folder_ = mkdtemp(pattern.data());
    options_.fault_folder = folder_;
    options_.worker = *ParseWorkerId("1:0");
    clock_.Advance(std::chrono::microseconds(3));
  }
  ~FaultInjectorTest() override { std::filesystem::remove_all(folder_); }

  void AddFault(const std::string& text) {
    const StatusOr<Fault> fault = ParseFault(text);
    RC_CHECK(fault.ok()) << fault.status();
    options_.faults.push_back(*fault);
  }

  // How often faults that fired were reported.
  int Fired() const {
    int fired = 0;
    for (const ExecutorMessage& message : link_.sent_)
      fired += std::get<FaultReport>(message).fired;
    return fired;
  }

  std::string folder_;
  ExecutorOptions options_;
  RecordingLink link_;
  ManualClock clock_;
};

TEST_F(FaultInjectorTest, FiresOnceAtItsPointIterationAndAction) {
  AddFault("slow x3 1:0 at F of iteration 5 on 0F1.2");
  FaultInjector injector(options_, link_, clock_);
  const Action other = *ParseAction("0F1.1");
  const Action named = *ParseAction("0F1.2");
  injector.At(FaultPoint::kForward, 3, named);
  injector.At(FaultPoint::kForward, 4, other);
  injector.At(FaultPoint::kSend, 4, named);
  EXPECT_EQ(injector.SlowFactor(), 1.0);
  EXPECT_TRUE(injector.Armed(FaultPoint::kForward));
  EXPECT_FALSE(injector.Armed(FaultPoint::kSend));
  injector.At(FaultPoint::kForward, 4, named);
  EXPECT_EQ(injector.SlowFactor(), 3.0);
  injector.At(FaultPoint::kForward, 4, named);
  EXPECT_EQ(Fired(), 1);
  EXPECT_FALSE(injector.Armed(FaultPoint::kForward));
}

TEST_F(FaultInjectorTest, LeavesAStampThatLaterLivesRespect) {
  AddFault("kill 0:0 at F");
  AddFault("slow x2 stage 0 at W of iteration 2 for 1s");
  FaultInjector injector(options_, link_, clock_);
  injector.At(FaultPoint::kBackwardWeight, 1, *ParseAction("0B0.0"));
  std::ifstream file(folder_ + "/fault-1-1-0.json");
  const nlohmann::json stamp = nlohmann::json::parse(file);
  EXPECT_EQ(stamp["index"], 1);
  EXPECT_EQ(stamp["worker"], "1:0");
  EXPECT_EQ(stamp["point"], "W");
  EXPECT_EQ(stamp["iteration"], 2);
  EXPECT_EQ(stamp["monotonic_ns"], 3000);
  EXPECT_EQ(injector.SlowFactor(), 2.0);
  clock_.Advance(std::chrono::seconds(1));
  EXPECT_EQ(injector.SlowFactor(), 1.0) << "after its second";

  FaultInjector next_life(options_, link_, clock_);
  next_life.At(FaultPoint::kBackwardWeight, 1, *ParseAction("0B0.0"));
  EXPECT_EQ(Fired(), 1);
}

TEST_F(FaultInjectorTest, AnActionInsideABackwardIsFoundByItsOwnName) {
  AddFault("slow x2 1:0 at I on 0I1.0");
  FaultInjector injector(options_, link_, clock_);
  injector.At(FaultPoint::kBackwardInput, 0, *ParseAction("0B1.0"));
  EXPECT_EQ(Fired(), 1);
}

TEST_F(FaultInjectorTest, AHeartbeatAfterTheIterationWillDo) {
  AddFault("slow x2 1:0 at heartbeat of iteration 4");
  FaultInjector injector(options_, link_, clock_);
  injector.At(FaultPoint::kHeartbeat, 2);
  EXPECT_EQ(Fired(), 0);
  injector.At(FaultPoint::kHeartbeat, 5);
  EXPECT_EQ(Fired(), 1);
}

TEST_F(FaultInjectorTest, TheFirstEndOfALinkCutsIt) {
  AddFault("drop link 1:0-0:1 at send");
  AddFault("drop link 0:0-1:1 at send");
  FaultInjector injector(options_, link_, clock_);
  std::vector<WorkerId> cut;
  bool has_link = false;
  injector.SetLinkCutter({.has_link = [&](WorkerId) { return has_link; },
                          .cut = [&cut](WorkerId peer) { cut.push_back(peer); }});
  injector.At(FaultPoint::kSend, 0);
  EXPECT_TRUE(cut.empty()) << "before the links are there";
  has_link = true;
  injector.At(FaultPoint::kSend, 0);
  EXPECT_EQ(cut, std::vector<WorkerId>{*ParseWorkerId("0:1")});
}

// The coordinator closes a stream whose first message is no Hello; the stamp says what fired.
TEST_F(FaultInjectorTest, WhatFiresAtStartIsNotSaidBeforeHello) {
  AddFault("slow x2 1:0 at start");
  FaultInjector injector(options_, link_, clock_);
  injector.At(FaultPoint::kStart, 0);
  EXPECT_EQ(injector.SlowFactor(), 2);
  EXPECT_TRUE(link_.sent_.empty());
  EXPECT_TRUE(std::filesystem::exists(folder_ + "/fault-0-1-0.json"));
}

TEST_F(FaultInjectorTest, ReportsWhatNeverFired) {
  AddFault("kill 1:0 at F of iteration 9");
  AddFault("kill 0:1 at F of iteration 9");
  FaultInjector injector(options_, link_, clock_);
  injector.ReportUnfired();
  ASSERT_EQ(link_.sent_.size(), 1U) << "the other one is another worker's";
  EXPECT_EQ(std::get<FaultReport>(link_.sent_[0]).index, 0);
  EXPECT_FALSE(std::get<FaultReport>(link_.sent_[0]).fired);
}

}  // namespace
}  // namespace recycle
