#include "recycle/app/trace_merge.h"

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>

namespace recycle {
namespace {

constexpr WorkerId kWorker{PipelineId(1), StageId(0)};

// Iteration 2 was interrupted in generation 1 after F, I of 0.0 and F of 0.1, and made again.
constexpr const char* kPart =
    R"({"a":"0F0.0","it":1,"g":1,"s":1000,"e":1010,"att":1}
{"a":"0B0.0","it":1,"g":1,"s":1010,"e":1030,"att":1}
{"a":"0F0.0","it":2,"g":1,"s":1030,"e":1040,"att":1}
{"a":"0I0.0","it":2,"g":1,"s":1040,"e":1050,"att":1}
{"a":"0F0.1","it":2,"g":1,"s":1050,"e":1060,"att":1}
{"a":"0F0.0","it":2,"g":2,"s":1100,"e":1110,"att":2}
{"a":"0B0.0","it":2,"g":2,"s":1110,"e":1130,"att":2}
{"a":"0F0.2","it":2,"g":2,"s":1130,"e":1140,"att":2}
{"a":"0STEP","it":2,"g":2,"s":1140,"e":1150,"att":2}
{"a":"0F0.1","it":3,"g")";

class TraceMergeTest : public ::testing::Test {
 protected:
  TraceMergeTest() : path_(::testing::TempDir() + "/trace-part.jsonl") {
    std::ofstream(path_) << kPart;
  }
  ~TraceMergeTest() override { std::filesystem::remove(path_); }

  const std::string path_;
};

TEST_F(TraceMergeTest, ALineCutOffByAKillIsLeftOut) {
  const StatusOr<std::vector<TraceSpan>> spans = ReadTracePart(path_, kWorker);
  ASSERT_TRUE(spans.ok()) << spans.status();
  ASSERT_EQ(spans->size(), 9U);
  EXPECT_EQ(ToString(spans->back().action), "0STEP");
}

TEST_F(TraceMergeTest, CompletedActionsOfTheLastAttemptCountBTwice) {
  EXPECT_EQ(*CountCompleted(path_, kWorker, 1), 3);
  EXPECT_EQ(*CountCompleted(path_, kWorker, 2), 4);  // F, B, F; a step has no micro-batch
  EXPECT_EQ(*CountCompleted(path_, kWorker, 3), 0);
  EXPECT_EQ(*CountCompleted(path_ + ".none", kWorker, 1), 0);
}

TEST_F(TraceMergeTest, ADamagedLineIsNamed) {
  std::ofstream(path_) << "{\"a\":\"0F0.0\"}\n";
  EXPECT_EQ(ReadTracePart(path_, kWorker).status().code(), StatusCode::kDataLoss);
}

TEST_F(TraceMergeTest, TheChromeTraceSaysWhatWasReplayed) {
  const auto trace = nlohmann::json::parse(ToChromeTrace(*ReadTracePart(path_, kWorker)));
  std::vector<std::string> replayed;
  for (const auto& event : trace.at("traceEvents")) {
    if (event.at("ph") != "X") continue;
    EXPECT_EQ(event.at("pid"), 1);
    EXPECT_EQ(event.at("tid"), 0);
    EXPECT_EQ(event.at("name"), event.at("args").at("action"));
    if (event.at("args").at("replayed")) replayed.push_back(event.at("name"));
  }
  // 0I0.0 was done before, so the B that contains it is; 0F0.2 is new work of generation 2.
  EXPECT_EQ(replayed, (std::vector<std::string>{"0F0.0", "0B0.0"}));
  EXPECT_EQ(trace.at("traceEvents").at(2).at("ts"), 0);
  EXPECT_EQ(nlohmann::json::parse(ToChromeTrace({})).at("traceEvents").size(), 0U);
}

}  // namespace
}  // namespace recycle
