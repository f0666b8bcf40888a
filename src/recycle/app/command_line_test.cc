#include "recycle/app/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <sstream>
#include <string>
#include <vector>

namespace recycle {
namespace {

using ::testing::HasSubstr;
using Words = std::vector<std::string>;

struct Result {
  int code = 0;
  std::string out;
  std::string err;
};

// Runs the command line; the commands that start processes note their arguments instead.
class CommandLineTest : public ::testing::Test {
 protected:
  Result Run(const Words& words) {
    const CommandHandlers handlers{
        .train = [this](const TrainArguments& arguments) { return train_ = arguments, 11; },
        .status = [this](const StatusArguments& arguments) { return status_ = arguments, 12; },
        .join = [this](const PlaceArguments& arguments) { return place_ = arguments, 16; },
        .drain = [this](const PlaceArguments& arguments) { return place_ = arguments, 17; },
        .coordinator = [](const CoordinatorArguments& arguments) { return arguments.report_fd; },
        .agent = [](const AgentArguments& arguments) { return arguments.agent; },
        .executor =
            [this](const ExecutorArguments& arguments) { return executor_ = arguments, 15; }};
    std::ostringstream out;
    std::ostringstream err;
    const int code = RunCommandLine(words, handlers, out, err);
    return {code, out.str(), err.str()};
  }

  // The command is refused with code 2 and one line that has all of `parts`.
  void ExpectRefused(const Words& words, const Words& parts) {
    const Result result = Run(words);
    EXPECT_EQ(result.code, 2) << result.err;
    EXPECT_EQ(result.out, "");
    EXPECT_EQ(std::count(result.err.begin(), result.err.end(), '\n'), 1) << result.err;
    for (const std::string& part : parts) EXPECT_THAT(result.err, HasSubstr(part));
  }

