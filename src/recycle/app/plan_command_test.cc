#include "recycle/app/plan_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "recycle/app/command_line_testing.h"

namespace recycle {
namespace {

using ::testing::HasSubstr;
using testing::RunWords;
using testing::Words;
using Result = testing::CommandResult;

void ExpectRefused(const Words& words, const Words& parts) {
  EXPECT_EQ(testing::WhyNotRefused(RunWords(words), parts), "");
}

struct BadPlan {
  std::string name;
  Words words;  // after plan --dp 3 --pp 4 --microbatches 6
  Words parts;
};

class BadPlanTest : public ::testing::TestWithParam<BadPlan> {};

TEST_P(BadPlanTest, IsRefusedWithOptionValueRuleAndNearestChoice) {
  Words words = {"plan", "--dp", "3", "--pp", "4", "--microbatches", "6"};
  words.insert(words.end(), GetParam().words.begin(), GetParam().words.end());
  ExpectRefused(words, GetParam().parts);
}

INSTANTIATE_TEST_SUITE_P(
    All, BadPlanTest,
    ::testing::Values(
        BadPlan{"unknown_method", {"--method", "gpip"}, {"--method: gpip", "choice is gpipe"}},
        BadPlan{"place_out_of_range", {"--failed", "5:1"}, {"--failed: 5:1", "choice is 2:1"}},
        BadPlan{"negative_place", {"--failed", "-1:1"}, {"--failed", "-1:1"}},
        BadPlan{"no_place", {"--failed", "1.2"}, {"--failed", "1.2"}},
        BadPlan{"place_twice", {"--failed", "1:2,1:2"}, {"--failed: 1:2 is named twice"}},
        BadPlan{"empty_place", {"--failed", "1:2,"}, {"--failed"}},
        BadPlan{"negative_cost", {"--cost", "F=-1"}, {"--cost", "F=-1"}},
        BadPlan{"nan_cost", {"--cost", "I=nan"}, {"--cost", "I=nan"}},
        BadPlan{"infinite_cost", {"--cost", "W=inf"}, {"--cost", "W=inf"}},
        BadPlan{"huge_cost", {"--cost", "W=1e300"}, {"--cost"}},
        BadPlan{"unknown_cost", {"--cost", "X=1"}, {"--cost", "X=1", "allreduce"}},
        BadPlan{"cost_without_value", {"--cost", "F"}, {"--cost", "F"}},
        BadPlan{"deferred_above_1", {"--cost", "deferred=2"}, {"deferred"}},
        BadPlan{"cap_below_1", {"--memory-cap", "0.5"}, {"--memory-cap", "0.5"}},
        BadPlan{"cap_nan", {"--memory-cap", "nan"}, {"--memory-cap", "nan"}},
        BadPlan{"unknown_cap", {"--memory-cap", "2f2b"}, {"--memory-cap", "2f2b", "1f1b"}},
        BadPlan{
            "gpipe_with_failure", {"--method", "gpipe", "--failed", "1:2"}, {"gpipe", "adaptive"}},
        BadPlan{"slow_factor", {"--slow", "1:2=0"}, {"--slow", "1:2=0"}},
        BadPlan{"slow_and_dead", {"--slow", "1:2=2", "--failed", "1:2"}, {"--slow", "--failed"}},
        BadPlan{"affinity", {"--affinity", "loose"}, {"--affinity", "loose", "strict"}},
        BadPlan{"time_limit", {"--time-limit", "0"}, {"--time-limit: 0"}},
        BadPlan{"text_and_json", {"--text", "--json"}, {"--text", "--json"}},
        BadPlan{"unwritable", {"--out", "/proc/plan.json"}, {"/proc/plan.json"}},
        BadPlan{"dp_twice", {"--dp", "4"}, {"--dp"}},
        BadPlan{"zero_cap", {"--memory-cap", "0"}, {"--memory-cap is 0", "choice is 1"}},
        BadPlan{"cost_twice", {"--cost", "F=1,F=2"}, {"--cost", "F=2", "second time"}},
        BadPlan{"cost_overflow", {"--cost", "F=9000001"}, {"--cost", "9000001", "0 to 9000000"}},
        BadPlan{"ticks_overflow",
                {"--cost", "F=9e6,I=9e6,W=9e6", "--slow", "1:1=1e9"},
                {"slowest worker 1e+09", "must stay below"}},
        BadPlan{"slow_infinite", {"--slow", "1:1=inf"}, {"--slow: 1:1=inf"}},
        BadPlan{"slow_huge", {"--slow", "1:1=1e308"}, {"slowest worker 1e+308"}},
        BadPlan{"slow_nowhere", {"--slow", "9:9=2"}, {"--slow: 9:9", "choice is 2:3"}},
        BadPlan{"too_many_failures", {"--failures", "9"}, {"--failures: 9", "choice is 8"}},
        BadPlan{"table_of_too_many", {"--all-failures", "9"}, {"--all-failures: 9", "choice is 8"}},
        BadPlan{"negative_failures", {"--failures", "-1"}, {"--failures: -1", "choice is 0"}},
        BadPlan{"negative_normalize",
                {"--failed", "1:2", "--normalize=-1"},
                {"--normalize: -1", "choice is 0"}},
        BadPlan{"no_virtual_stages", {"--virtual", "0"}, {"--virtual: 0", "choice is 1"}},
        BadPlan{
            "zb_v_of_3", {"--method", "zb-v", "--virtual", "3"}, {"stages are 3", "choice is 2"}},
        BadPlan{"interleaved_of_1",
                {"--method", "interleaved", "--virtual", "1"},
                {"stages are 1", "choice is 2"}},
        BadPlan{"interleaved_remainder",
                {"--method", "interleaved"},
                {"micro-batches are 6", "multiple of pp = 4", "choice is 8"}},
        BadPlan{"naive_of_2",
                {"--method", "naive", "--virtual", "2"},
                {"stages are 2", "method naive", "choice is 1"}},
        BadPlan{"zb_coupled", {"--method", "zb-h1", "--no-decouple"}, {"zb-h1", "--no-decouple"}},
        BadPlan{"exact_too_large", {"--method", "exact"}, {"216 actions", "choice is", "adaptive"}},
        BadPlan{"gpipe_with_failures",
                {"--method", "gpipe", "--failures", "2"},
                {"method is gpipe", "2 workers", "choice is adaptive"}},
        BadPlan{"table_of_gpipe",
                {"--all-failures", "2", "--method", "gpipe"},
                {"method is gpipe", "plan table"}},
        BadPlan{"table_of_virtual",
                {"--all-failures", "2", "--virtual", "2"},
                {"stages are 2", "choice is 1"}},
        BadPlan{"table_with_slow",
                {"--all-failures", "2", "--slow", "1:1=2"},
                {"1 are slow", "--slow"}},
        BadPlan{"profile_is_a_folder", {"--profile", "/proc"}, {"--profile", "'/proc'", "folder"}},
        BadPlan{"csv_with_failure",
                {"--export", "torch-csv", "--failures", "1"},
                {"1 failures", "--failures"}}),
    [](const auto& info) { return info.param.name; });

TEST(PlanCommandTest, PlanSizesAreChecked) {
  const auto plan = [](const std::string& dp, const std::string& pp, const std::string& m) {
    return Words{"plan", "--dp", dp, "--pp", pp, "--microbatches", m};
  };
  ExpectRefused(plan("0", "4", "6"), {"--dp: 0", "the nearest valid choice is 1"});
  ExpectRefused(plan("3", "-2", "6"), {"--pp: -2", "the nearest valid choice is 1"});
  ExpectRefused(plan("3", "4", "0"), {"--microbatches: 0", "the nearest valid choice is 1"});
  ExpectRefused(plan("3", "4", "six"), {"--microbatches: six"});
  ExpectRefused(plan("10000", "10000", "1000000"), {"make more than 20000000 forwards"});
  ExpectRefused({"plan", "--dp", "3", "--pp", "4"}, {"--microbatches is required"});
}

TEST(PlanCommandTest, PlanPrintsTheFiguresOfThePapersExample) {
  const Words job = {"plan", "--dp", "3", "--pp", "4", "--microbatches", "6", "--failed", "1:2"};
  Words words = job;
  words.emplace_back("--json");
  const Result result = RunWords(words);
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json figures = nlohmann::json::parse(result.out);
  EXPECT_EQ(figures.at("fault_free_1f1b_period"), 27.0);
  EXPECT_EQ(figures.at("lower_bound"), 27.0);
  EXPECT_EQ(figures.at("method"), "adaptive");
  EXPECT_NEAR(figures.at("fault_scaled").get<double>(), 11.0 / 12, 1e-12);
  EXPECT_GE(figures.at("period").get<double>(), 27.0);
  EXPECT_GE(figures.at("gap").get<double>(), 0.0);
  EXPECT_NEAR(figures.at("relative_throughput").get<double>(),
              27.0 / figures.at("period").get<double>(), 1e-12);
  EXPECT_GE(figures.at("peak_activation").get<double>(), 4.0);
  EXPECT_GE(figures.at("solve_ms").get<double>(), 0.0);
  EXPECT_GE(figures.at("makespan"), figures.at("period"));

  words = job;
  words.emplace_back("--text");
  const Result text = RunWords(words);
  EXPECT_THAT(text.out, HasSubstr("11 of 12 live, without 1:2"));
  EXPECT_THAT(text.out, HasSubstr("lower bound"));
}

// Measured costs, uneven and with capacities, as a profiler writes them.
TEST(PlanCommandTest, AProfileStatesTheCostsOfEveryStage) {
  const std::string profile = ::testing::TempDir() + "/plan_command_test_profile.json";
  std::ofstream(profile) << R"({"unit": "ms", "send_forward": [0.5, 0.25], "send_backward": 0.5,
    "stages": [{"forward": 3, "backward_input": 3, "backward_weight": 2, "activation_bytes": 100,
                "deferred_bytes": 60, "capacity_bytes": 300},
               {"forward": 2, "backward_input": 2.5, "backward_weight": 2, "activation_bytes": 80,
                "capacity_bytes": 240, "state_bytes": 4000},
               {"forward": 4, "backward_input": 4, "backward_weight": 3, "activation_bytes": 90,
                "capacity_bytes": 200}]})";
  const std::string file = ::testing::TempDir() + "/plan_command_test_profiled.json";
  const auto plan = [&](const std::string& costs, const Words& more) {
    Words words = {"plan",           "--dp", "2",         "--pp", "3",
                   "--microbatches", "6",    "--profile", costs,  "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = RunWords(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  };
  const nlohmann::json figures = plan(profile, {"--failed", "1:2", "--out", file});
  EXPECT_EQ(figures.at("unit"), "ms");
  EXPECT_GE(figures.at("period").get<double>(), 12 * 11.0);  // 0:2 does all of its stage
  EXPECT_LE(figures.at("peak_activation").get<double>(), 300);
  EXPECT_EQ(RunWords({"check", file}).code, 0);
  EXPECT_EQ(plan(file, {"--failed", "1:2"}).at("period"), figures.at("period"));  // a plan's costs
  EXPECT_LE(plan(profile, {"--failed", "1:2", "--memory-cap", "none"}).at("period"),
            figures.at("period"));
  // Three stages on one worker each, or on one worker: then with a send for each boundary.
  const Result column =
      RunWords({"plan", "--dp", "1", "--pp", "1", "--virtual", "3", "--microbatches", "2",
                "--profile", profile, "--memory-cap", "none", "--json"});
  ASSERT_EQ(column.code, 0) << column.err;
  EXPECT_GE(nlohmann::json::parse(column.out).at("makespan").get<double>(), 2 * 25.5);

  const auto refused = [&](const Words& more, const Words& parts) {
    Words words = {"plan", "--dp", "2", "--microbatches", "6"};
    words.insert(words.end(), more.begin(), more.end());
    ExpectRefused(words, parts);
  };
  refused({"--pp", "4", "--profile", profile}, {"--profile", "3 stages", "choice is --pp 3"});
  refused({"--pp", "3", "--profile", profile, "--cost", "F=1"}, {"--profile", "--cost"});
  refused({"--pp", "3", "--profile", profile, "--method", "zb-v"}, {"--profile", "send_forward"});
  refused({"--pp", "3", "--profile", "/no/such.json"}, {"--profile", "/no/such.json"});
  std::ofstream(profile) << R"({"stages": [{"forward": 1, "backward_inpt": 1}]})";
  refused({"--pp", "1", "--profile", profile}, {"--profile", "backward_inpt", "backward_input"});
  std::ofstream(profile) << R"({"stages": [{"forward": -1, "backward_input": 1,
                                            "backward_weight": 1}]})";
  refused({"--pp", "1", "--profile", profile}, {"--profile", "stages[0].forward", "-1"});
  std::ofstream(profile) << R"({"stages": [{"forward": 1, "backward_input": 1,
      "backward_weight": 1, "activation_bytes": 5, "capacity_bytes": 4}]})";
  refused({"--pp", "1", "--profile", profile}, {"capacity_bytes of stage 0 is 4", "5"});
}

