// A job as its YAML file describes it, checked. Every key, its unit, default and meaning stand in
// one table (config_keys.h), which drives reading, writing, `recycle config` and docs/CONFIG.md.
//
// Errors are one sentence that names the key, the value, the rule and the nearest valid choice:
// kInvalidArgument (also for unreadable YAML, with line and column), kNotFound for a missing file,
// kUnimplemented for a value whose feature is not built yet. All of them end a program with exit
// code 2.
//
//   RC_ASSIGN_OR_RETURN(JobConfig config, LoadJobConfig("job.yaml", {"train.iterations=10"}));
//
// Plain data; safe to share between threads while nobody changes it.
#ifndef RECYCLE_APP_JOB_CONFIG_H_
#define RECYCLE_APP_JOB_CONFIG_H_

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "recycle/app/memory_cap.h"
#include "recycle/base/status.h"
#include "recycle/protocol/fault.h"

namespace recycle {

// Field names are the keys of the YAML file; units and meanings: config_keys.cc, docs/CONFIG.md.
struct JobConfig {
  struct Model {
    std::string architecture = "gpt2";
    int layers = 0;
    int hidden = 0;
    int heads = 0;
    int sequence = 0;
    double dropout = 0.0;
    bool tied = false;
    bool operator==(const Model&) const = default;
  } model;

  struct Data {
    std::string text;  // an absolute path, or "debian:bible-kjv"
    std::string tokenizer = "sentencepiece";
    int vocabulary = 0;
    double validation = 0.05;
    bool operator==(const Data&) const = default;
  } data;

  struct Parallel {
    int data = 0;
    int pipeline = 0;
    int tensor = 1;
    bool operator==(const Parallel&) const = default;
  } parallel;

  struct Batch {
    int micro_batch_size = 0;
    int micro_batches = 0;  // per pipeline
    bool operator==(const Batch&) const = default;
  } batch;

  struct Train {
    int iterations = 0;
    std::uint64_t seed = 1234;
    std::string precision = "fp32";
    bool reproducible = false;
    int validate_every = 0;
    bool operator==(const Train&) const = default;
  } train;

  struct Optimizer {
    std::string name = "adamw";
    double lr = 3.0e-4;
    double beta1 = 0.9;
    double beta2 = 0.95;
    double weight_decay = 0.1;
    double clip = 1.0;
    std::string schedule = "cosine";
    int warmup = 20;
    double min_lr = 3.0e-5;
    bool operator==(const Optimizer&) const = default;
  } optimizer;

  struct Schedule {
    std::string method = "adaptive";
    bool decoupled = true;
    bool staggered = true;
    std::string rollback = "exact";
    MemoryCap memory_cap{MemoryCap::Kind::kAuto};
    std::string plan;  // an absolute path; empty: none, the planner makes the plan
    bool measure = true;
    bool operator==(const Schedule&) const = default;
  } schedule;

  struct Resilience {
    int failure_timeout_ms = 2000;
    std::string store = "embedded";
    std::optional<double> respawn_s;      // absent: never
    std::optional<double> copy_mb_per_s;  // absent: none
    bool role_changes = true;
    std::optional<int> snapshot_every;  // absent: auto
    std::int64_t log_bytes = std::int64_t{256} << 20;
    int compare_every = 20;
    std::optional<double> slow_factor;  // absent: none
    bool operator==(const Resilience&) const = default;
  } resilience;

  struct Checkpoint {
    int every = 0;
    int keep = 2;
    bool operator==(const Checkpoint&) const = default;
  } checkpoint;

  struct Device {
    std::string kind = "cpu";
    std::string profile;  // an absolute path; empty: none
    double time_scale = 1;
    bool is_paced() const { return kind == "paced"; }
    bool operator==(const Device&) const = default;
  } device;

  struct Launch {
    int agents = 1;
    bool start_agents = true;  // false: `recycle agent` does, on their hosts
    int coordinators = 1;
    std::string listen = "127.0.0.1";  // a numeric address
    double grace_s = 30;
    double join_timeout_s = 30;
    bool operator==(const Launch&) const = default;
  } launch;

  // Absolute paths; empty: none.
  struct Security {
    std::string token_file;
    std::string ca_file;
    std::string certificate_file;
    std::string key_file;
    bool mutual_tls = false;
    std::string etcd_ca_file;
    std::string etcd_certificate_file;
    std::string etcd_key_file;
    bool operator==(const Security&) const = default;
  } security;

  struct Log {
    int every = 1;
    bool samples = false;
    bool trace = true;
    bool profile = false;
    bool operator==(const Log&) const = default;
  } log;

  std::vector<Fault> inject;

  bool operator==(const JobConfig&) const = default;
};

// Reads and checks a job. `overrides` are "path.to.key=value" with the value in YAML, applied in
// order after the file. Relative paths, in the file and in overrides, count from the file's folder.
StatusOr<JobConfig> LoadJobConfig(const std::string& path,
                                  const std::vector<std::string>& overrides = {});

// The same from text; `name` stands for the file in messages, `folder` is what paths count from.
StatusOr<JobConfig> ParseJobConfig(const std::string& yaml, const std::string& name,
                                   const std::string& folder,
                                   const std::vector<std::string>& overrides = {});

// The rules between keys (heads divide hidden, stages do not exceed layers, faults hit something
// that exists, ...). LoadJobConfig has called it; call it again after changing a config.
Status CheckJobConfig(const JobConfig& config);

// Adds the faults of --inject to the config's own.
Status AddInjectOptions(const std::vector<std::string>& inject, JobConfig& config);

// All keys with their values, as YAML that loads back to an equal config from any folder.
std::string ToYaml(const JobConfig& config);

}  // namespace recycle

#endif  // RECYCLE_APP_JOB_CONFIG_H_
