#include "recycle/app/command_line.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <iterator>
#include <nlohmann/json.hpp>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "recycle/app/command_line_testing.h"
#include "recycle/protocol/fault.h"

namespace recycle {
namespace {

using ::testing::HasSubstr;
using testing::Words;
using Result = testing::CommandResult;

// Runs the command line; the commands that start processes note their arguments instead.
class CommandLineTest : public ::testing::Test {
 protected:
  Result Run(const Words& words) {
    const CommandHandlers handlers{
        .train = [this](const TrainArguments& arguments) { return train_ = arguments, 11; },
        .profile = [this](const ProfileArguments& arguments) { return profile_ = arguments, 18; },
        .status = [this](const StatusArguments& arguments) { return status_ = arguments, 12; },
        .join = [this](const PlaceArguments& arguments) { return place_ = arguments, 16; },
        .drain = [this](const PlaceArguments& arguments) { return place_ = arguments, 17; },
        .chaos = [this](const ChaosArguments& arguments) { return chaos_ = arguments, 18; },
        .coordinator = [](const CoordinatorArguments& arguments) { return arguments.report_fd; },
        .agent = [](const AgentArguments& arguments) { return arguments.agent; },
        .executor =
            [this](const ExecutorArguments& arguments) { return executor_ = arguments, 15; }};
    return testing::RunWords(words, handlers);
  }

  void ExpectRefused(const Words& words, const Words& parts) {
    EXPECT_EQ(testing::WhyNotRefused(Run(words), parts), "");
  }