  std::optional<TrainArguments> train_;
  std::optional<StatusArguments> status_;
  std::optional<PlaceArguments> place_;
  std::optional<ExecutorArguments> executor_;
};

TEST_F(CommandLineTest, JoinAndDrainNameAFolderAndAPlace) {
  EXPECT_EQ(Run({"join", "runs/x", "1:1"}).code, 16);
  EXPECT_EQ(place_, (PlaceArguments{.run_dir = "runs/x", .worker = "1:1"}));
  EXPECT_EQ(Run({"drain", "runs/y", "0:2"}).code, 17);
  EXPECT_EQ(place_, (PlaceArguments{.run_dir = "runs/y", .worker = "0:2"}));
  ExpectRefused({"join", "runs/x"}, {"worker is required", "recycle join --help"});
}

TEST_F(CommandLineTest, TrainHandsItsArgumentsOver) {
  const Result result = Run({"train", "--inject", "kill 1:1 at F", "job.yaml", "--set", "a.b=1",
                             "--set", "c.d=[1, 2]", "--inject", "stop 0:0 at W", "--run-dir", "r",
                             "--no-inject", "--plan", "p.json", "--dry-run", "--json"});
  EXPECT_EQ(result.code, 11) << result.err;
  ASSERT_TRUE(train_.has_value());
  const TrainArguments expected{.config_path = "job.yaml",
                                .overrides = {"a.b=1", "c.d=[1, 2]"},
                                .inject = {"kill 1:1 at F", "stop 0:0 at W"},
                                .no_inject = true,
                                .run_dir = "r",
                                .plan_file = "p.json",
                                .dry_run = true,
                                .json = true};
  EXPECT_EQ(*train_, expected);
}

TEST_F(CommandLineTest, StatusAsksARunFolderOrAnAddress) {
  EXPECT_EQ(Run({"status", "--address", "127.0.0.1:5", "--json"}).code, 12);
  EXPECT_EQ(status_->address, "127.0.0.1:5");
  EXPECT_TRUE(status_->json);
  ExpectRefused({"status"}, {"--run-dir", "--address"});
  ExpectRefused({"status", "--run-dir", "a", "--address", "b"}, {"--run-dir", "--address"});
}

TEST_F(CommandLineTest, ProcessesAreReachedButNotShown) {
  EXPECT_EQ(Run({"coordinator", "--run-dir", "r", "--report-fd", "7"}).code, 7);
  EXPECT_EQ(Run({"agent", "--run-dir", "r", "--address", "a", "--agent", "3"}).code, 3);
  EXPECT_EQ(Run({"executor", "--worker", "1:0", "--help"}).code, 15);
  EXPECT_EQ(executor_->arguments, (Words{"--worker", "1:0", "--help"}));
  EXPECT_THAT(Run({"--help"}).out, ::testing::Not(HasSubstr("coordinator's")));
}

TEST_F(CommandLineTest, HelpLeadsANewcomer) {
  const Result help = Run({"--help"});
  EXPECT_EQ(help.code, 0);
  for (const char* word :
       {"train", "plan", "check", "status", "config", "first-light.yaml", "Exit codes"}) {
    EXPECT_THAT(help.out, HasSubstr(word));
  }
  EXPECT_THAT(Run({"plan", "--help"}).out, HasSubstr("--microbatches"));
  EXPECT_THAT(Run({"train", "--help"}).out, HasSubstr("--inject"));
  EXPECT_EQ(Run({"--version"}).out.rfind("recycle ", 0), 0u);
}

TEST_F(CommandLineTest, UnknownWordsNameTheNearestOne) {
  ExpectRefused({}, {"no command is given", "train"});
  ExpectRefused({"trian", "job.yaml"}, {"trian is not a command", "nearest valid choice is train"});
  ExpectRefused({"--versoin"}, {"--versoin is not an option", "--version"});
  ExpectRefused({"train", "job.yaml", "--iterations", "5"}, {"--iterations is not an option"});
  ExpectRefused({"train"}, {"job is required", "recycle train --help"});
  ExpectRefused({"plan", "--dpp=3"}, {"--dpp is not an option of recycle plan", "choice is --dp"});
  ExpectRefused({"check", "a.json", "b.json"}, {"recycle check", "b.json"});
  ExpectRefused({"train", "job.yaml", "--json"}, {"--dry-run"});
}

TEST_F(CommandLineTest, WhatIsNotBuiltYetSaysSo) {
  for (const char* command : {"profile", "chaos", "checkpoint"}) {
    ExpectRefused({command, "--anything"}, {command, "is not built yet"});
  }
  ExpectRefused({"train", "job.yaml", "--resume"}, {"--resume is not built yet"});
  EXPECT_FALSE(train_.has_value());
}

TEST_F(CommandLineTest, EveryOptionIsDocumented) {
  std::ifstream file("docs/CLI.md");
  const std::string documented((std::istreambuf_iterator<char>(file)), {});
  ASSERT_FALSE(documented.empty());
  const std::regex option("--[a-z][a-z-]*");
  for (const char* command :
       {"train", "plan", "simulate", "check", "status", "join", "drain", "config"}) {
    const std::string help = Run({command, "--help"}).out;
    for (std::sregex_iterator it(help.begin(), help.end(), option), end; it != end; ++it) {
      EXPECT_THAT(documented, HasSubstr(it->str())) << command;
    }
  }
}

// --- plan, check, config: nothing outside this process ------------------------------------------

struct BadPlan {
  std::string name;
  Words words;  // after plan --dp 3 --pp 4 --microbatches 6
  Words parts;
};

class BadPlanTest : public CommandLineTest, public ::testing::WithParamInterface<BadPlan> {};

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
        BadPlan{"dp_twice", {"--dp", "4"}, {"--dp"}}),
    [](const auto& info) { return info.param.name; });

TEST_F(CommandLineTest, PlanSizesAreChecked) {
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

TEST_F(CommandLineTest, PlanPrintsTheFiguresOfThePapersExample) {
  const Words job = {"plan", "--dp", "3", "--pp", "4", "--microbatches", "6", "--failed", "1:2"};
  Words words = job;
  words.emplace_back("--json");
  const Result result = Run(words);
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
  const Result text = Run(words);
  EXPECT_THAT(text.out, HasSubstr("11 of 12 live, without 1:2"));
  EXPECT_THAT(text.out, HasSubstr("lower bound"));
}

// Measured costs, uneven and with capacities, as a profiler writes them.
TEST_F(CommandLineTest, AProfileStatesTheCostsOfEveryStage) {
  const std::string profile = ::testing::TempDir() + "/command_line_test_profile.json";
  std::ofstream(profile) << R"({"unit": "ms", "send_forward": [0.5, 0.25], "send_backward": 0.5,
    "stages": [{"forward": 3, "backward_input": 3, "backward_weight": 2, "activation_bytes": 100,
                "deferred_bytes": 60, "capacity_bytes": 300},
               {"forward": 2, "backward_input": 2.5, "backward_weight": 2, "activation_bytes": 80,
                "capacity_bytes": 240, "state_bytes": 4000},
               {"forward": 4, "backward_input": 4, "backward_weight": 3, "activation_bytes": 90,
                "capacity_bytes": 200}]})";
  const std::string file = ::testing::TempDir() + "/command_line_test_profiled.json";
  const auto plan = [&](const std::string& costs, const Words& more) {
    Words words = {"plan",           "--dp", "2",         "--pp", "3",
                   "--microbatches", "6",    "--profile", costs,  "--json"};
    words.insert(words.end(), more.begin(), more.end());
    const Result result = Run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out, nullptr, /*allow_exceptions=*/false);
  };
  const nlohmann::json figures = plan(profile, {"--failed", "1:2", "--out", file});
  EXPECT_EQ(figures.at("unit"), "ms");
  EXPECT_GE(figures.at("period").get<double>(), 12 * 11.0);  // 0:2 does all of its stage
  EXPECT_LE(figures.at("peak_activation").get<double>(), 300);
  EXPECT_EQ(Run({"check", file}).code, 0);
  EXPECT_EQ(plan(file, {"--failed", "1:2"}).at("period"), figures.at("period"));  // a plan's costs
  EXPECT_LE(plan(profile, {"--failed", "1:2", "--memory-cap", "none"}).at("period"),
            figures.at("period"));

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

