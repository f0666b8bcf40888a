#include "recycle/app/job_config.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <sstream>

#include "recycle/app/config_keys.h"

namespace recycle {
namespace {

using ::testing::HasSubstr;

// The smallest job: required keys only.
constexpr const char* kMinimal =
    "model: {layers: 8, hidden: 256, heads: 8, sequence: 128}\n"
    "data: {text: corpus.txt, vocabulary: 4096}\n"
    "parallel: {data: 3, pipeline: 4}\n"
    "batch: {micro_batch_size: 2, micro_batches: 6}\n"
    "train: {iterations: 200}\n";

StatusOr<JobConfig> Parse(const std::string& yaml, const std::vector<std::string>& overrides = {}) {
  return ParseJobConfig(yaml, "job.yaml", "/jobs", overrides);
}

TEST(JobConfigTest, KeysLeftOutHaveTheirDefaults) {
  const StatusOr<JobConfig> config = Parse(kMinimal);
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->model.layers, 8);
  EXPECT_EQ(config->data.tokenizer, "sentencepiece");
  EXPECT_EQ(config->train.seed, 1234u);
  EXPECT_EQ(config->optimizer.lr, 3.0e-4);
  EXPECT_EQ(config->optimizer.beta2, 0.95);
  EXPECT_EQ(config->schedule.method, "adaptive");
  EXPECT_TRUE(config->schedule.staggered);
  EXPECT_EQ(config->schedule.memory_cap.kind, MemoryCap::Kind::kAuto);
  EXPECT_EQ(config->resilience.failure_timeout_ms, 2000);
  EXPECT_EQ(config->checkpoint.every, 0);
  EXPECT_EQ(config->launch.grace_s, 30);
  EXPECT_TRUE(config->log.trace);
  EXPECT_TRUE(config->inject.empty());
}

TEST(JobConfigTest, PathsCountFromTheFilesFolder) {
  const StatusOr<JobConfig> config = Parse(kMinimal, {"schedule.plan=../plans/one.json"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->data.text, "/jobs/corpus.txt");
  EXPECT_EQ(config->schedule.plan, "/plans/one.json");
  EXPECT_EQ(Parse(kMinimal, {"data.text=debian:bible-kjv"})->data.text, "debian:bible-kjv");
}

TEST(JobConfigTest, OverridesReplaceTheFileInOrder) {
  const StatusOr<JobConfig> config =
      Parse(kMinimal, {"train.iterations=10", "optimizer.betas=[0.8, 0.9]", "train.iterations=12",
                       "inject=[\"kill 1:1 at F of iteration 3\"]"});
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->train.iterations, 12);
  EXPECT_EQ(config->optimizer.beta1, 0.8);
  ASSERT_EQ(config->inject.size(), 1u);
  EXPECT_EQ(ToString(config->inject[0]), "kill 1:1 at F of iteration 3");
}

TEST(JobConfigTest, ResolvedConfigLoadsBackEqualFromAnyFolder) {
  const StatusOr<JobConfig> config =
      Parse(kMinimal,
            {"data.text=a \"quoted\" name.txt", "optimizer.lr=0.1", "optimizer.min_lr=1e-7",
             "schedule.memory_cap=2.5", "schedule.plan=p.json", "launch.grace_s=0.25",
             "train.seed=9007199254740993", "model.tied=true", "log.samples=true",
             R"(inject=["stop 0:1 at all-reduce of iteration 3 for 2s", "slow x2.5 1:0 at F"])"});
  ASSERT_TRUE(config.ok()) << config.status();
  const StatusOr<JobConfig> again = ParseJobConfig(ToYaml(*config), "config.yaml", "/elsewhere");
  ASSERT_TRUE(again.ok()) << again.status() << "\n" << ToYaml(*config);
  EXPECT_EQ(*again, *config);
}

TEST(JobConfigTest, EveryKeyIsWrittenAndReadBack) {
  const StatusOr<JobConfig> defaults = ParseJobConfig(DefaultsAsYaml(), "defaults", "/jobs");
  ASSERT_TRUE(defaults.ok()) << defaults.status();
  for (const ConfigKey& key : ConfigKeys()) {
    JobConfig copy;
    EXPECT_TRUE(key.read(YAML::Load(key.write(*defaults)), copy).ok()) << key.path;
    EXPECT_EQ(key.write(copy), key.write(*defaults)) << key.path;
  }
}

TEST(JobConfigTest, DocumentedKeysAreTheTables) {
  std::ifstream file("docs/CONFIG.md");
  std::ostringstream text;
  text << file.rdbuf();
  EXPECT_EQ(text.str(), ConfigKeysAsMarkdown())
      << "write it anew: recycle config --markdown > docs/CONFIG.md";
}

TEST(JobConfigTest, TheExampleIsAValidJobThatKillsAWorker) {
  const StatusOr<JobConfig> config = LoadJobConfig("examples/first-light.yaml");
  ASSERT_TRUE(config.ok()) << config.status();
  EXPECT_EQ(config->parallel.data, 3);
  EXPECT_EQ(config->parallel.pipeline, 2);
  EXPECT_EQ(config->train.iterations, 80);
  ASSERT_EQ(config->inject.size(), 1u);
  EXPECT_EQ(ToString(config->inject[0]), "kill 1:1 at F of iteration 20");
}

TEST(JobConfigTest, InjectOptionsAddToTheFilesFaults) {
  JobConfig config = *Parse(kMinimal, {"inject=[\"kill 1:1 at F\"]"});
  ASSERT_TRUE(AddInjectOptions({"stop 0:0 at W"}, config).ok());
  EXPECT_EQ(config.inject.size(), 2u);
  const Status status = AddInjectOptions({"kill 3:0 at F"}, config);
  EXPECT_THAT(std::string(status.message()), HasSubstr("--inject: "));
  EXPECT_THAT(std::string(status.message()), HasSubstr("3:0"));
}

// --- what is refused ---------------------------------------------------------------------------

struct Refused {
  std::string name;
  std::string override_text;  // "path=value"
  std::string sentence;       // after "--set path=value: " or "job.yaml: "
  absl::StatusCode code = absl::StatusCode::kInvalidArgument;
};

// A value that is known but not built yet; `use` is what the message offers instead.
Refused Unbuilt(std::string name, std::string override_text, const std::string& use) {
  return {std::move(name), std::move(override_text), "not built yet; use " + use,
          absl::StatusCode::kUnimplemented};
}

std::string NameOf(const ::testing::TestParamInfo<Refused>& info) { return info.param.name; }

class RefusedOverrideTest : public ::testing::TestWithParam<Refused> {};

TEST_P(RefusedOverrideTest, SaysKeyValueRuleAndNearestValidChoice) {
  const StatusOr<JobConfig> config = Parse(kMinimal, {GetParam().override_text});
  ASSERT_FALSE(config.ok());
  EXPECT_EQ(config.status().code(), GetParam().code);
  const std::string message(config.status().message());
  EXPECT_THAT(message, HasSubstr(GetParam().sentence));
  EXPECT_EQ(message.find('\n'), std::string::npos) << message;
}

INSTANTIATE_TEST_SUITE_P(
    Types, RefusedOverrideTest,
    ::testing::Values(
        Refused{"unknown_key", "model.layer=4",
                "model.layer is not a key of a job; the nearest one is model.layers"},
        Refused{"wrong_section", "train.lr=4",
                "train.lr is not a key of a job; the nearest one is optimizer.lr"},
        Refused{"text_for_integer", "model.layers=four",
                "model.layers is \"four\", but it must be an integer from 1 to 10000; the nearest "
                "valid choice is 1"},
        Refused{"real_for_integer", "model.layers=7.6", "the nearest valid choice is 8"},
        Refused{"quoted_number", "model.layers=\"4\"",
                "an integer from 1 to 10000; the nearest valid choice is 4"},
        Refused{"list_for_number", "optimizer.lr=[1]", "optimizer.lr is a list, but it must be"},
        Refused{"not_a_number", "optimizer.lr=.nan", "optimizer.lr is \".nan\", but it must be"},
        Refused{"no_boolean", "log.trace=yes",
                "log.trace is \"yes\", but it must be true or false; the nearest valid choice is "
                "true"},
        Refused{"empty", "train.iterations=", "train.iterations is empty, but it must be"},
        Refused{"unknown_word", "schedule.method=adaptve", "the nearest valid choice is adaptive"},
        Refused{"unknown_corpus", "data.text=debian:bible", "debian:bible-kjv"},
        Refused{"three_betas", "optimizer.betas=[0.9, 0.95, 0.99]",
                "optimizer.betas is a list, but it must be a list of two numbers"},
        Refused{"beta_of_1", "optimizer.betas=[0.9, 1]", "optimizer.betas[1] is 1"},
        Refused{"bad_fault", "inject=[\"kill 1:1 at G\"]", "inject[0]: "},
        Refused{"no_value", "train.iterations", "--set train.iterations has no value"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    Ranges, RefusedOverrideTest,
    ::testing::Values(
        Refused{"no_micro_batches", "batch.micro_batches=0",
                "batch.micro_batches is 0, but it must be an integer from 1 to 10000; the nearest "
                "valid choice is 1"},
        Refused{"no_iterations", "train.iterations=0", "the nearest valid choice is 1"},
        Refused{"negative_seed", "train.seed=-1", "the nearest valid choice is 0"},
        Refused{"all_dropped", "model.dropout=1",
                "model.dropout is 1, but it must be a number "
                "from 0 to below 1"},
        Refused{"no_lr", "optimizer.lr=0", "optimizer.lr is 0, but it must be a number above 0"},
        Refused{"respawn", "resilience.respawn=0",
                "resilience.respawn is 0, but it must be a number above 0, or never"},
        Refused{"copy_speed", "resilience.copy_mb_per_s=fast", "a number above 0, or none"},
        Refused{"cap_below_one", "schedule.memory_cap=0.5",
                "schedule.memory_cap is 0.5, but it must be"},
        Refused{"heads", "model.heads=7",
                "model.heads is 7, but it must be a divisor of model.hidden (256); the nearest "
                "valid choice is 8"},
        Refused{"stages", "parallel.pipeline=9",
                "parallel.pipeline is 9, but it must be at most model.layers (8)"},
        Refused{"bytes", "data.tokenizer=bytes",
                "data.vocabulary is 4096, but it must be 256 when data.tokenizer is bytes"},
        Refused{"floor_above_peak", "optimizer.min_lr=1",
                "optimizer.min_lr is 1, but it must be at most optimizer.lr (0.0003)"},
        Refused{"snapshots_of_one_stage", "resilience.snapshot_every=-1",
                "resilience.snapshot_every is -1, but it must be auto, or an integer of 0 or more"},
        Refused{"log_bytes", "resilience.log_bytes=1 GB",
                "an integer of 0 or more, alone or with KiB, MiB or GiB"},
        Refused{"agents", "launch.agents=4", "the nearest valid choice is 3"},
        Refused{"store", "resilience.store=etcd://somewhere:2379",
                "it must be embedded or etcd://ADDRESS:PORT,... with numeric addresses"},
        Refused{
            "paced_without_profile", "device.kind=paced",
            "device.profile is none, but it must be a profile's path when device.kind is paced"},
        Refused{"time_scale", "device.time_scale=0", "device.time_scale is 0"},
        Refused{"fault_target", "inject=[\"kill 5:1 at F\"]", "5:1"},
        Refused{"fault_hint", "inject=[\"kill 5:1 at F\"]", "--no-inject"}),
    NameOf);

INSTANTIATE_TEST_SUITE_P(
    NotBuiltYet, RefusedOverrideTest,
    ::testing::Values(Unbuilt("cuda", "device.kind=cuda", "cpu"),
                      Unbuilt("tensor", "parallel.tensor=2", "1"),
                      Unbuilt("llama", "model.architecture=llama", "gpt2"),
                      Unbuilt("bf16", "train.precision=bf16", "fp32"),
                      Unbuilt("sgd", "optimizer.name=sgd", "adamw"),
                      Unbuilt("linear", "optimizer.schedule=linear", "cosine or constant"),
                      Unbuilt("zb_v", "schedule.method=zb-v", "adaptive or gpipe")),
    NameOf);

TEST(JobConfigTest, ErrorsInTheFileNameItsLine) {
  const auto message = [](const std::string& yaml) {
    return std::string(Parse(yaml).status().message());
  };
  const std::string minimal = kMinimal;
  EXPECT_THAT(message(minimal + "modle: {layers: 4}\n"),
              HasSubstr("job.yaml:6: modle is not a section of a job; the nearest one is model"));
  EXPECT_THAT(
      message(minimal + "log:\n  trace: true\n  evry: 2\n"),
      HasSubstr("job.yaml:8: log.evry is not a key of a job; the nearest one is log.every"));
  EXPECT_THAT(message(minimal + "log: {every: 1, every: 2}\n"), HasSubstr("given twice"));
  EXPECT_THAT(message(minimal + "log: 5\n"), HasSubstr("job.yaml:6: log is 5"));
  EXPECT_THAT(message("model: {layers: 4\ntrain: ]\n"),
              HasSubstr("job.yaml is not readable as YAML: line 2, column "));
  EXPECT_THAT(message(""), HasSubstr("job.yaml: model.layers is missing"));
  EXPECT_THAT(message("- a\n- b\n"), HasSubstr("a job must be a map of sections"));
  EXPECT_THAT(message("a: &a [*a]\n"), ::testing::Not(HasSubstr("\n")));
  EXPECT_THAT(message(minimal + "---\n" + minimal), HasSubstr("job.yaml holds 2 YAML documents"));
  EXPECT_THAT(message(minimal + "# \xff\n"), HasSubstr("job.yaml is not UTF-8 text"));
  EXPECT_LT(message(minimal + std::string(900, 'a') + ": 3\n").size(), 300);
}

TEST(JobConfigTest, AnInverseStepIsNotReproducible) {
  const std::string job = std::string(kMinimal) + "schedule: {rollback: inverse}\n";
  EXPECT_TRUE(Parse(job).ok()) << Parse(job).status();
  const Status refused = Parse(job, {"train.reproducible=true"}).status();
  EXPECT_THAT(std::string(refused.message()),
              HasSubstr("schedule.rollback is inverse, but it must be exact"));
}

TEST(JobConfigTest, AMissingFileIsNamed) {
  const StatusOr<JobConfig> config = LoadJobConfig("nowhere/job.yaml");
  EXPECT_TRUE(absl::IsNotFound(config.status()));
  EXPECT_THAT(std::string(config.status().message()), HasSubstr("nowhere/job.yaml"));
  EXPECT_FALSE(LoadJobConfig("examples").ok());  // a folder
}

}  // namespace
}  // namespace recycle