  std::optional<TrainArguments> train_;
  std::optional<ProfileArguments> profile_;
  std::optional<StatusArguments> status_;
  std::optional<PlaceArguments> place_;
  std::optional<ChaosArguments> chaos_;
  std::optional<ExecutorArguments> executor_;
};

TEST_F(CommandLineTest, JoinAndDrainNameAFolderAndAPlace) {
  EXPECT_EQ(Run({"join", "runs/x", "1:1"}).code, 16);
  EXPECT_EQ(place_, (PlaceArguments{.run_dir = "runs/x", .worker = "1:1", .listen = ""}));
  EXPECT_EQ(Run({"join", "runs/x", "1:1", "--listen", "192.0.2.11"}).code, 16);
  EXPECT_EQ(place_, (PlaceArguments{.run_dir = "runs/x", .worker = "1:1", .listen = "192.0.2.11"}));
  EXPECT_EQ(Run({"drain", "runs/y", "0:2"}).code, 17);
  EXPECT_EQ(place_, (PlaceArguments{.run_dir = "runs/y", .worker = "0:2", .listen = ""}));
  ExpectRefused({"join", "runs/x"}, {"worker is required", "recycle join --help"});
}

TEST_F(CommandLineTest, ChaosHandsItsArgumentsOver) {
  EXPECT_EQ(Run({"chaos", "job.yaml", "--trials", "7", "--seed", "18446744073709551615", "--set",
                 "a=1", "--run-dir", "r", "--json"})
                .code,
            18);
  const ChaosArguments expected{.config_path = "job.yaml",
                                .overrides = {"a=1"},
                                .trials = 7,
                                .seed = 18446744073709551615U,
                                .run_dir = "r",
                                .json = true};
  EXPECT_EQ(chaos_, expected);
  ExpectRefused({"chaos", "job.yaml", "--trials", "0"}, {"--trials", "recycle chaos --help"});
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

// "$DIR" of a script whose DIR is not set, names in Latin-1, and names that would end the sentence.
TEST_F(CommandLineTest, EmptyAndUnreadableWordsAreRefused) {
  ExpectRefused({"train", "job.yaml", "--run-dir", ""}, {"the word after --run-dir is empty"});
  ExpectRefused({"train", "job.yaml", "--plan="}, {"the word after --plan is empty"});
  ExpectRefused({"train", ""}, {"the word after train is empty"});
  ExpectRefused({"train", "job.yaml", "--run-dir", "x\xff"},
                {"the word after --run-dir is not UTF-8"});
  ExpectRefused({"plan", "--x\ny"}, {"--x\\ny is not an option"});
  EXPECT_FALSE(train_.has_value());
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
  EXPECT_EQ(Run({"agent", "r", "3"}).code, 3);
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
  ExpectRefused({"config", "job.yaml", "--defaults"}, {"--defaults", "job"});
  ExpectRefused({"config", "--defaults", "--markdown"}, {"--defaults", "--markdown"});
}

TEST_F(CommandLineTest, EveryCommandsHelpIsItsOwn) {
  for (const char* command :
       {"train", "plan", "simulate", "check", "status", "join", "drain", "config", "checkpoint"}) {
    const std::string help = Run({command, "--help"}).out;
    EXPECT_THAT(help, HasSubstr(std::string("\n  recycle ") + command)) << "an example";
    EXPECT_THAT(help, ::testing::Not(HasSubstr("explains a command"))) << "the program's own text";
  }
}

// What docs/CLI.md has in backticks between `from` and `to`.
std::vector<std::string> Documented(const std::string& text, const std::string& from,
                                    const std::string& to) {
  const std::size_t begin = text.find(from);
  const std::string part = text.substr(begin, text.find(to, begin) - begin).substr(from.size());
  const std::regex quoted("`([^`]+)`");
  std::vector<std::string> words;
  for (std::sregex_iterator it(part.begin(), part.end(), quoted), end; it != end; ++it) {
    words.push_back((*it)[1]);
  }
  return words;
}

std::string CommandLinePage() {
  std::ifstream file("docs/CLI.md");
  return {std::istreambuf_iterator<char>(file), {}};
}

TEST_F(CommandLineTest, DocumentedFaultsAreFaults) {
  const std::string page = CommandLinePage();
  const std::vector<std::string> targets = Documented(page, "- `TARGET`:", "- `POINT`:");
  EXPECT_EQ(targets.size(), 7u);
  for (const std::string& target : targets) {
    const std::string what = target.starts_with("link") ? "drop"
                             : target == "store"        ? "stop"
                                                        : "kill";
    const std::string end = target == "store" ? " for 1s" : "";
    const StatusOr<Fault> fault = ParseFault(what + " " + target + " at send" + end);
    EXPECT_TRUE(fault.ok()) << fault.status();
    EXPECT_THAT(Run({"train", "--help"}).out, HasSubstr(target));
  }
  const std::vector<std::string> points = Documented(page, "- `POINT`:", " There `kill all`");
  EXPECT_EQ(points.size(), 20u);
  for (const std::string& point : points) {
    const StatusOr<Fault> fault = ParseFault("kill all at " + point);
    EXPECT_TRUE(fault.ok()) << fault.status();
  }
}

TEST_F(CommandLineTest, DocumentedOptionsExist) {
  const std::string page = CommandLinePage();
  const std::regex row("\n\\| (`--[^|]*) \\|");
  const std::regex option("--[a-z-]+");
  for (const char* command : {"train", "plan", "simulate"}) {
    const std::size_t begin = page.find(std::string("\n## recycle ") + command);
    const std::string section = page.substr(begin, page.find("\n## ", begin + 1) - begin);
    const std::string help = Run({command, "--help"}).out;
    int options = 0;
    for (std::sregex_iterator it(section.begin(), section.end(), row), end; it != end; ++it) {
      const std::string cell = (*it)[1];
      for (std::sregex_iterator word(cell.begin(), cell.end(), option); word != end; ++word) {
        EXPECT_THAT(help, HasSubstr("\n  " + word->str() + " ")) << command;
        ++options;
      }
    }
    EXPECT_GE(options, 8) << command;
  }
}

TEST_F(CommandLineTest, ProfileHandsItsArgumentsOver) {
  EXPECT_EQ(Run({"profile", "job.yaml"}).code, 18);
  ProfileArguments shortest;
  shortest.config_path = "job.yaml";
  EXPECT_EQ(profile_, shortest);
  EXPECT_EQ(profile_->iterations, 100);
  EXPECT_EQ(Run({"profile", "job.yaml", "--iterations", "7", "--set", "a.b=1", "--run-dir", "r",
                 "--json", "--output", "p.json"})
                .code,
            18);
  EXPECT_EQ(profile_, (ProfileArguments{.config_path = "job.yaml",
                                        .overrides = {"a.b=1"},
                                        .iterations = 7,
                                        .run_dir = "r",
                                        .json = true,
                                        .output = "p.json"}));
  ExpectRefused({"profile", "job.yaml", "--iterations", "4"}, {"--iterations", "4"});
}

TEST_F(CommandLineTest, ResumeNeedsAFolder) {
  ExpectRefused({"train", "job.yaml", "--resume"}, {"--run-dir"});
  EXPECT_FALSE(train_.has_value());
}

TEST_F(CommandLineTest, CheckpointsThatAreNotThereAreExitCode2) {
  ExpectRefused({"checkpoint"}, {"inspect, verify, convert", "checkpoint --help"});
  ExpectRefused({"checkpoint", "inspct", "docs"}, {"nearest valid choice is inspect"});
  ExpectRefused({"checkpoint", "inspect", "docs", "--jsn"},
                {"not an option of recycle checkpoint inspect", "choice is --json"});
  ExpectRefused({"checkpoint", "verify", "nowhere"}, {"there is no folder 'nowhere'"});
  ExpectRefused({"checkpoint", "inspect", "docs"}, {"'docs' is not complete"});
}

TEST_F(CommandLineTest, EveryOptionIsDocumented) {
  const std::string documented = CommandLinePage();
  ASSERT_FALSE(documented.empty());
  const std::regex option("--[a-z][a-z-]*");
  for (const char* command :
       {"train", "plan", "simulate", "check", "status", "join", "drain", "config", "checkpoint"}) {
    std::string help = Run({command, "--help"}).out;
    if (command == std::string("checkpoint")) {
      help += Run({command, "inspect", "--help"}).out + Run({command, "convert", "--help"}).out;
    }
    for (std::sregex_iterator it(help.begin(), help.end(), option), end; it != end; ++it) {
      EXPECT_THAT(documented, HasSubstr(it->str())) << command;
    }
  }
}

// --- check, config: nothing outside this process ------------------------------------------

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