// Layers are cut into stages: the embedding goes to the first, the head to the last.
TEST(PlanCommandTest, LayerProfilesAreCutIntoTheJobsStages) {
  const std::string profile = ::testing::TempDir() + "/plan_command_test_layers.json";
  const nlohmann::json layers = nlohmann::json::parse(R"layers({
      "first(embedding)": {"forward": 1, "backward": 1.9, "optimizer": 3, "acts": 2, "params": 10},
      "transformer_layer": {"forward": 2, "backward": 3.8, "optimizer": 1, "acts": 10, "params": 9},
      "last(head)": {"forward": 4, "backward": 7.6, "optimizer": 3, "acts": 8, "params": 10}})layers");
  std::ofstream(profile) << nlohmann::json{{"gpt-2_mbs1_seq8", layers},
                                           {"gpt-1.5b_mbs2_seq8", layers}};
  const std::string file = ::testing::TempDir() + "/plan_command_test_layers_plan.json";
  const auto plan = [&](const Words& more) {
    Words words = {"plan", "--dp", "2", "--microbatches", "4", "--profile", profile, "--out", file};
    words.insert(words.end(), more.begin(), more.end());
    return RunWords(words);
  };
  const auto stages = [&](const std::string& key) {
    std::ifstream in(file);
    const nlohmann::json written = nlohmann::json::parse(in);
    std::vector<double> values;
    for (const auto& stage : written.at("costs").at("stages")) values.push_back(stage.at(key));
    return values;
  };
  using ::testing::ElementsAre;
  const Words model = {"--model", "gpt-2_mbs1_seq8", "--pp"};
  const auto with = [&](Words more) {
    more.insert(more.begin(), model.begin(), model.end());
    return more;
  };
  ASSERT_EQ(plan(with({"5", "--failed", "1:2", "--memory-cap", "5"})).code, 0);
  EXPECT_THAT(stages("forward"), ElementsAre(11, 10, 10, 10, 12));  // 5, 5, 5, 5 and 4 layers
  EXPECT_THAT(stages("backward_input"), ElementsAre(11.55, 10.5, 10.5, 10.5, 12.6));
  EXPECT_THAT(stages("optimizer"), ElementsAre(8, 5, 5, 5, 7));
  EXPECT_EQ(stages("activation_bytes")[0], 52 * 1048576.0);
  EXPECT_EQ(stages("capacity_bytes")[0], 5 * stages("activation_bytes")[0]);
  ASSERT_EQ(plan(with({"2", "--method", "zb-v"})).code, 0);
  EXPECT_THAT(stages("forward"), ElementsAre(13, 12, 12, 16));

  const auto refused = [&](const Words& more, const Words& parts) {
    Words words = {"plan", "--dp", "2", "--microbatches", "4"};
    words.insert(words.end(), more.begin(), more.end());
    ExpectRefused(words, parts);
  };
  refused({"--pp", "2", "--profile", profile}, {"--profile", "2 models", "--model"});
  refused({"--pp", "2", "--profile", profile, "--model", "gpt-2_mbs1_seq"},
          {"--profile", "choice is gpt-2_mbs1_seq8"});
  refused({"--pp", "25", "--profile", profile, "--model", "gpt-2_mbs1_seq8"},
          {"--profile", "25 stages", "choice is 24"});
  refused({"--pp", "2", "--model", "gpt-2_mbs1_seq8"}, {"--model", "--profile"});
  refused({"--pp", "4", "--profile", file, "--model", "gpt-2_mbs1_seq8"},
          {"--profile", "--model is gpt-2_mbs1_seq8", "leave --model out"});
}

