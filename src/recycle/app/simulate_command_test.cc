// `recycle simulate` end to end: the audit proves the figures, plans are legal, equal input gives
// equal bytes, and what makes no sense is refused.
#include "recycle/app/simulate_command.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <functional>
#include <map>
#include <nlohmann/json.hpp>
#include <sstream>
#include <string>
#include <vector>

#include "recycle/base/file.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/report.h"

namespace recycle {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;

// 3 x 4 workers that fail every 60 hours each; every policy.
SimulateArguments SmallArguments() {
  SimulateArguments arguments;
  arguments.dp = 3;
  arguments.pp = 4;
  arguments.microbatches = 6;
  arguments.cost = "F=100,I=105,W=85,send=5,allreduce=20,opt=10";
  arguments.mtbf_hours = 60;
  arguments.mttr_hours = 10;
  arguments.correlated = 0.1;
  arguments.seed = 4;
  arguments.hours = 60;
  arguments.json = true;
  return arguments;
}

std::string Output(const SimulateArguments& arguments) {
  std::ostringstream out;
  const Status status = RunSimulateCommand(arguments, out);
  EXPECT_TRUE(status.ok()) << status;
  return out.str();
}

std::map<std::string, nlohmann::json> PoliciesOf(const std::string& output) {
  std::map<std::string, nlohmann::json> policies;
  const nlohmann::json report = nlohmann::json::parse(output);
  for (const nlohmann::json& policy : report.at("policies")) {
    policies[policy.at("policy")] = policy;
  }
  return policies;
}

// A fresh file name; nothing of an earlier run is left.
std::string FreshFile(const std::string& name) {
  const std::string file = ::testing::TempDir() + "/simulate_command_test_" + name;
  std::filesystem::remove_all(file);
  std::filesystem::remove_all(file + ".plans");
  return file;
}

std::vector<nlohmann::json> LinesOf(const std::string& file) {
  std::vector<nlohmann::json> lines;
  std::istringstream text(ReadWholeFile(file).value());
  for (std::string line; std::getline(text, line);) lines.push_back(nlohmann::json::parse(line));
  return lines;
}

// The plan is legal, its figures are right, and it is about the workers that are live.
void ExpectPlanInForce(const Plan& plan, const nlohmann::json& line) {
  const std::string policy = line.at("policy");
  const CheckReport report = CheckPlan(plan);
  ASSERT_TRUE(report.ok()) << policy << ": " << report.errors.front();
  EXPECT_LE(ToUnits(report.figures->period), line.at("period_ms").get<double>() + 1e-6) << policy;
  if (!policy.starts_with("recycle")) return;
  std::vector<std::string> failed;
  for (const WorkerId worker : plan.failed) failed.push_back(ToString(worker));
  EXPECT_EQ(failed, line.at("failed").get<std::vector<std::string>>()) << policy;
}

TEST(SimulateCommandTest, TheAuditProvesTheFigures) {
  SimulateArguments arguments = SmallArguments();
  arguments.audit = FreshFile("audit");
  const std::string output = Output(arguments);
  const nlohmann::json report = nlohmann::json::parse(output);
  EXPECT_GT(report.at("failures"), 5);
  const double batch = report.at("samples_per_batch");
  const double seconds = report.at("hours").get<double>() * 3600;

  std::map<std::string, double> samples;
  std::map<std::string, nlohmann::json> plan_lines;  // by file: a line that names it
  for (const nlohmann::json& line : LinesOf(arguments.audit)) {
    const double length = line.at("to_s").get<double>() - line.at("from_s").get<double>();
    samples[line.at("policy")] +=
        line.at("rate").get<double>() * (length - line.at("stall_s").get<double>()) * batch -
        line.at("lost_samples").get<double>();
    int dead = 0;
    for (const int count : line.at("failed_per_stage")) dead += count;
    EXPECT_EQ(line.at("live").get<int>(), 12 - dead);
    const std::string policy = line.at("policy");
    if (line.at("plan").is_null()) {
      EXPECT_TRUE(policy.starts_with("oobleck") || line.at("rate") == 0) << line;
    } else {
      plan_lines[line.at("plan")] = line;
    }
  }
  double fault_free_rate = 0;
  for (const nlohmann::json& line : LinesOf(arguments.audit)) {
    if (line.at("policy") == "fault-free") fault_free_rate = line.at("rate");
  }
  const auto policies = PoliciesOf(output);
  EXPECT_EQ(policies.size(), 14U);
  for (const auto& [name, policy] : policies) {
    const double goodput = samples.at(name) / (seconds * fault_free_rate * batch);
    EXPECT_NEAR(policy.at("goodput").get<double>(), goodput, 1e-3 * goodput) << name;
  }
  for (const auto& [file, line] : plan_lines) {
    const StatusOr<Plan> plan = ReadPlanFile(arguments.audit + ".plans/" + file);
    ASSERT_TRUE(plan.ok()) << plan.status();
    ExpectPlanInForce(*plan, line);
  }
  EXPECT_GT(plan_lines.size(), 20U);
}

TEST(SimulateCommandTest, TheAblationKeepsItsOrder) {
  const auto policies = PoliciesOf(Output(SmallArguments()));
  const auto goodput = [&](const std::string& name) {
    return policies.at(name).at("goodput").get<double>();
  };
  EXPECT_GE(goodput("recycle"), goodput("recycle-no-stagger"));
  EXPECT_GE(goodput("recycle"), goodput("recycle-no-decouple"));
  EXPECT_GT(goodput("recycle-no-stagger"), goodput("recycle-naive"));
  EXPECT_GE(goodput("recycle"), goodput("recycle-rerun"));
}

TEST(SimulateCommandTest, EqualInputGivesEqualBytes) {
  SimulateArguments arguments = SmallArguments();
  arguments.policy = "recycle,restart,elastic";
  arguments.html = FreshFile("page.html");
  const std::string first = Output(arguments);
  const std::string first_page = ReadWholeFile(arguments.html).value();
  EXPECT_EQ(Output(arguments), first);
  EXPECT_EQ(ReadWholeFile(arguments.html).value(), first_page);
  arguments.seed = 5;
  EXPECT_NE(Output(arguments), first);
}

TEST(SimulateCommandTest, ThePageNeedsNoNetwork) {
  SimulateArguments arguments = SmallArguments();
  arguments.html = FreshFile("alone.html");
  Output(arguments);
  const std::string page = ReadWholeFile(arguments.html).value();
  for (const char* word : {"http:", "https:", "src=", "@import", "url("}) {
    EXPECT_EQ(page.find(word), std::string::npos) << word;
  }
  for (const char* word : {"Live workers", "Throughput", "ETTR", "oobleck", "recycle.detect_s"}) {
    EXPECT_THAT(page, HasSubstr(word));
  }
}

TEST(SimulateCommandTest, SearchedPlansAreAtLeastAsGood) {
  SimulateArguments arguments = SmallArguments();
  arguments.policy = "recycle";
  arguments.no_moves = true;
  const double looked_up = PoliciesOf(Output(arguments)).at("recycle").at("goodput");
  arguments.search = true;
  arguments.audit = FreshFile("searched");
  const double searched = PoliciesOf(Output(arguments)).at("recycle").at("goodput");
  EXPECT_GE(searched, looked_up);
  for (const nlohmann::json& line : LinesOf(arguments.audit)) {
    if (line.at("plan").is_null()) continue;
    const std::string file = arguments.audit + ".plans/" + line.at("plan").get<std::string>();
    ExpectPlanInForce(ReadPlanFile(file).value(), line);
  }
}

TEST(SimulateCommandTest, AProfileIsTheCostsItStates) {
  SimulateArguments arguments = SmallArguments();
  arguments.cost = "F=100,I=105,W=85,send=5";
  arguments.policy = "fault-scaled,recycle";
  const auto direct = PoliciesOf(Output(arguments));
  arguments.cost.clear();
  arguments.profile = FreshFile("costs.json");
  ASSERT_TRUE(WriteFileAtomically(arguments.profile, R"({"unit": "ms", "send_forward": 5,
      "send_backward": 5, "stages": [
      {"forward": 100, "backward_input": 105, "backward_weight": 85, "activation_bytes": 1},
      {"forward": 100, "backward_input": 105, "backward_weight": 85, "activation_bytes": 1},
      {"forward": 100, "backward_input": 105, "backward_weight": 85, "activation_bytes": 1},
      {"forward": 100, "backward_input": 105, "backward_weight": 85, "activation_bytes": 1}]})")
                  .ok());
  const auto profiled = PoliciesOf(Output(arguments));
  EXPECT_EQ(profiled.at("recycle").at("samples"), direct.at("recycle").at("samples"));
}