TEST_F(CommandLineTest, AStageWithoutWorkersIsNoBadUsage) {
  const Result result =
      Run({"plan", "--dp", "2", "--pp", "4", "--microbatches", "2", "--failed", "0:2,1:2"});
  EXPECT_EQ(result.code, 1);
  EXPECT_EQ(result.err, "recycle: no plan: stage 2 has no live worker\n");
}

TEST_F(CommandLineTest, APlanFilePassesCheckWithTheSameFigures) {
  const std::string file = ::testing::TempDir() + "/command_line_test_plan.json";
  const Result plan =
      Run({"plan", "--dp", "3", "--pp", "4", "--microbatches", "6", "--failed", "1:2", "--cost",
           "F=1,I=1.05,W=0.85,send=0.05,opt=0.5", "--memory-cap", "4", "--out", file, "--json"});
  ASSERT_EQ(plan.code, 0) << plan.err;
  const Result check = Run({"check", file, "--json"});
  EXPECT_EQ(check.code, 0) << check.out << check.err;
  const nlohmann::json planned = nlohmann::json::parse(plan.out);
  const nlohmann::json checked = nlohmann::json::parse(check.out);
  EXPECT_EQ(checked.at("legal"), true);
  for (const char* key : {"makespan", "period", "lower_bound", "peak_activation", "method"}) {
    EXPECT_EQ(checked.at(key), planned.at(key)) << key;
  }
  EXPECT_LE(checked.at("peak_activation").get<double>(), 4.0);
  EXPECT_EQ(Run({"check", file}).out.rfind("legal\n", 0), 0u);
}

TEST_F(CommandLineTest, FailuresByNumberGoWhereTheyDoLeastHarm) {
  const Words job = {"plan", "--dp", "4", "--pp", "4", "--microbatches", "8", "--json"};
  const auto period = [&](const Words& more) {
    Words words = job;
    words.insert(words.end(), more.begin(), more.end());
    const Result result = Run(words);
    EXPECT_EQ(result.code, 0) << result.err;
    return nlohmann::json::parse(result.out).at("period").get<double>();
  };
  EXPECT_LT(period({"--failures", "2"}), period({"--failed", "0:1,1:1"}));

  Words words = job;
  words.insert(words.end(), {"--failed", "0:1,1:1", "--normalize"});
  const Result normalized = Run(words);
  ASSERT_EQ(normalized.code, 0) << normalized.err;
  const nlohmann::json figures = nlohmann::json::parse(normalized.out);
  ASSERT_EQ(figures.at("copies").size(), 1u);
  EXPECT_LT(figures.at("period").get<double>(), period({"--failed", "0:1,1:1"}));

  ExpectRefused({"plan", "--dp", "3", "--pp", "4", "--microbatches", "6", "--failures", "9"},
                {"--failures: 9", "the nearest valid choice is 8"});
  ExpectRefused({"plan", "--dp", "3", "--pp", "4", "--microbatches", "6", "--normalize"},
                {"--normalize", "--failed"});
}

TEST_F(CommandLineTest, ATableIsPrintedKeptAndExpanded) {
  const std::string folder = ::testing::TempDir() + "/command_line_test_table";
  const Result made = Run({"plan", "--dp", "4", "--pp", "2", "--microbatches", "4",
                           "--all-failures", "3", "--out-dir", folder, "--materialize", "--json"});
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
      Run({"plan", "--table", table, "--failures", "3", "--out", file, "--json"});
  ASSERT_EQ(expanded.code, 0) << expanded.err;
  EXPECT_LE(nlohmann::json::parse(expanded.out).at("period"), lines[3].at("period"));
  EXPECT_EQ(Run({"check", file}).code, 0);
  ExpectRefused({"plan", "--table", table, "--failures", "4"}, {"--failures: 4", "choice is 3"});
  ExpectRefused({"plan", "--table", table, "--dp", "4"}, {"--table", "--dp"});
}