TEST(PlanCommandTest, AStageWithoutWorkersIsNoBadUsage) {
  const Result result =
      RunWords({"plan", "--dp", "2", "--pp", "4", "--microbatches", "2", "--failed", "0:2,1:2"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "recycle: no plan: stage 2 has no live worker\n");
}

TEST(PlanCommandTest, APlanFilePassesCheckWithTheSameFigures) {
  const std::string file = ::testing::TempDir() + "/plan_command_test_plan.json";
  const Result plan = RunWords({"plan", "--dp", "3", "--pp", "4", "--microbatches", "6", "--failed",
                                "1:2", "--cost", "F=1,I=1.05,W=0.85,send=0.05,opt=0.5",
                                "--memory-cap", "4", "--out", file, "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Result check = RunWords({"check", file, "--json"});
  EXPECT_EQ(check.code, 0) << check.out << check.err;
  const nlohmann::json planned = nlohmann::json::parse(plan.out);
  const nlohmann::json checked = nlohmann::json::parse(check.out);
  EXPECT_EQ(checked.at("legal"), true);
  for (const char* key : {"makespan", "period", "lower_bound", "peak_activation", "method"}) {
    EXPECT_EQ(checked.at(key), planned.at(key)) << key;
  }
  EXPECT_LE(checked.at("peak_activation").get<double>(), 4.0);
  EXPECT_EQ(RunWords({"check", file}).out.rfind("legal\n", 0), 0u);
}

TEST(PlanCommandTest, FailuresByNumberGoWhereTheyDoLeastHarm) {
  const Words job = {"plan", "--dp", "4", "--pp", "4", "--microbatches", "8", "--json"};
  const auto period = [&](const Words& more) {
    Words words = job;
    words.insert(words.end(), more.begin(), more.end());
    const Result result = RunWords(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("period").get<double>();
  };
  EXPECT_LT(period({"--failures", "2"}), period({"--failed", "0:1,1:1"}));

  Words words = job;
  words.insert(words.end(), {"--failed", "0:1,1:1", "--normalize"});
  const Result normalized = RunWords(words);
  ASSERT_EQ(normalized.code, 0) << normalized.err;
  const nlohmann::json figures = nlohmann::json::parse(normalized.out);
  ASSERT_EQ(figures.at("copies").size(), 1u);
  EXPECT_LT(figures.at("period").get<double>(), period({"--failed", "0:1,1:1"}));

  ExpectRefused({"plan", "--dp", "3", "--pp", "4", "--microbatches", "6", "--failures", "9"},
                {"--failures: 9", "the nearest valid choice is 8"});
  ExpectRefused({"plan", "--dp", "3", "--pp", "4", "--microbatches", "6", "--normalize"},
                {"--normalize", "--failed"});
}

TEST(PlanCommandTest, ATableIsPrintedKeptAndExpanded) {
  const std::string folder = ::testing::TempDir() + "/plan_command_test_table";
  const Result made =
      RunWords({"plan", "--dp", "4", "--pp", "2", "--microbatches", "4", "--all-failures", "3",
                "--out-dir", folder, "--materialize", "--json"});
  ASSERT_EQ(made.code, 0) << made.err;
  std::istringstream stream(made.out);
  std::vector<nlohmann::json> lines;
  for (std::string line; std::getline(stream, line);) lines.push_back(nlohmann::json::parse(line));
  ASSERT_EQ(lines.size(), 5u);
  for (int failures = 0; failures <= 3; ++failures) {
    EXPECT_EQ(lines[failures].at("failures"), failures);
    EXPECT_EQ(lines[failures].at("per_stage").size(), 2u);
    EXPECT_GE(lines[failures].at("gap").get<double>(), 0.0);
  }
  EXPECT_EQ(lines[4].at("counts"), 4);
  EXPECT_TRUE(lines[4].at("materialize_ms").is_number());

  const std::string file = folder + "/plan.json";
  const std::string table = folder + "/table.json";
  const Result expanded =
      RunWords({"plan", "--table", table, "--failures", "3", "--out", file, "--json"});
  ASSERT_EQ(expanded.code, 0) << expanded.err;
  EXPECT_LE(nlohmann::json::parse(expanded.out).at("period"), lines[3].at("period"));
  EXPECT_EQ(RunWords({"check", file}).code, 0);
  ExpectRefused({"plan", "--table", table, "--failures", "4"}, {"--failures: 4", "choice is 3"});
  ExpectRefused({"plan", "--table", table, "--dp", "4"}, {"--table", "--dp"});
}

// A table is what it was made for, whole, or it is refused with its name and what is wrong.
TEST(PlanCommandTest, ATableOfAnotherJobOrCutOffIsRefused) {
  const std::string folder = ::testing::TempDir() + "/plan_command_test_bad_table";
  const std::string file = folder + "/table.json";
  const auto table = [&](const std::string& cost) {
    EXPECT_EQ(RunWords({"plan", "--dp", "3", "--pp", "2", "--microbatches", "4", "--all-failures",
                        "2", "--out-dir", folder, "--cost", cost})
                  .code,
              0);
    std::ifstream stream(file);
    return std::string((std::istreambuf_iterator<char>(stream)), {});
  };
  const auto refused = [&](const std::string& text, const Words& parts) {
    std::ofstream(file) << text;
    ExpectRefused({"plan", "--table", file, "--failures", "1"}, parts);
  };
  const std::string other = table("F=2");
  const std::string text = table("F=1");
  const nlohmann::json whole = nlohmann::json::parse(text);
  for (std::size_t length = 0; length + 2 < text.size(); length += 97) {
    refused(text.substr(0, length), {file, "not JSON"});
  }
  nlohmann::json mixed = whole;
  mixed["job"] = nlohmann::json::parse(other).at("job");
  refused(mixed.dump(), {file, "job_hash", "make the table again"});
  mixed = whole;
  mixed["templates"] = nlohmann::json::parse(other).at("templates");
  refused(mixed.dump(), {file, "period", "make the table again"});
  mixed = whole;
  mixed["format"] = "recycle-plan-table/9";
  refused(mixed.dump(), {file, "recycle-plan-table/9", "recycle-plan-table/1"});
  mixed = whole;
  mixed["templates"][0]["policy"][3] = 7;
  refused(mixed.dump(), {file, "policy"});
  mixed = whole;
  mixed["max_failures"] = 5;
  refused(mixed.dump(), {file, "failures is 5", "choice is 4"});
  std::ofstream(file) << text;
  EXPECT_EQ(RunWords({"plan", "--table", file, "--failures", "1"}).code, 0);
}

TEST(PlanCommandTest, EveryMethodAnswersWithALegalPlan) {
  const std::string file = ::testing::TempDir() + "/plan_command_test_method.json";
  for (const char* method :
       {"adaptive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "naive", "exact"}) {
    const Result plan = RunWords({"plan", "--dp", "1", "--pp", "2", "--microbatches", "2",
                                  "--method", method, "--out", file, "--json"});
    ASSERT_EQ(plan.code, 0) << plan.err;
    EXPECT_EQ(nlohmann::json::parse(plan.out).at("method"), method);
    EXPECT_EQ(RunWords({"check", file}).code, 0) << method;
  }
}

TEST(PlanCommandTest, AStragglerIsJudged) {
  const Result result = RunWords(
      {"plan", "--dp", "3", "--pp", "2", "--microbatches", "4", "--slow", "1:1=1.5", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json verdicts = nlohmann::json::parse(result.out).at("verdicts");
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].at("worker"), "1:1");
  EXPECT_EQ(verdicts[0].at("evict"),
            verdicts[0].at("period_evicted").get<double>() < verdicts[0].at("period_kept"));
}

TEST(PlanCommandTest, ExportPrintsALinePerStage) {
  const Words job = {"plan", "--dp", "2", "--pp", "3", "--microbatches", "3", "--method", "1f1b"};
  Words words = job;
  words.insert(words.end(), {"--export", "torch-csv"});
  const Result result = RunWords(words);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 3);
  EXPECT_THAT(result.out, HasSubstr("2F0,2B0,2F1"));
  words.back() = "csv";
  ExpectRefused(words, {"--export: csv", "choice is torch-csv"});
}

}  // namespace
}  // namespace recycle
