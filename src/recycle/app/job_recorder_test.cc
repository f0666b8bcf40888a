#include "recycle/app/job_recorder.h"

#include <gtest/gtest.h>
#include <stdlib.h>

#include <filesystem>
#include <fstream>

#include "recycle/base/file.h"

namespace recycle {
namespace {

namespace fs = std::filesystem;
using std::chrono::milliseconds;

constexpr WorkerId WorkerAt(int pipeline, int stage) {
  return WorkerId{PipelineId(pipeline), StageId(stage)};
}

class JobRecorderTest : public ::testing::Test {
 protected:
  JobRecorderTest() : folder_(MakeFolder()), launcher_(-1) {
    config_.parallel.data = 2;
    config_.parallel.pipeline = 2;
    config_.batch.micro_batch_size = 2;
    config_.batch.micro_batches = 1;
    config_.train.iterations = 3;
    config_.inject = {*ParseFault("kill 1:1 at F of iteration 2"),
                      *ParseFault("slow x2 0:0 at F of iteration 3")};
    clock_.Advance(std::chrono::seconds(100));
  }
  ~JobRecorderTest() override { fs::remove_all(folder_.root()); }

  static RunFolder MakeFolder() {
    std::string pattern = ::testing::TempDir() + "/recorder-XXXXXX";
    return *RunFolder::Create(mkdtemp(pattern.data()), "job.yaml", SystemClock());
  }

  std::unique_ptr<JobRecorder> Recorder() {
    return std::make_unique<JobRecorder>(config_, folder_, clock_, launcher_,
                                         Sampler(100, /*micro_batches_per_iteration=*/2,
                                                 /*micro_batch_size=*/2, /*seed=*/1));
  }

  static std::vector<Json> Lines(const std::string& path) {
    std::ifstream file(path);
    std::vector<Json> lines;
    for (std::string line; std::getline(file, line);) lines.push_back(Json::parse(line));
    return lines;
  }
  Json Event(const std::string& name) const {
    for (const Json& event : Lines(folder_.Events())) {
      if (event.at("event") == name) return event;
    }
    return {};
  }

  static AnnounceIteration Iteration(int iteration, double loss, int live) {
    AnnounceIteration announced;
    announced.done.generation = Generation(1);
    announced.done.iteration = iteration;
    announced.done.results = {{{PipelineId(0), 0}, PipelineId(0), loss * 64, 64},
                              {{PipelineId(1), 0}, PipelineId(0), loss * 64, 64}};
    announced.workers_live = live;
    announced.peak_bytes = {{0, 1000}, {1, 2000}};
    return announced;
  }

  static AnnounceResumed FirstResume() {
    AnnounceResumed resumed;
    resumed.generation = Generation(1);
    return resumed;
  }
  static EndJob End(EndJob::How how) {
    EndJob end;
    end.how = how;
    end.parameters_sha256 = "ab";
    return end;
  }

  RunFolder folder_;
  JobConfig config_;
  ManualClock clock_;
  LauncherLink launcher_;
};

TEST_F(JobRecorderTest, APacedJobsIterationsAreTimedByItsWorkers) {
  config_.device.kind = "paced";
  config_.device.time_scale = 0.01;
  const std::unique_ptr<JobRecorder> recorder = Recorder();
  recorder->OnResumed(FirstResume());
  const TimePoint start = clock_.Now();
  AnnounceIteration announced = Iteration(0, 5.0, 4);
  announced.done.stepped_at = start + milliseconds(20);
  clock_.Advance(milliseconds(35));  // the coordinator hears late
  recorder->OnIteration(announced);
  EXPECT_EQ(Lines(folder_.Metrics()).at(0).at("iteration_ms"), 2000.0);
}

TEST_F(JobRecorderTest, AFailureIsTimedFromItsFaultsStamp) {
  const std::unique_ptr<JobRecorder> recorder = Recorder();
  const TimePoint fault = clock_.Now();
  std::ofstream(folder_.FaultStamp(0, WorkerAt(1, 1))) << Json{
      {"index", 0},          {"worker", "1:1"}, {"pid", 7},
      {"point", "F"},        {"iteration", 2},  {"monotonic_ns", fault.time_since_epoch().count()},
      {"unix_s", 1700000000}};
  GenerationRecord record;
  record.generation = Generation(2);
  record.members = {WorkerAt(0, 0), WorkerAt(0, 1), WorkerAt(1, 0)};
  record.lost = {{WorkerAt(1, 1), LossCause::kProcess, "agent 0", fault + milliseconds(20), 1}};
  record.reason = "worker 1:1 died";
  recorder->OnGenerationStored(
      record, {.stored = fault + milliseconds(22), .told = fault + milliseconds(23)});
  const std::vector<Json> events = Lines(folder_.Events());
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0].at("event"), "fault_injected");
  EXPECT_EQ(events[0].at("what"), "kill");
  EXPECT_EQ(events[0].at("target"), "1:1");
  EXPECT_EQ(events[0].at("point"), "F");
  EXPECT_EQ(events[0].at("iteration"), 2);
  EXPECT_EQ(events[1].at("event"), "failure_detected");
  EXPECT_EQ(events[1].at("cause"), "process");
  EXPECT_EQ(events[1].at("iteration"), 2);
  EXPECT_DOUBLE_EQ(events[1].at("detect_ms"), 22);
  EXPECT_DOUBLE_EQ(events[1].at("signal_ms"), 20);
  EXPECT_DOUBLE_EQ(events[1].at("told_ms"), 23);
  EXPECT_EQ(events[2].at("live"), (Json{"0:0", "0:1", "1:0"}));
}