std::string ErrorOf(const SimulateArguments& arguments) {
  std::ostringstream out;
  const Status status = RunSimulateCommand(arguments, out);
  EXPECT_FALSE(status.ok());
  EXPECT_EQ(out.str(), "");
  return std::string(status.message());
}

TEST(SimulateCommandTest, WhatMakesNoSenseIsRefused) {
  const auto with = [](const std::function<void(SimulateArguments&)>& change) {
    SimulateArguments arguments = SmallArguments();
    change(arguments);
    return ErrorOf(arguments);
  };
  EXPECT_THAT(with([](auto& a) { a.cost.clear(); }), HasSubstr("--profile"));
  EXPECT_THAT(with([](auto& a) { a.model = "gpt3-6.7b"; }), HasSubstr("exactly one"));
  EXPECT_THAT(with([](auto& a) { a.device = "a100-80g"; }), HasSubstr("--model"));
  EXPECT_THAT(with([](auto& a) {
                a.cost.clear();
                a.model = "gpt3-6.8b";
                a.device = "a100-80g";
              }),
              HasSubstr("gpt3-6.7b"));
  EXPECT_THAT(with([](auto& a) { a.mtbf_hours.reset(); }), HasSubstr("--trace"));
  EXPECT_THAT(with([](auto& a) { a.policy = "recycel"; }),
              AllOf(HasSubstr("--policy"), HasSubstr("recycle")));
  EXPECT_THAT(with([](auto& a) { a.policy = "recycle,recycle"; }), HasSubstr("twice"));
  EXPECT_THAT(with([](auto& a) { a.set = {"recycle.detekt_s=1"}; }), HasSubstr("recycle.detect_s"));
  EXPECT_THAT(with([](auto& a) { a.gpus_per_node = 5; }), HasSubstr("--gpus-per-node"));
  EXPECT_THAT(with([](auto& a) { a.memory_cap = "0.5"; }), HasSubstr("--memory-cap"));
  EXPECT_THAT(with([](auto& a) { a.nodes = 11; }), HasSubstr("needs 12 nodes"));
  EXPECT_THAT(with([](auto& a) {
                a.mtbf_hours.reset();
                a.trace = "/no/such/file";
              }),
              HasSubstr("/no/such/file"));
  const std::string trace = FreshFile("trace.csv");
  ASSERT_TRUE(WriteFileAtomically(trace, "0,add,node1\n5,remove,node2\n").ok());
  EXPECT_THAT(with([&](auto& a) {
                a.mtbf_hours.reset();
                a.trace = trace;
              }),
              AllOf(HasSubstr(trace), HasSubstr("line 2"), HasSubstr("unknown node node2")));
}

