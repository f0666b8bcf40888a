#include "recycle/plan/action.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recycle/base/prng.h"
#include "recycle/plan/schedule.h"

namespace recycle {
namespace {

using testing::HasSubstr;

Action RandomAction(Prng& prng) {
  Action action;
  action.kind = static_cast<ActionKind>(prng.Below(7));
  action.stage = StageId(static_cast<int>(prng.Below(1 << prng.Below(20))));
  if (HasMicroBatch(action.kind)) {
    action.micro_batch = {PipelineId(static_cast<int>(prng.Below(2000))),
                          static_cast<int>(prng.Below(1 << prng.Below(20)))};
  }
  return action;
}

TEST(Action, PrintsAsInTheGlossary) {
  EXPECT_EQ(ToString(Action{ActionKind::kForward, StageId(2), {PipelineId(1), 5}}), "2F1.5");
  EXPECT_EQ(ToString(Action{ActionKind::kReduceGrad, StageId(0), {}}), "0REDUCE_GRAD");
}

TEST(Action, ParseIsTheInverseOfPrint) {
  Prng prng(7);
  std::vector<Action> all;
  for (int i = 0; i < 2000; ++i) {
    all.push_back(RandomAction(prng));
    ASSERT_EQ(ParseAction(ToString(all.back())).value(), all.back()) << all.back();
  }
  EXPECT_EQ(ParseActions(ToString(all)).value(), all);
}

TEST(Action, RefusesEverythingElseAndSaysWhy) {
  const std::pair<const char*, const char*> cases[] = {
      {"", "start with a stage"},
      {"F0.0", "start with a stage"},
      {"-1F0.0", "start with a stage"},
      {"0X0.0", "kind must be"},
      {"0f0.0", "kind must be"},
      {"0F", "PIPELINE.NUMBER"},
      {"0F0", "PIPELINE.NUMBER"},
      {"0F0.", "PIPELINE.NUMBER"},
      {"0F0.0x", "PIPELINE.NUMBER"},
      {"0F0.-1", "PIPELINE.NUMBER"},
      {"0STEP0.0", "has no micro-batch"},
      {"1R0.0", "reserved"},
      {"1UNSHARD", "reserved"},
      {"99999999999F0.0", "start with a stage"},
      {"0F0.99999999999", "PIPELINE.NUMBER"},
  };
  for (const auto& [text, why] : cases) {
    const Status status = ParseAction(text).status();
    EXPECT_EQ(status.code(), StatusCode::kInvalidArgument) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr(why)) << text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("write e.g.")) << text;
  }
}

TEST(Schedule, FindsWorkersByBinarySearch) {
  Schedule schedule;
  for (const int k : {0, 2, 3}) schedule.push_back({WorkerId{PipelineId(k), StageId(1)}, {}});
  EXPECT_EQ(FindWorker(schedule, WorkerId{PipelineId(2), StageId(1)}), &schedule[1]);
  EXPECT_EQ(FindWorker(schedule, WorkerId{PipelineId(1), StageId(1)}), nullptr);
  EXPECT_EQ(FindWorker(schedule, WorkerId{PipelineId(9), StageId(1)}), nullptr);
}

}  // namespace
}  // namespace recycle
