#include "recycle/app/training_progress.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace recycle {
namespace {

using ::testing::ElementsAre;
using ::testing::IsEmpty;

JobConfig ThreeByTwo() {
  JobConfig config;
  config.model.sequence = 128;
  config.parallel.data = 3;
  config.parallel.pipeline = 2;
  config.batch.micro_batch_size = 2;
  config.batch.micro_batches = 4;
  config.train.iterations = 80;
  return config;
}

Json GenerationEvent(const std::vector<std::string>& live) {
  Json event = MakeEvent(1, "generation");
  event["live"] = live;
  return event;
}

Json ResumedEvent(int replayed_actions, const Json& rerouted_to) {
  Json event = MakeEvent(2, "resumed");
  event["resume_ms"] = 44.6;
  event["replayed_actions"] = replayed_actions;
  event["iteration"] = 20;
  event["rerouted_to"] = rerouted_to;
  return event;
}

Json FailureEvent(const std::string& worker) {
  Json event = MakeEvent(1.5, "failure_detected");
  event["worker"] = worker;
  event["cause"] = "process";
  event["detected_by"] = "agent 0";
  event["detect_ms"] = 23.4;
  event["iteration"] = 20;
  return event;
}

TEST(TrainingProgress, AFailureIsOneLineOnceTrainingHasResumed) {
  TrainingProgress progress(ThreeByTwo(), "runs/x");
  EXPECT_THAT(progress.OnEvent(GenerationEvent({"0:0", "0:1", "1:0", "1:1", "2:0", "2:1"})),
              IsEmpty());
  EXPECT_THAT(progress.OnEvent(ResumedEvent(0, Json::object())),
              ElementsAre("every stage has 3 live workers or more: any 2 workers can be lost now"));
  EXPECT_THAT(progress.OnEvent(FailureEvent("1:1")), IsEmpty());
  progress.OnEvent(GenerationEvent({"0:0", "0:1", "1:0", "2:0", "2:1"}));
  EXPECT_THAT(
      progress.OnEvent(ResumedEvent(1, {{"0:1", 2}, {"2:1", 2}})),
      ElementsAre("worker 1:1 lost in iteration 20 (its process ended), noticed by agent 0 after "
                  "23 ms; micro-batches go to 0:1 (2), 2:1 (2); training resumed 45 ms later with "
                  "5 workers, 1 action repeated",
                  "every stage has 2 live workers or more: any 1 worker can be lost now"));
  progress.OnEvent(FailureEvent("0:1"));
  progress.OnEvent(GenerationEvent({"0:0", "1:0", "2:0", "2:1"}));
  EXPECT_EQ(progress.OnEvent(ResumedEvent(0, {{"2:1", 8}})).back(),
            "stage 1: 1 live worker, the next loss there ends the job");
}

TEST(TrainingProgress, IterationLinesAreMegatronsAndBrief) {
  const TrainingProgress progress(ThreeByTwo(), "runs/x");
  const Json metrics = {
      {"iteration", 5},        {"loss", 9.123456},    {"tokens", 3072}, {"tokens_per_s", 12345.6},
      {"iteration_ms", 400.0}, {"grad_norm", 1.2344}, {"lr", 1.5e-4},   {"workers_live", 6},
      {"generation", 1}};
  EXPECT_EQ(progress.LogLine(metrics),
            "iteration        5/      80 | consumed samples:          120 | elapsed time per "
            "iteration (ms): 400.0 | tokens per second: 12345.6 | learning rate: 1.500000E-04 | "
            "global batch size:    24 | lm loss: 9.123456E+00 | grad norm: 1.234 | live workers: 6 "
            "| generation: 1 |");
  EXPECT_EQ(progress.LiveLine(metrics),
            "iteration 5/80  loss 9.1235  12,346 tokens/s  6/6 workers  0:30 left");
}

TEST(TrainingProgress, TheEndSaysWhatChangedAndWhereToLook) {
  TrainingProgress progress(ThreeByTwo(), "runs/x");
  progress.OnEvent(FailureEvent("1:1"));
  progress.OnEvent(GenerationEvent({"0:0", "0:1", "1:0", "2:0", "2:1"}));
  const Json summary = {
      {"first_loss", 8.31},   {"final_loss", 4.52},
      {"iterations", 80},     {"failures", 1},
      {"lost_iterations", 3}, {"replayed_actions", 7},
      {"wall_s", 65.31},      {"tokens_per_s", {{"fault_free", 12300.0}, {"now", 9840.0}}}};
  EXPECT_THAT(
      progress.Closing(summary),
      ElementsAre("80 iterations in 65.3 s", "  loss      8.3100 at the start, 4.5200 at the end",
                  "  failures  1 (1:1), 7 actions repeated; 3 iterations done again",
                  "  speed     12,300 tokens/s before the failure, 9,840 after it (80%)",
                  "  look next runs/x/trace.json: open it at ui.perfetto.dev",
                  "            recycle plan --dp 3 --pp 2 --microbatches 4 --failed 1:1 "
                  "--html plan.html"));
}

TEST(TrainingProgress, AStageLostWithoutCheckpointsSaysWhatWouldHelp) {
  Json over = MakeEvent(1, "job_finished");
  over["how"] = "stage_lost";
  over["reason"] = "stage 1 has no live worker left";
  EXPECT_THAT(TrainingProgress(ThreeByTwo(), "runs/x").OnEvent(over),
              ElementsAre(::testing::HasSubstr("checkpoint.every")));
  JobConfig saved = ThreeByTwo();
  saved.checkpoint.every = 10;
  EXPECT_THAT(TrainingProgress(saved, "runs/x").OnEvent(over),
              ElementsAre(::testing::Not(::testing::HasSubstr("checkpoint.every"))));
}

TEST(TrainingProgress, ARunThatWentOnCountsItsOwnIterations) {
  TrainingProgress progress(ThreeByTwo(), "runs/x");
  Json restored = MakeEvent(1, "restored");
  restored["iteration"] = 80;
  restored["from"] = "disk";
  restored["lost_iterations"] = 0;
  progress.OnEvent(restored);
  progress.OnEvent(MakeEvent(2, "resumed"));
  const Json summary = {
      {"first_loss", 5.3},    {"final_loss", 5.2},
      {"iterations", 84},     {"failures", 0},
      {"lost_iterations", 0}, {"replayed_actions", 0},
      {"wall_s", 10.26},      {"tokens_per_s", {{"fault_free", nullptr}, {"now", nullptr}}}};
  EXPECT_EQ(progress.Closing(summary).front(), "84 iterations, 4 of them in this run, in 10.3 s");
}

TEST(TrainingProgress, NumbersForPeople) {
  EXPECT_EQ(WithThousands(1234567), "1,234,567");
  EXPECT_EQ(WithThousands(999), "999");
  EXPECT_EQ(ClockText(3725), "1:02:05");
  EXPECT_EQ(ClockText(59.6), "1:00");
}

TEST(TrainingProgress, OtherCostsAreToldOfWhereTheyChangeThePlan) {
  TrainingProgress progress(ThreeByTwo(), "runs/x");
  Json event = MakeEvent(3, "costs_measured");
  event["planned"] = {{10, 10, 10}, {10, 10, 10}};
  event["measured"] = {{8, 8, 12}, {12, 14, 20}};
  event["deviation"] = 1.0;
  event["period_before"] = 110.0;
  event["period_after"] = 100.0;
  event["replanned"] = true;
  EXPECT_THAT(progress.OnEvent(event),
              ElementsAre("the plan was made for I 1.00 F, W 1.00 F; measured: I 1.10 F, W 1.60 F "
                          "(off by up to 100%): another plan gets 10.0% more done"));
  event["replanned"] = false;
  EXPECT_TRUE(progress.OnEvent(event).empty());
}

TEST(TrainingProgress, AWorkerThatComesBackIsToldOf) {
  TrainingProgress progress(ThreeByTwo(), "runs/x");
  progress.OnEvent(GenerationEvent({"0:0", "0:1", "1:0", "1:1", "2:0", "2:1"}));
  Json started = MakeEvent(3, "rejoin_started");
  started["worker"] = "1:1";
  started["donor"] = "0:1";
  EXPECT_THAT(progress.OnEvent(started),
              ElementsAre("worker 1:1 comes back: it copies the state of 0:1 in the background"));
  Json rejoined = MakeEvent(4, "rejoined");
  rejoined["worker"] = "1:1";
  rejoined["donor"] = "0:1";
  rejoined["copy_bytes"] = 34'000'000;
  rejoined["copy_ms"] = 120.4;
  EXPECT_THAT(progress.OnEvent(rejoined),
              ElementsAre("worker 1:1 is back: 34.0 MB from 0:1 in 120 ms; 6 workers now"));
}

}  // namespace
}  // namespace recycle
