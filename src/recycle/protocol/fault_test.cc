#include "recycle/protocol/fault.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "recycle/base/prng.h"

namespace recycle {
namespace {

using ::testing::HasSubstr;

WorkerId At(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }

TEST(Fault, ReadsEveryPartOfTheGrammar) {
  const Fault kill = ParseFault("kill 1:1 at F of iteration 20").value();
  Fault expected;
  expected.target.worker = At(1, 1);
  expected.iteration = 20;
  EXPECT_EQ(kill, expected);
  const Fault stop = ParseFault("stop stage 1 at all-reduce of iteration 3 for 2.5s").value();
  EXPECT_EQ(stop.target.kind, TargetKind::kStage);
  EXPECT_EQ(stop.target.index, 1);
  EXPECT_EQ(stop.for_seconds, 2.5);
  const Fault slow = ParseFault("slow x2.5 1:0 at F on 0F1.3").value();
  EXPECT_EQ(slow.factor, 2.5);
  EXPECT_EQ(slow.action, ParseAction("0F1.3").value());
  const Fault drop = ParseFault("drop link 0:0-1:1 at send of iteration 4").value();
  EXPECT_EQ(drop.target.kind, TargetKind::kLink);
  EXPECT_EQ(drop.target.worker, At(0, 0));
  EXPECT_EQ(drop.target.other, At(1, 1));
  EXPECT_EQ(ParseFault("diskfull coordinator at step of iteration 2").value().target.kind,
            TargetKind::kCoordinator);
  EXPECT_EQ(ParseFault("kill agent:2 at W").value().target.index, 2);
}

struct Refusal {
  const char* text;
  StatusCode code;
  const char* must_name;  // the word, the choice or the feature
};

TEST(Fault, RefusesWithTheWordTheChoicesAndAnExample) {
  const Refusal refusals[] = {
      {"", StatusCode::kInvalidArgument, "kill, stop, slow"},
      {"kil 1:1 at F", StatusCode::kInvalidArgument, "'kil' does not fit"},
      {"kill 1.1 at F", StatusCode::kInvalidArgument, "'1.1' does not fit"},
      {"kill 1:1", StatusCode::kInvalidArgument, "'at'"},
      {"kill 1:1 at G", StatusCode::kInvalidArgument, "start F I W send recv all-reduce"},
      {"kill 1:1 at G", StatusCode::kInvalidArgument, "heartbeat snapshot checkpoint "},
      {"kil 1:1 at F", StatusCode::kInvalidArgument, "slow xN, drop, corrupt or diskfull;"},
      {"kill 1:1 at F of iteration 0", StatusCode::kInvalidArgument, "counted from 1"},
      {"kill 1:1 at F of iteration", StatusCode::kInvalidArgument, "ends too early"},
      {"kill 1:1 at F of iteration 2 of iteration 3", StatusCode::kInvalidArgument, "at most once"},
      {"kill 1:1 at F on 1F0", StatusCode::kInvalidArgument, "'1F0' does not fit"},
      {"kill 1:1 at F on 1W0.0", StatusCode::kInvalidArgument, "never inside action 1W0.0"},
      {"kill 1:1 at F for 2s", StatusCode::kInvalidArgument, "stop and slow only"},
      {"stop 1:1 at F for 2", StatusCode::kInvalidArgument, "'2' does not fit"},
      {"stop 1:1 at F for -2s", StatusCode::kInvalidArgument, "'-2s' does not fit"},
      {"stop 1:1 at F for nans", StatusCode::kInvalidArgument, "'nans' does not fit"},
      {"slow 1:1 at F", StatusCode::kInvalidArgument, "xN"},
      {"slow x0.5 1:1 at F", StatusCode::kInvalidArgument, "'x0.5' does not fit"},
      {"slow x1e300 1:1 at F", StatusCode::kInvalidArgument, "'x1e300' does not fit"},
      {"stop 1:1 at F for 1e300s", StatusCode::kInvalidArgument, "'1e300s' does not fit"},
      {"drop link 0:0-1:1 at start", StatusCode::kInvalidArgument, "there is no link yet"},
      {"kill 1:1 at start of iteration 2", StatusCode::kInvalidArgument, "before iteration 1"},
      {"drop 1:1 at send", StatusCode::kInvalidArgument, "belong together"},
      {"kill link 0:0-1:1 at send", StatusCode::kInvalidArgument, "belong together"},
      {"drop link 0:0 at send", StatusCode::kInvalidArgument, "two ends"},
      {"stop agent:0 at F", StatusCode::kInvalidArgument, "killed only"},
      {"kill agent:x at F", StatusCode::kInvalidArgument, "'x' does not fit"},
      {"corrupt 1:1 at send", StatusCode::kInvalidArgument, "'corrupt' flips a bit of one worker"},
      {"corrupt stage 1 at F", StatusCode::kInvalidArgument, "'corrupt' flips a bit of one worker"},
      {"kill stage 1 at F and rejoin after 2s", StatusCode::kInvalidArgument,
       "the kill of one worker"},
      {"stop 1:1 at F and rejoin after 2s", StatusCode::kInvalidArgument, "the kill of one worker"},
      {"drop link 0:0-0:1 at join", StatusCode::kInvalidArgument, "at join there is no link yet"},
      {"kill 1:1 at checkpoint.marker", StatusCode::kInvalidArgument, "'kill all' only"},
      {"slow x2 coordinator at F", StatusCode::kInvalidArgument, "a coordinator can be killed"},
      {"kill 1:1 at store", StatusCode::kInvalidArgument, "only the coordinator is ever"},
      {"stop store at F", StatusCode::kInvalidArgument, "for a while only"},
      {"kill store at F", StatusCode::kInvalidArgument, "for a while only"},
  };
  for (const Refusal& refusal : refusals) {
    const Status status = ParseFault(refusal.text).status();
    EXPECT_EQ(status.code(), refusal.code) << refusal.text << ": " << status;
    EXPECT_THAT(std::string(status.message()), HasSubstr(refusal.must_name)) << refusal.text;
    EXPECT_THAT(std::string(status.message()), HasSubstr("e.g. \"kill 1:1")) << refusal.text;
  }
}

TEST(Fault, PrintedFaultsParseToThemselves) {
  const std::uint64_t seed = 20;
  SCOPED_TRACE(seed);
  Prng prng(seed);
  int parsed = 0;
  for (int trial = 0; trial < 2000; ++trial) {
    Fault fault;
    fault.what = static_cast<FaultKind>(prng.Below(6));
    if (fault.what == FaultKind::kSlow) fault.factor = 1 + 9 * prng.Uniform();
    fault.target.kind = static_cast<TargetKind>(prng.Below(7));
    const auto any_worker = [&] {
      return At(static_cast<int>(prng.Below(20)), static_cast<int>(prng.Below(20)));
    };
    if (fault.target.kind == TargetKind::kWorker) fault.target.worker = any_worker();
    if (fault.target.kind == TargetKind::kLink) {
      fault.target.worker = any_worker();
      fault.target.other = any_worker();
    }
    if (fault.target.kind == TargetKind::kAgent || fault.target.kind == TargetKind::kStage) {
      fault.target.index = static_cast<int>(prng.Below(100));
    }
    fault.point = static_cast<FaultPoint>(prng.Below(16));
    if (prng.Below(2) == 0) fault.iteration = 1 + static_cast<int>(prng.Below(1000));
    if (prng.Below(2) == 0) fault.action = ParseAction("3I1.2").value();
    if (prng.Below(2) == 0) fault.for_seconds = prng.Uniform() + 1e-9;
    const StatusOr<Fault> again = ParseFault(ToString(fault));
    if (!again.ok()) continue;  // parts that do not go together, or are not built yet
    EXPECT_EQ(*again, fault) << ToString(fault);
    ++parsed;
  }
  EXPECT_GT(parsed, 100);
}

TEST(Fault, TargetsMustExistInTheJob) {
  const auto check = [](const char* text) {
    return std::string(CheckFault(ParseFault(text).value(), 3, 2, 1, 80).message());
  };
  EXPECT_EQ(check("kill 2:1 at F of iteration 80"), "");
  EXPECT_THAT(check("kill 3:1 at F"), HasSubstr("no worker 3:1; pipelines are 0 to 2"));
  EXPECT_THAT(check("kill 2:2 at F"), HasSubstr("stages 0 to 1"));
  EXPECT_THAT(check("kill stage 2 at F"), HasSubstr("no stage 2"));
  EXPECT_THAT(check("kill agent:1 at F"), HasSubstr("no agent 1"));
  EXPECT_THAT(check("drop link 0:0-1:0 at send"), HasSubstr("only neighbours"));
  EXPECT_THAT(check("kill 1:1 at F of iteration 81"), HasSubstr("they are 1 to 80"));
}

TEST(Fault, HitsWorkersByNameStageLinkEndOrAll) {
  const auto hits = [](const char* text, WorkerId worker) {
    return Hits(ParseFault(text).value(), worker);
  };
  EXPECT_TRUE(hits("kill 1:1 at F", At(1, 1)));
  EXPECT_FALSE(hits("kill 1:1 at F", At(0, 1)));
  EXPECT_TRUE(hits("kill stage 1 at F", At(0, 1)));
  EXPECT_FALSE(hits("kill stage 1 at F", At(1, 0)));
  EXPECT_TRUE(hits("drop link 0:0-1:1 at send", At(1, 1)));
  EXPECT_FALSE(hits("drop link 0:0-1:1 at send", At(1, 0)));
  EXPECT_TRUE(hits("stop all at F", At(4, 4)));
  EXPECT_FALSE(hits("kill agent:0 at F", At(0, 0)));
}

}  // namespace
}  // namespace recycle