TEST_F(JobRecorderTest, ActionsOfTheDeadAreSplitByItsOwnTrace) {
  const std::unique_ptr<JobRecorder> recorder = Recorder();
  recorder->OnResumed(FirstResume());
  recorder->OnIteration(Iteration(0, 5, 4));
  std::ofstream(folder_.TracePart(WorkerAt(1, 1)))
      << "{\"a\":\"1F1.0\",\"it\":2,\"g\":1,\"s\":1,\"e\":2,\"att\":1}\n{\"a\":\"1B";
  GenerationRecord record;
  record.generation = Generation(2);
  record.lost = {{WorkerAt(1, 1), LossCause::kProcess, "agent 0", clock_.Now(), 1}};
  recorder->OnGenerationStored(record, {.stored = clock_.Now(), .told = clock_.Now()});
  AnnounceResumed resumed;
  resumed.generation = Generation(2);
  resumed.since_decision = milliseconds(40);
  resumed.iteration = 1;
  resumed.lost_shares = {{WorkerAt(1, 1), 1, *ParseActions("1F1.0 1B1.0")},
                         {WorkerAt(1, 1), 2, *ParseActions("1F1.0 1B1.0"), /*ahead=*/true}};
  resumed.rerouted_to = {{WorkerAt(0, 1), 1}};
  resumed.regenerated_actions = 2;
  recorder->OnResumed(resumed);
  const Json event = Lines(folder_.Events()).back();
  EXPECT_EQ(event.at("replayed_actions"), 1);
  EXPECT_EQ(event.at("rerouted_actions"), 2);
  EXPECT_EQ(event.at("regenerated_actions"), 2);
  EXPECT_EQ(event.at("lost_iterations"), 0);
  EXPECT_DOUBLE_EQ(event.at("resume_ms"), 40);
  EXPECT_EQ(event.at("rerouted_to"), (Json{{"0:1", 1}}));
}

TEST_F(JobRecorderTest, MetricsAndSamplesAreOneLineEach) {
  const std::unique_ptr<JobRecorder> recorder = Recorder();
  recorder->OnResumed(FirstResume());
  clock_.Advance(milliseconds(250));
  recorder->OnIteration(Iteration(0, 5.5, 4));
  const std::vector<Json> metrics = Lines(folder_.Metrics());
  ASSERT_EQ(metrics.size(), 1U);
  EXPECT_EQ(metrics[0].at("iteration"), 1);
  EXPECT_DOUBLE_EQ(metrics[0].at("loss"), 5.5);
  EXPECT_EQ(metrics[0].at("tokens"), 128);
  EXPECT_DOUBLE_EQ(metrics[0].at("iteration_ms"), 250);
  EXPECT_DOUBLE_EQ(metrics[0].at("tokens_per_s"), 512);
  EXPECT_EQ(metrics[0].at("peak_bytes"), (Json{1000, 2000}));
  const std::vector<Json> samples = Lines(folder_.Samples());
  ASSERT_EQ(samples.size(), 2U);
  EXPECT_EQ(samples[1].at("micro_batch"), "1.0");
  EXPECT_EQ(samples[1].at("worker"), "0:1");
  EXPECT_EQ(samples[1].at("samples"), Json(Sampler(100, 2, 2, 1).Samples(0, 1)));
}

TEST_F(JobRecorderTest, AFaultWithoutAStampIsMissedAtTheEndOnly) {
  const std::unique_ptr<JobRecorder> recorder = Recorder();
  EXPECT_TRUE(recorder->JobOver(End(EndJob::How::kStopped), {}));
  EXPECT_TRUE(Event("fault_missed").is_null());
  EXPECT_FALSE(recorder->JobOver(End(EndJob::How::kDone), {}));
  EXPECT_EQ(Event("fault_missed").at("fault"), "kill 1:1 at F of iteration 2");
  EXPECT_EQ(Json::parse(*ReadWholeFile(folder_.Summary())).at("parameters_sha256"), "ab");
  EXPECT_TRUE(fs::exists(folder_.Trace()));
}

}  // namespace
}  // namespace recycle