TEST_F(CommandLineTest, EveryMethodAnswersWithALegalPlan) {
  const std::string file = ::testing::TempDir() + "/command_line_test_method.json";
  for (const char* method :
       {"adaptive", "gpipe", "1f1b", "interleaved", "zb-h1", "zb-h2", "zb-v", "naive", "exact"}) {
    const Result plan = Run({"plan", "--dp", "1", "--pp", "2", "--microbatches", "2", "--method",
                             method, "--out", file, "--json"});
    ASSERT_EQ(plan.code, 0) << plan.err;
    EXPECT_EQ(nlohmann::json::parse(plan.out).at("method"), method);
    EXPECT_EQ(Run({"check", file}).code, 0) << method;
  }
}

TEST_F(CommandLineTest, AStragglerIsJudged) {
  const Result result =
      Run({"plan", "--dp", "3", "--pp", "2", "--microbatches", "4", "--slow", "1:1=1.5", "--json"});
  ASSERT_EQ(result.code, 0) << result.err;
  const nlohmann::json verdicts = nlohmann::json::parse(result.out).at("verdicts");
  ASSERT_EQ(verdicts.size(), 1u);
  EXPECT_EQ(verdicts[0].at("worker"), "1:1");
  EXPECT_EQ(verdicts[0].at("evict"),
            verdicts[0].at("period_evicted").get<double>() < verdicts[0].at("period_kept"));
}

TEST_F(CommandLineTest, ExportPrintsALinePerStage) {
  const Words job = {"plan", "--dp", "2", "--pp", "3", "--microbatches", "3", "--method", "1f1b"};
  Words words = job;
  words.insert(words.end(), {"--export", "torch-csv"});
  const Result result = Run(words);
  ASSERT_EQ(result.code, 0) << result.err;
  EXPECT_EQ(std::count(result.out.begin(), result.out.end(), '\n'), 3);
  EXPECT_THAT(result.out, HasSubstr("2F0,2B0,2F1"));
  words.back() = "csv";
  ExpectRefused(words, {"--export: csv", "choice is torch-csv"});
}

TEST_F(CommandLineTest, CheckTellsIllegalPlansFromFilesThatAreNoPlans) {
  const std::string file = ::testing::TempDir() + "/command_line_test_broken.json";
  ASSERT_EQ(Run({"plan", "--dp", "1", "--pp", "2", "--microbatches", "2", "--method", "gpipe",
                 "--out", file})
                .code,
            0);
  std::ifstream stream(file);
  const std::string text((std::istreambuf_iterator<char>(stream)), {});
  const auto check_text = [&](const std::string& broken) {
    std::ofstream(file) << broken;
    return Run({"check", file});
  };

  nlohmann::json swapped = nlohmann::json::parse(text);
  nlohmann::json& actions = swapped["workers"][0]["actions"];
  std::swap(actions.at(0), actions.at(2));
  const Result illegal = check_text(swapped.dump());
  EXPECT_EQ(illegal.code, 1) << illegal.err;
  EXPECT_THAT(illegal.out, HasSubstr("rule "));
  EXPECT_THAT(illegal.out, HasSubstr("<-- here"));

  nlohmann::json boastful = nlohmann::json::parse(text);
  boastful["period"] = 1.0;
  const Result wrong = check_text(boastful.dump());
  EXPECT_EQ(wrong.code, 1);
  EXPECT_THAT(wrong.out, HasSubstr("period"));

  const Result cut = check_text(text.substr(0, text.size() / 2));
  EXPECT_EQ(cut.code, 2);
  EXPECT_THAT(cut.err, HasSubstr(file));
  EXPECT_EQ(Run({"check", "nowhere.json"}).code, 2);
}

TEST_F(CommandLineTest, ConfigPrintsDefaultsAndResolvedJobs) {
  const Result defaults = Run({"config", "--defaults"});
  EXPECT_EQ(defaults.code, 0);
  EXPECT_THAT(defaults.out, HasSubstr("failure_timeout_ms: 2000"));
  const Result resolved = Run(
      {"config", "examples/first-light.yaml", "--set", "train.iterations=7", "--set", "inject=[]"});
  EXPECT_EQ(resolved.code, 0) << resolved.err;
  EXPECT_THAT(resolved.out, HasSubstr("iterations: 7\n"));
  ExpectRefused({"config"}, {"--defaults"});
  ExpectRefused({"config", "examples/first-light.yaml", "--set", "model.heads=0"},
                {"model.heads is 0"});
}

}  // namespace
}  // namespace recycle
