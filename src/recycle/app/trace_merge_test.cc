#include "recycle/app/trace_merge.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace recycle {
namespace {

constexpr WorkerId kWorker{PipelineId(1), StageId(0)};

// In iteration 2 generation 1 ended after F, I of 0.0 and F of 0.1; generation 2 did the rest, and
// made a lost tensor of 1.0 again.
constexpr const char* kPart =
    R"({"a":"0F0.0","it":1,"g":1,"s":1000,"e":1010,"att":1}
{"a":"0B0.0","it":1,"g":1,"s":1010,"e":1030,"att":1}
{"a":"0F0.0","it":2,"g":1,"s":1030,"e":1040,"att":1}
{"a":"0I0.0","it":2,"g":1,"s":1040,"e":1050,"att":1}
{"a":"0F0.1","it":2,"g":1,"s":1050,"e":1060,"att":1}
{"a":"0F1.0","it":2,"g":2,"s":1090,"e":1100,"att":2,"rg":1}
{"a":"0W0.0","it":2,"g":2,"s":1100,"e":1110,"att":2}
{"a":"0B0.1","it":2,"g":2,"s":1110,"e":1130,"att":2}
{"a":"0F0.2","it":2,"g":2,"s":1130,"e":1140,"att":2}
{"a":"0STEP","it":2,"g":2,"s":1140,"e":1150,"att":2}
{"a":"0F0.1","it":3,"g")";

class TraceMergeTest : public ::testing::Test {
 protected:
  TraceMergeTest() : path_(::testing::TempDir() + "/trace-part.jsonl") {
    std::ofstream(path_) << kPart;
  }
  ~TraceMergeTest() override {
    std::filesystem::remove(path_);
    std::filesystem::remove(trace_);
  }

  nlohmann::json Events() const {
    std::ifstream file(trace_);
    return nlohmann::json::parse(file).at("traceEvents");
  }

  const std::string path_;
  const std::string trace_ = path_ + ".trace.json";
};

TEST_F(TraceMergeTest, ALineCutOffByAKillIsLeftOut) {
  std::vector<TraceSpan> spans;
  const Status read =
      ForEachSpan(path_, kWorker, [&](const TraceSpan& span) { spans.push_back(span); });
  ASSERT_TRUE(read.ok()) << read;
  ASSERT_EQ(spans.size(), 10U);
  EXPECT_EQ(ToString(spans.back().action), "0STEP");
}

TEST_F(TraceMergeTest, CompletedActionsOfAllAttemptsCountAndBTwice) {
  EXPECT_EQ(*CountCompleted(path_, kWorker, 1), 3);
  // F I F, then W B F: a step has no micro-batch, and a regeneration is no progress.
  EXPECT_EQ(*CountCompleted(path_, kWorker, 2), 7);
  EXPECT_EQ(*CountCompleted(path_, kWorker, 3), 0);
  EXPECT_EQ(*CountCompleted(path_ + ".none", kWorker, 1), 0);
}

TEST_F(TraceMergeTest, ADamagedLineIsNamedAndLeavesNoTrace) {
  std::ofstream(path_) << "{\"a\":\"0F0.0\"}\n";
  const Status merged = MergeTrace({{path_, kWorker}}, trace_);
  EXPECT_EQ(merged.code(), StatusCode::kDataLoss);
  EXPECT_NE(merged.message().find("line 1"), std::string::npos) << merged;
  EXPECT_FALSE(std::filesystem::exists(trace_));
}

TEST_F(TraceMergeTest, TheChromeTraceSaysWhatWasReplayed) {
  // Worker 2:0 died in iteration 2; F and I of 2.0, which it had completed, ran again on 1:0.
  const std::string dead = path_ + ".dead";
  std::ofstream(dead) << R"({"a":"0F2.0","it":2,"g":1,"s":900,"e":950,"att":1})"
                      << "\n"
                      << R"({"a":"0I2.0","it":2,"g":1,"s":950,"e":990,"att":1})"
                      << "\n";
  std::ofstream(path_, std::ios::app) << R"(:2,"s":1150,"e":1160,"att":1})"
                                      << "\n"
                                      << R"({"a":"0F2.0","it":2,"g":2,"s":1160,"e":1170,"att":2})"
                                      << "\n"
                                      << R"({"a":"0B2.0","it":2,"g":2,"s":1170,"e":1190,"att":2})"
                                      << "\n";
  const Status merged =
      MergeTrace({{path_, kWorker}, {dead, WorkerId{PipelineId(2), StageId(0)}}}, trace_);
  ASSERT_TRUE(merged.ok()) << merged;
  std::vector<std::string> replayed;
  std::vector<std::string> regenerated;
  std::int64_t first = 1;
  for (const auto& event : Events()) {
    if (event.at("ph") != "X") continue;
    EXPECT_EQ(event.at("tid"), 0);
    EXPECT_EQ(event.at("name"), event.at("args").at("action"));
    if (event.at("args").at("replayed")) replayed.push_back(event.at("name"));
    if (event.at("args").at("regenerated")) regenerated.push_back(event.at("name"));
    first = std::min(first, event.at("ts").get<std::int64_t>());
  }
  // 0I2.0 was done before, so the B that contains it is; 0F0.2 is new work of generation 2.
  EXPECT_EQ(replayed, (std::vector<std::string>{"0F2.0", "0B2.0"}));
  EXPECT_EQ(regenerated, std::vector<std::string>{"0F1.0"});
  EXPECT_EQ(first, 0);
  std::filesystem::remove(dead);
}

TEST_F(TraceMergeTest, WorkersThatNeverRanLeaveNoActions) {
  ASSERT_TRUE(MergeTrace({{path_ + ".none", kWorker}}, trace_).ok());
  for (const auto& event : Events()) EXPECT_EQ(event.at("ph"), "M");
}

}  // namespace
}  // namespace recycle