// The figures that the rules' first prototype gave, on the published trace: 400 servers, 348 days.
TEST(SimulateCommandTest, StepFunsYear) {
  const char* folder = std::getenv("RECYCLE_TRACES");
  const std::filesystem::path traces = folder != nullptr ? folder : "../shared/traces";
  if (!std::filesystem::exists(traces)) {
    GTEST_SKIP() << "no published traces at " << traces << " (RECYCLE_TRACES names their folder)";
  }
  SimulateArguments arguments;
  arguments.dp = 25;
  arguments.pp = 16;
  arguments.microbatches = 64;
  arguments.tp = 8;
  arguments.cost = "F=100,I=100,W=100";
  arguments.trace = traces / "stepfun/fault_trace.json";
  arguments.nodes = 400;
  arguments.policy = "recycle,fault-scaled,elastic,oobleck,bamboo,restart";
  arguments.json = true;
  const auto policies = PoliciesOf(Output(arguments));
  const std::map<std::string, double> prototype = {{"fault-scaled", 0.977}, {"recycle", 1.090},
                                                   {"oobleck", 0.951},      {"elastic", 0.846},
                                                   {"restart", 0.890},      {"bamboo", 0.682}};
  for (const auto& [name, goodput] : prototype) {
    EXPECT_NEAR(policies.at(name).at("goodput").get<double>() / goodput, 1, 0.01) << name;
  }
  arguments.no_moves = true;
  EXPECT_NEAR(PoliciesOf(Output(arguments)).at("recycle").at("goodput").get<double>() / 1.057, 1,
              0.01);
}

}  // namespace
}  // namespace recycle
