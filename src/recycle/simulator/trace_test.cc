// The readers of traces: what they accept, what they refuse and in which words.
#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include "recycle/base/file.h"
#include "recycle/base/prng.h"
#include "recycle/simulator/job_timeline.h"
#include "recycle/simulator/random_failures.h"
#include "recycle/simulator/trace_file.h"

namespace recycle {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

std::string ErrorOf(std::string_view text, const TraceOptions& options = {}) {
  const StatusOr<FailureTrace> trace = ReadTrace(text, options);
  if (trace.ok()) return "accepted";
  EXPECT_EQ(trace.status().code(), StatusCode::kInvalidArgument);
  return std::string(trace.status().message());
}

TEST(TraceTest, NodeEventsAreRead) {
  const StatusOr<FailureTrace> trace =
      ReadTrace("0,add,node7\n0,add,node3\r\n\n1500,remove,node7\n2500,add,node7\n", {});
  ASSERT_TRUE(trace.ok()) << trace.status();
  EXPECT_EQ(trace->num_nodes, 2);
  EXPECT_EQ(trace->events,
            (std::vector<NodeEvent>{{0, 0, true}, {0, 1, true}, {1.5, 0, false}, {2.5, 0, true}}));
  EXPECT_EQ(trace->end_s, 2.5);
}

TEST(TraceTest, BadNodeEventsAreRefusedWithLineAndReason) {
  EXPECT_THAT(ErrorOf(""), AllOf(HasSubstr("line 1"), HasSubstr("empty")));
  EXPECT_THAT(ErrorOf("5,add,node1\n4,add,node2\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("time runs backwards")));
  EXPECT_THAT(ErrorOf("0,add,node1\n1,remove,node2\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("unknown node node2")));
  EXPECT_THAT(ErrorOf("0,add,node1\n1,remove,node1\n2,remove,node1\n"),
              AllOf(HasSubstr("line 3"), HasSubstr("down already")));
  EXPECT_THAT(ErrorOf("0,add,node1\n1,add,node1\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("up already")));
  for (const char* bad : {"0,add", "0,ad,node1", "x,add,node1", "-1,add,node1", "nan,add,node1",
                          "0,add,node1,2", "0,add,node", "0,add,", "hello"}) {
    EXPECT_THAT(ErrorOf("0,add,node1\n" + std::string(bad) + "\n"), HasSubstr("line 2: ")) << bad;
  }
}

TEST(TraceTest, EveryTextThatIsCutOffWithinALineIsRefused) {
  const std::string whole = "0,add,node12\n60000,remove,node12\n";
  const std::string json = R"([{"node_id": "a", "event_time": 1.5, "event_type": "fault_start"},)"
                           "\n"
                           R"({"node_id": "a", "event_time": 2, "event_type": "fault_end"}])";
  ASSERT_EQ(ErrorOf(whole), "accepted");
  ASSERT_EQ(ErrorOf(json), "accepted");
  for (std::size_t size = 0; size + 1 < whole.size(); ++size) {
    if (size > 0 && whole[size - 1] == '\n') continue;  // a whole, shorter trace
    EXPECT_THAT(ErrorOf(whole.substr(0, size)), HasSubstr("line ")) << size;
  }
  for (std::size_t size = 1; size < json.size(); ++size) {
    EXPECT_THAT(ErrorOf(json.substr(0, size)), HasSubstr("line ")) << size;
  }
}

std::string Fault(const std::string& node, double day, const std::string& type) {
  return "{\"node_id\": \"" + node + "\", \"event_time\": " + std::to_string(day) +
         ", \"event_type\": \"" + type + "\", \"fault_type\": {\"Class\": \"GPU {x\"}}";
}

TEST(TraceTest, NestedFaultsOfAServerAreOneOutage) {
  const std::string text = "[\n" + Fault("a", 1, "fault_start") + ",\n" +
                           Fault("a", 2, "fault_start") + ",\n" + Fault("a", 3, "fault_end") +
                           ",\n" + Fault("b", 4, "fault_start") + ",\n" +
                           Fault("a", 5, "fault_end") + "\n]";
  const StatusOr<FailureTrace> trace = ReadTrace(text, {.num_nodes = 3});
  ASSERT_TRUE(trace.ok()) << trace.status();
  constexpr double kDay = 86400;
  EXPECT_EQ(trace->events, (std::vector<NodeEvent>{{0, 0, true},
                                                   {0, 1, true},
                                                   {0, 2, true},
                                                   {1 * kDay, 0, false},
                                                   {4 * kDay, 1, false},
                                                   {5 * kDay, 0, true}}));
  EXPECT_THAT(ErrorOf(text, {.num_nodes = 1}), AllOf(HasSubstr("--nodes"), HasSubstr("2")));
  EXPECT_THAT(ErrorOf("[\n" + Fault("a", 1, "fault_end") + "]"),
              AllOf(HasSubstr("line 2"), HasSubstr("must start before it ends")));
  EXPECT_THAT(
      ErrorOf("[" + Fault("a", 2, "fault_start") + ",\n\n" + Fault("b", 1, "fault_start") + "]"),
      AllOf(HasSubstr("line 3"), HasSubstr("backwards")));
  EXPECT_THAT(ErrorOf("[\n" + Fault("a", 1, "fault") + "]"),
              AllOf(HasSubstr("line 2"), HasSubstr("event_type")));
  EXPECT_THAT(ErrorOf("[]"), HasSubstr("empty"));
  EXPECT_THAT(ErrorOf("{}"), HasSubstr("must be a list"));
}

TEST(TraceTest, CurvesAreFollowedByNodes) {
  const StatusOr<FailureTrace> steps =
      ReadTrace("10,2\n20,2\n20,1\n30,3\n", {.curve = {.seconds_per_unit = 1}});
  ASSERT_TRUE(steps.ok()) << steps.status();
  EXPECT_EQ(steps->num_nodes, 4);
  EXPECT_EQ(steps->end_s, 20);
  ASSERT_EQ(steps->events.size(), 5U);
  EXPECT_EQ(steps->events[2].time_s, 10);
  EXPECT_FALSE(steps->events[2].up);

  const StatusOr<FailureTrace> dated =
      ReadTrace("2021-12-31, 23:59:00, 1\n2022-01-01, 00:01:00, 2\n", {});
  ASSERT_TRUE(dated.ok()) << dated.status();
  EXPECT_EQ(dated->end_s, 120);

  EXPECT_THAT(ErrorOf("2021-12-10, 13:09:45, 80\n2021-12-10, 13:08:45, 70\n"),
              AllOf(HasSubstr("line 2"), HasSubstr("backwards by 60 s"), HasSubstr("clean")));
  for (const char* bad : {"2021-02-30, 00:00:00, 1", "2021-12-10, 24:00:00, 1", "2021-12-10, 1",
                          "5,-1", "5,1.5", "5,2000000", "5"}) {
    EXPECT_THAT(ErrorOf("0,1\n" + std::string(bad) + "\n"), HasSubstr("line 2: ")) << bad;
  }
  EXPECT_THAT(ErrorOf("0,1\n", {.num_nodes = 4}), HasSubstr("--nodes"));
}

TEST(TraceTest, PublishedTracesAreRead) {
  const char* folder = std::getenv("RECYCLE_TRACES");
  const std::filesystem::path traces = folder != nullptr ? folder : "../shared/traces";
  if (!std::filesystem::exists(traces)) {
    GTEST_SKIP() << "no published traces at " << traces << " (RECYCLE_TRACES names their folder)";
  }
  const auto read = [&](const char* file, const TraceOptions& options = {}) {
    return ReadTrace(ReadWholeFile(traces / file).value(), options);
  };
  for (const char* file :
       {"bamboo/p3-trace.csv", "bamboo/g4dn-trace.csv", "oobleck/30m.csv", "parcae/p3_counts.csv",
        "bamboo/a100x1-east1b.txt", "derived/gcp_scaled_6h_15to24.csv"}) {
    EXPECT_TRUE(read(file).ok()) << file << ": " << read(file).status();
  }
  EXPECT_THAT(std::string(read("bamboo/v100x1-east1c.txt").status().message()),
              HasSubstr("backwards"));
  // The servers' faults merged by somebody else's program are the same outages.
  const StatusOr<FailureTrace> json = read("stepfun/fault_trace.json", {.num_nodes = 400});
  const StatusOr<FailureTrace> merged = read("derived/stepfun_400nodes_348d.csv");
  ASSERT_TRUE(json.ok() && merged.ok()) << json.status() << merged.status();
  const TimelineOptions options{.num_blocks = 400};
  EXPECT_EQ(MakeJobTimeline(*json, options)->failures, 568);
  EXPECT_EQ(MakeJobTimeline(*merged, options)->failures, 568);
  EXPECT_NEAR(MakeJobTimeline(*json, options)->mean_repair_s,
              MakeJobTimeline(*merged, options)->mean_repair_s, 60);
}

TEST(RandomFailuresTest, NodesAreIndependentStreams) {
  const RandomFailureOptions few{.num_nodes = 2, .mtbf_s = 100, .mttr_s = 10, .seed = 7};
  RandomFailureOptions many = few;
  many.num_nodes = 5;
  const auto of_node = [](const FailureTrace& trace, int node) {
    std::vector<NodeEvent> events;
    for (const NodeEvent& event : trace.events) {
      if (event.node == node) events.push_back(event);
    }
    return events;
  };
  const StatusOr<FailureTrace> small = DrawFailures(few, 10'000);
  const StatusOr<FailureTrace> large = DrawFailures(many, 10'000);
  ASSERT_TRUE(small.ok() && large.ok());
  EXPECT_EQ(of_node(*small, 1), of_node(*large, 1));
  EXPECT_NE(of_node(*large, 1), of_node(*large, 2));
}

TEST(RandomFailuresTest, WeibullKeepsItsMeanAndCorrelationTakesTheNeighbour) {
  for (const double shape : {0.7, 1.0, 2.0}) {
    const StatusOr<FailureTrace> trace =
        DrawFailures({.num_nodes = 100, .mtbf_s = 100, .weibull_shape = shape, .seed = 3}, 100'000);
    ASSERT_TRUE(trace.ok());
    const double failures = static_cast<double>(trace->events.size() - 100) / 2;
    EXPECT_NEAR(failures, 100'000, 1500) << "shape " << shape;
  }
  const StatusOr<FailureTrace> pairs = DrawFailures(
      {.num_nodes = 10, .mtbf_s = 1000, .mttr_s = 1, .correlated = 1, .seed = 3}, 100'000);
  ASSERT_TRUE(pairs.ok());
  int alone = 0;
  for (std::size_t i = 10; i < pairs->events.size(); ++i) {
    const NodeEvent& event = pairs->events[i];
    if (event.up) continue;
    const auto same = [&](const NodeEvent& other) {
      return !other.up && other.time_s == event.time_s && other.node != event.node;
    };
    alone += std::none_of(pairs->events.begin(), pairs->events.end(), same) ? 1 : 0;
  }
  EXPECT_LT(alone, 30);  // but for the few whose neighbour was down already
}

TEST(JobTimelineTest, NodesFillBlocksWaitAndComeBack) {
  const FailureTrace trace =
      ReadTrace(
          "0,add,node1\n0,add,node2\n0,add,node3\n1000,add,node4\n50000,remove,node2\n"
          "60000,add,node2\n70000,remove,node1\n80000,remove,node3\n90000,add,node3\n",
          {})
          .value();
  const StatusOr<JobTimeline> timeline =
      MakeJobTimeline(trace, {.num_blocks = 3, .usable_after_s = 45});
  ASSERT_TRUE(timeline.ok()) << timeline.status();
  EXPECT_EQ(timeline->filled, (std::vector<bool>{true, true, true}));
  EXPECT_EQ(timeline->events, (std::vector<JobEvent>{{50, 1, false},
                                                     {50, 1, true},  // node4 has waited since 46 s
                                                     {70, 0, false},
                                                     {70, 0, true},  // node2 had to wait
                                                     {80, 2, false},
                                                     {90, 2, true}}));
  EXPECT_EQ(timeline->failures, 3);
  EXPECT_EQ(timeline->duration_s, 90);
  EXPECT_DOUBLE_EQ(timeline->mean_repair_s, 10.0 / 3);
  EXPECT_DOUBLE_EQ(timeline->node_s, 3 + 4 * 49 + 3 * 10 + 4 * 10 + 3 * 10 + 2 * 10);
  EXPECT_THAT(std::string(MakeJobTimeline(trace, {.num_blocks = 9}).status().message()),
              AllOf(HasSubstr("needs 9 nodes"), HasSubstr("at most 4")));
  // Later than the trace would start it, with what is there.
  const StatusOr<JobTimeline> late =
      MakeJobTimeline(trace, {.num_blocks = 3, .start_s = 82, .duration_s = 18});
  ASSERT_TRUE(late.ok()) << late.status();
  EXPECT_EQ(late->filled, (std::vector<bool>{true, true, false}));
  EXPECT_EQ(late->events, (std::vector<JobEvent>{{8, 2, true}}));
}

}  // namespace
}  // namespace recycle
