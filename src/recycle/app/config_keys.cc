#include "recycle/app/config_keys.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "recycle/app/config_values.h"
#include "recycle/app/job_store.h"
#include "recycle/plan/nearest.h"
#include "recycle/rpc/numeric_address.h"

namespace recycle {
namespace {

// The member that a row is about, const or not.
#define RC_FIELD(member) \
  [](auto& config) -> auto& { return config.member; }

using Keys = std::vector<ConfigKey>;

constexpr std::int64_t kMostWorkersPerAxis = 10'000;
constexpr std::int64_t kMostMicroBatches = 10'000;
constexpr std::int64_t kMostSize = 1'000'000;  // of one dimension of a tensor
constexpr std::int64_t kMostBytes = std::int64_t{1} << 50;

// A number above 0, or a word that stands for its absence.
template <typename Field>
ConfigKey OptionalNumberKey(KeyText text, Field field, const std::string& word) {
  const std::string rule = "a number above 0, or " + word;
  const auto read = [path = text.path, field, word, rule](const YAML::Node& value,
                                                          JobConfig& config) -> Status {
    const std::string scalar = value.IsScalar() ? value.Scalar() : "";
    const std::optional<double> number = ParseReal(scalar);
    field(config) = number;
    if (scalar == word || number.value_or(0) > 0) return OkStatus();
    return BadValue(path, DescribeValue(value), rule, word);
  };
  const auto write = [field, word](const JobConfig& config) {
    const std::optional<double>& number = field(config);
    return number ? fmt::format("{}", *number) : word;
  };
  return {
      std::move(text.path), rule, std::move(text.unit), std::move(text.meaning), "", read, write};
}

// An integer whose only built value is its default.
template <typename Field>
ConfigKey FixedIntegerKey(KeyText text, Field field, IntegerRange range) {
  const JobConfig defaults;
  const std::int64_t fixed = field(defaults);
  ConfigKey key = IntegerKey(std::move(text), field, range);
  const auto read = [path = key.path, range, fixed](const YAML::Node& value,
                                                    JobConfig& /*config*/) -> Status {
    RC_ASSIGN_OR_RETURN(const std::int64_t number, ReadInteger(path, value, range));
    if (number == fixed) return OkStatus();
    return NotBuiltYet(path, std::to_string(number), std::to_string(fixed));
  };
  key.read = read;
  key.rule += fmt::format(" (other than {}: not built yet)", fixed);
  return key;
}

Keys ModelKeys() {
  const IntegerRange size{1, kMostSize};
  return {
      WordKey({"model.architecture", "",
               "Which model: gpt2 is a pre-norm decoder with learned "
               "positions, GELU and biases."},
              RC_FIELD(model.architecture), {{"gpt2"}, {"llama"}}),
      IntegerKey({"model.layers", "", "Transformer blocks; embedding and head come on top.", "4"},
                 RC_FIELD(model.layers), {1, 10'000}),
      IntegerKey({"model.hidden", "", "Width of the residual stream.", "128"},
                 RC_FIELD(model.hidden), size),
      IntegerKey({"model.heads", "", "Attention heads; must divide model.hidden.", "4"},
                 RC_FIELD(model.heads), size),
      IntegerKey({"model.sequence", "tokens", "Length of one sample.", "128"},
                 RC_FIELD(model.sequence), size),
      RealKey({"model.dropout", "", "Probability to drop an element of an activation."},
              RC_FIELD(model.dropout), {.least = 0, .most = 1, .open_above = true}),
      BooleanKey({"model.tied", "", "The head's weight is the token embedding."},
                 RC_FIELD(model.tied)),
  };
}

ConfigKey TextSourceKey() {
  const std::string path = "data.text";
  const std::string rule = "the path of a UTF-8 text file or debian:bible-kjv";
  const auto read = [path, rule](const YAML::Node& value, JobConfig& config) -> Status {
    RC_ASSIGN_OR_RETURN(config.data.text, ReadText(path, value, rule, "debian:bible-kjv"));
    const bool debian = absl::StartsWith(config.data.text, "debian:");
    if (!debian || config.data.text == "debian:bible-kjv") return OkStatus();
    return BadValue(path, Quoted(config.data.text), rule, "debian:bible-kjv");
  };
  const auto write = [](const JobConfig& config) { return Quoted(config.data.text); };
  return {path,
          rule,
          "",
          "The corpus; debian:bible-kjv is the King James text of Debian's package bible-kjv.",
          "\"debian:bible-kjv\"",
          read,
          write};
}

Keys DataKeys() {
  return {
      TextSourceKey(),
      WordKey({"data.tokenizer", "",
               "SentencePiece BPE trained on the corpus at first use, or "
               "plain bytes (vocabulary 256)."},
              RC_FIELD(data.tokenizer), {{"sentencepiece", "bytes"}, {}}),
      IntegerKey({"data.vocabulary", "tokens", "Distinct tokens.", "4096"},
                 RC_FIELD(data.vocabulary), {2, kMostSize}),
      RealKey({"data.validation", "", "Share of the samples, the last ones, kept for validation."},
              RC_FIELD(data.validation), {.least = 0, .most = 1, .open_above = true}),
  };
}

Keys ParallelAndBatchKeys() {
  return {
      IntegerKey({"parallel.data", "", "Data-parallel pipelines (DP).", "3"},
                 RC_FIELD(parallel.data), {1, kMostWorkersPerAxis}),
      IntegerKey({"parallel.pipeline", "", "Pipeline stages (PP), at most model.layers.", "2"},
                 RC_FIELD(parallel.pipeline), {1, kMostWorkersPerAxis}),
      FixedIntegerKey({"parallel.tensor", "", "Ranks that share a worker's tensors (TP)."},
                      RC_FIELD(parallel.tensor), {1, kMostWorkersPerAxis}),
      IntegerKey({"batch.micro_batch_size", "samples", "Samples in a micro-batch.", "2"},
                 RC_FIELD(batch.micro_batch_size), {1, kMostSize}),
      IntegerKey({"batch.micro_batches", "",
                  "Micro-batches of each pipeline in an iteration (M); "
                  "the global batch never changes, whatever fails.",
                  "6"},
                 RC_FIELD(batch.micro_batches), {1, kMostMicroBatches}),
  };
}

Keys TrainKeys() {
  return {
      IntegerKey({"train.iterations", "iterations", "Optimizer steps to make.", "200"},
                 RC_FIELD(train.iterations), {1}),
      IntegerKey({"train.seed", "", "Keys initial values, order of samples and dropout."},
                 RC_FIELD(train.seed), {0, std::numeric_limits<std::int64_t>::max()}),
      WordKey({"train.precision", "", "Number format of parameters and activations."},
              RC_FIELD(train.precision), {{"fp32"}, {"bf16", "fp16"}}),
      BooleanKey({"train.reproducible", "",
                  "Gradients are summed so that their order cannot matter: parameters are equal to "
                  "the last bit whatever fails, and whatever parallel.data is at the same global "
                  "batch. 4 more bytes a parameter."},
                 RC_FIELD(train.reproducible)),
      IntegerKey({"train.validate_every", "iterations",
                  "Measure the loss on the validation samples so often; 0 is never."},
                 RC_FIELD(train.validate_every), {0}),
  };
}

ConfigKey BetasKey() {
  const std::string path = "optimizer.betas";
  const std::string rule = "a list of two numbers from 0 to below 1";
  const auto read = [path, rule](const YAML::Node& value, JobConfig& config) -> Status {
    if (!value.IsSequence() || value.size() != 2) {
      return BadValue(path, DescribeValue(value), rule, "[0.9, 0.95]");
    }
    const RealRange range{.least = 0, .most = 1, .open_above = true};
    RC_ASSIGN_OR_RETURN(config.optimizer.beta1, ReadReal(path + "[0]", value[0], range));
    RC_ASSIGN_OR_RETURN(config.optimizer.beta2, ReadReal(path + "[1]", value[1], range));
    return OkStatus();
  };
  const auto write = [](const JobConfig& config) {
    return fmt::format("[{}, {}]", config.optimizer.beta1, config.optimizer.beta2);
  };
  return {path, rule, "", "Decay of the first and second moment.", "", read, write};
}

Keys OptimizerKeys() {
  return {
      WordKey({"optimizer.name", "", "The update rule; weight decay is decoupled (AdamW)."},
              RC_FIELD(optimizer.name), {{"adamw"}, {"adam", "sgd"}}),
      RealKey({"optimizer.lr", "", "Learning rate after the warm-up."}, RC_FIELD(optimizer.lr),
              {.least = 0, .open_below = true}),
      BetasKey(),
      RealKey({"optimizer.weight_decay", "", "Decay of matrices; norms and biases have none."},
              RC_FIELD(optimizer.weight_decay), {}),
      RealKey({"optimizer.clip", "", "Largest global gradient norm; 0 is no clipping."},
              RC_FIELD(optimizer.clip), {}),
      WordKey({"optimizer.schedule", "",
               "Learning rate after the warm-up: down to min_lr along a "
               "cosine, or constant."},
              RC_FIELD(optimizer.schedule), {{"cosine", "constant"}, {"linear"}}),
      IntegerKey({"optimizer.warmup", "iterations", "Linear rise of the learning rate from 0."},
                 RC_FIELD(optimizer.warmup), {0}),
      RealKey({"optimizer.min_lr", "", "Floor of the cosine; at most optimizer.lr."},
              RC_FIELD(optimizer.min_lr), {}),
  };
}

ConfigKey MemoryCapKey() {
  const std::string path = "schedule.memory_cap";
  const auto read = [path](const YAML::Node& value, JobConfig& config) -> Status {
    const std::string text = value.IsScalar() ? value.Scalar() : DescribeValue(value);
    RC_ASSIGN_OR_RETURN(config.schedule.memory_cap,
                        ParseMemoryCap(text, path, /*allow_auto=*/true));
    return OkStatus();
  };
  const auto write = [](const JobConfig& config) { return ToString(config.schedule.memory_cap); };
  return {path,
          "auto, none, 1f1b or a number of 1 or more",
          "micro-batches",
          "Activation a worker may hold: a number of micro-batches, PP - i at stage i (1f1b), no "
          "limit (none), or what the machine's memory leaves beside all else that "
          "`train --dry-run` counts but the log, as far as it makes plans shorter (auto).",
          "",
          read,
          write};
}

// The path of a file, such as "a plan file", or none.
template <typename Field>
ConfigKey FileKey(KeyText text, Field field, const std::string& file) {
  const std::string rule = "the path of " + file + " or none";
  const auto read = [path = text.path, field, rule](const YAML::Node& value,
                                                    JobConfig& config) -> Status {
    RC_ASSIGN_OR_RETURN(field(config), ReadText(path, value, rule, "none"));
    if (IsPlainScalar(value) && field(config) == "none") field(config).clear();
    return OkStatus();
  };
  const auto write = [field](const JobConfig& config) {
    return field(config).empty() ? "none" : Quoted(field(config));
  };
  return {
      std::move(text.path), rule, std::move(text.unit), std::move(text.meaning), "", read, write};
}

Keys ScheduleKeys() {
  return {
      WordKey({"schedule.method", "",
               "How the plan is made; once a worker is dead, methods that cannot re-route "
               "(all but adaptive and naive) give way to adaptive."},
              RC_FIELD(schedule.method),
              {{"adaptive", "gpipe", "1f1b", "zb-h1", "zb-h2", "naive"},
               {"interleaved", "zb-v", "exact"}}),
      BooleanKey({"schedule.decoupled", "",
                  "Backward for the input apart from backward for the "
                  "weights, so that the latter can fill bubbles."},
                 RC_FIELD(schedule.decoupled)),
      BooleanKey(
          {"schedule.staggered", "",
           "A stage's next iteration waits for that stage's own step only; the gradient's "
           "norm is judged meanwhile, and a step that was wrong is made again from the very "
           "bits. Until ten iterations in a row needed neither clipping nor another "
           "correction, all stages wait for the norm. Without effect on the methods gpipe, 1f1b "
           "and naive."},
          RC_FIELD(schedule.staggered)),
      WordKey({"schedule.rollback", "",
               "How a staggered step that was wrong is undone: exact keeps the state before it; "
               "inverse needs no memory and is right but for rounding (docs/RECOVERY.md)."},
              RC_FIELD(schedule.rollback), {{"exact", "inverse"}, {}}),
      MemoryCapKey(),
      FileKey({"schedule.plan", "",
               "A plan to run as it is until a worker dies, or schedule.measure finds a faster one "
               "(also --plan)."},
              RC_FIELD(schedule.plan), "a plan file"),
      BooleanKey({"schedule.measure", "",
                  "Workers measure what F, I and W take in their first iterations; if the plan was "
                  "made for costs that are off by more than a tenth, and there is a faster one for "
                  "the measured ones, that one runs (docs/RECOVERY.md)."},
                 RC_FIELD(schedule.measure)),
  };
}

ConfigKey StoreKey() {
  const std::string path = "resilience.store";
  const std::string rule = "embedded or etcd://ADDRESS:PORT,... with numeric addresses";
  const auto read = [path, rule](const YAML::Node& value, JobConfig& config) -> Status {
    const std::string text = value.IsScalar() ? value.Scalar() : "";
    if (text != "embedded" && !CheckStoreName(text).ok()) {
      return BadValue(path, DescribeValue(value), rule, "embedded");
    }
    config.resilience.store = text;
    return OkStatus();
  };
  const auto write = [](const JobConfig& config) { return config.resilience.store; };
  return {path,
          rule,
          "",
          "Where coordinators keep what the next one needs: a file of the run folder, or an etcd.",
          "",
          read,
          write};
}

// Binary units, the largest first.
constexpr std::pair<const char*, std::int64_t> kByteUnits[] = {
    {"GiB", std::int64_t{1} << 30}, {"MiB", std::int64_t{1} << 20}, {"KiB", std::int64_t{1} << 10}};

// "256 MiB", "1048576". Absent if `text` is anything else or too large for any machine.
std::optional<std::int64_t> ParseBytes(std::string_view text) {
  std::int64_t unit_bytes = 1;
  for (const auto& [unit, bytes] : kByteUnits) {
    if (!text.ends_with(unit)) continue;
    text.remove_suffix(std::string_view(unit).size());
    if (text.ends_with(' ')) text.remove_suffix(1);
    unit_bytes = bytes;
    break;
  }
  const std::optional<std::int64_t> count = ParseInteger<std::int64_t>(text);
  if (!count || *count < 0 || *count > kMostBytes / unit_bytes) return std::nullopt;
  return *count * unit_bytes;
}

std::string BytesText(std::int64_t bytes) {
  for (const auto& [unit, unit_bytes] : kByteUnits) {
    if (bytes > 0 && bytes % unit_bytes == 0) return fmt::format("{} {}", bytes / unit_bytes, unit);
  }
  return std::to_string(bytes);
}

ConfigKey LogBytesKey() {
  const std::string path = "resilience.log_bytes";
  const std::string rule = "an integer of 0 or more, alone or with KiB, MiB or GiB";
  const auto read = [path, rule](const YAML::Node& value, JobConfig& config) -> Status {
    const std::optional<std::int64_t> bytes = ParseBytes(value.IsScalar() ? value.Scalar() : "");
    if (!bytes) return BadValue(path, DescribeValue(value), rule, "256 MiB");
    config.resilience.log_bytes = *bytes;
    return OkStatus();
  };
  const auto write = [](const JobConfig& config) { return BytesText(config.resilience.log_bytes); };
  return {path, rule, "bytes", "Boundary log kept in memory; beyond it logs go to a file.",
          "",   read, write};
}

// An integer, or auto.
ConfigKey SnapshotKey() {
  const std::string path = "resilience.snapshot_every";
  const std::string rule = "auto, or an integer of 0 or more";
  const auto read = [path, rule](const YAML::Node& value, JobConfig& config) -> Status {
    const std::string text = value.IsScalar() ? value.Scalar() : "";
    config.resilience.snapshot_every = ParseInteger<int>(text);
    if (text == "auto" || config.resilience.snapshot_every.value_or(-1) >= 0) return OkStatus();
    return BadValue(path, DescribeValue(value), rule,
                    config.resilience.snapshot_every ? "0" : "auto");
  };
  const auto write = [](const JobConfig& config) {
    const std::optional<int>& every = config.resilience.snapshot_every;
    return every ? std::to_string(*every) : "auto";
  };
  return {
      path,
      rule,
      "iterations",
      "How often each worker keeps its stage's state in memory, and one of another stage a copy, "
      "so that a stage that loses all its workers needs no disk; 0 is never, auto about as "
      "often as costs 0.5% of the computing (never with one stage).",
      "",
      read,
      write};
}

Keys ResilienceKeys() {
  return {
      IntegerKey({"resilience.failure_timeout_ms", "ms", "Silence that counts as death."},
                 RC_FIELD(resilience.failure_timeout_ms), {100, 3'600'000}),
      StoreKey(),
      OptionalNumberKey({"resilience.respawn", "s",
                         "A dead worker's agent starts it anew after so long, twice as long after "
                         "each further death; the fifth death parks the place."},
                        RC_FIELD(resilience.respawn_s), "never"),
      OptionalNumberKey({"resilience.copy_mb_per_s", "MB/s",
                         "Speed limit of a donor's copy of its state to a worker that comes back."},
                        RC_FIELD(resilience.copy_mb_per_s), "none"),
      BooleanKey(
          {"resilience.role_changes", "",
           "When a stage has lost more workers than others and nobody comes back, a worker of "
           "another stage takes one of its places, if that gains more than it costs."},
          RC_FIELD(resilience.role_changes)),
      SnapshotKey(),
      LogBytesKey(),
      IntegerKey({"resilience.compare_every", "iterations",
                  "How often the workers of a stage compare a hash of their state, which must be "
                  "the same: whoever differs from the majority is replaced; 0 is never."},
                 RC_FIELD(resilience.compare_every), {0}),
      OptionalNumberKey(
          {"resilience.slow_factor", "",
           "A worker whose actions take so many times as long as its peers' for three "
           "iterations is named and gets fewer micro-batches; above 1."},
          RC_FIELD(resilience.slow_factor), "none"),
  };
}

Keys DeviceKeys() {
  return {
      WordKey(
          {"device.kind", "",
           "What the executors compute on; paced: on this machine's CPUs, but every action lasts "
           "as long as device.profile says, on a clock that only such actions move "
           "(docs/simulator.md)."},
          RC_FIELD(device.kind), {{"cpu", "paced"}, {"cuda"}}),
      FileKey(
          {"device.profile", "",
           "Costs of the stages in ms, as `recycle profile` writes and `recycle plan --profile` "
           "reads them: what the plans of a paced job are made for, and its actions take."},
          RC_FIELD(device.profile), "a profile"),
      RealKey(
          {"device.time_scale", "",
           "What a second of the profile takes here, in seconds: 0.01 runs a paced job a hundred "
           "times as fast as its profile says."},
          RC_FIELD(device.time_scale), {.least = 0, .most = 1000, .open_below = true}),
  };
}

ConfigKey ListenKey() {
  const std::string path = "launch.listen";
  const std::string rule = "a numeric address of this machine";
  const auto read = [path, rule](const YAML::Node& value, JobConfig& config) -> Status {
    RC_ASSIGN_OR_RETURN(config.launch.listen, ReadText(path, value, rule, "127.0.0.1"));
    if (CheckListenAddress(config.launch.listen).ok()) return OkStatus();
    return BadValue(path, Quoted(config.launch.listen), rule, "127.0.0.1");
  };
  const auto write = [](const JobConfig& config) { return Quoted(config.launch.listen); };
  return {
      path,
      rule,
      "",
      "Where coordinators and workers listen, and nowhere else (workers on other hosts: `--listen` "
      "of `recycle agent` and `join`); other than loopback it needs security.token_file "
      "(docs/SECURITY.md).",
      "",
      read,
      write};
}

Keys SecurityKeys() {
  return {
      FileKey(
          {"security.token_file", "",
           "The secret that whoever talks to the coordinator has to know; readable by its owner "
           "alone (docs/SECURITY.md)."},
          RC_FIELD(security.token_file), "a file"),
      FileKey({"security.ca_file", "",
               "Who signs the coordinator's certificate; with the next two the control plane goes "
               "over TLS."},
              RC_FIELD(security.ca_file), "a file in PEM"),
      FileKey(
          {"security.certificate_file", "", "The coordinator's certificate, for launch.listen."},
          RC_FIELD(security.certificate_file), "a file in PEM"),
      FileKey({"security.key_file", "", "The certificate's private key, without a passphrase."},
              RC_FIELD(security.key_file), "a file in PEM"),
      BooleanKey({"security.mutual_tls", "",
                  "Whoever talks to the coordinator has to have a certificate, too; the job's own "
                  "processes use the coordinator's."},
                 RC_FIELD(security.mutual_tls)),
      FileKey({"security.etcd_ca_file", "",
               "Who signs the certificates of resilience.store; with it, etcd is spoken to over "
               "TLS."},
              RC_FIELD(security.etcd_ca_file), "a file in PEM"),
      FileKey({"security.etcd_certificate_file", "",
               "Shown to an etcd that asks its clients for a certificate."},
              RC_FIELD(security.etcd_certificate_file), "a file in PEM"),
      FileKey({"security.etcd_key_file", "", "That certificate's private key."},
              RC_FIELD(security.etcd_key_file), "a file in PEM"),
  };
}

Keys CheckpointKeys() {
  return {
      IntegerKey({"checkpoint.every", "iterations",
                  "Save the state so often, and at the end; 0 is never."},
                 RC_FIELD(checkpoint.every), {0}),
      IntegerKey({"checkpoint.keep", "", "Checkpoints to keep."}, RC_FIELD(checkpoint.keep), {1}),
  };
}

Keys LaunchAndLogKeys() {
  return {
      IntegerKey({"launch.agents", "",
                  "Agents, each standing for a host; pipelines are dealt to "
                  "them in turn."},
                 RC_FIELD(launch.agents), {1, kMostWorkersPerAxis}),
      BooleanKey({"launch.start_agents", "",
                  "`recycle train` starts the agents, all on its own machine; if not, `recycle "
                  "agent` starts each on its host."},
                 RC_FIELD(launch.start_agents)),
      IntegerKey({"launch.coordinators", "",
                  "Coordinators: one of them leads, the others take over when it is gone."},
                 RC_FIELD(launch.coordinators), {1, 9}),
      ListenKey(),
      RealKey(
          {"launch.grace_s", "s", "Time to finish the iteration after SIGTERM, SIGINT or SIGHUP."},
          RC_FIELD(launch.grace_s), {.least = 0, .most = 86'400}),
      RealKey({"launch.join_timeout_s", "s", "Time for all workers to join at the start."},
              RC_FIELD(launch.join_timeout_s), {.least = 1, .most = 86'400}),
      IntegerKey({"log.every", "iterations", "A line for people so often."}, RC_FIELD(log.every),
                 {1}),
      BooleanKey({"log.samples", "", "Write samples.jsonl: which worker trained on which samples."},
                 RC_FIELD(log.samples)),
      BooleanKey({"log.trace", "", "Write trace.json: every action as it was executed."},
                 RC_FIELD(log.trace)),
      BooleanKey({"log.profile", "",
                  "Write logs/profile-*: bytes held after every action, every frame sent. "
                  "`recycle profile` sets it."},
                 RC_FIELD(log.profile)),
  };
}

ConfigKey InjectKey() {
  const std::string path = "inject";
  const std::string rule = "a list of faults";
  const std::string example = "[\"kill 1:1 at F of iteration 20\"]";
  const auto read = [path, rule, example](const YAML::Node& value, JobConfig& config) -> Status {
    if (!value.IsSequence()) return BadValue(path, DescribeValue(value), rule, example);
    config.inject.clear();
    for (std::size_t i = 0; i < value.size(); ++i) {
      const std::string name = fmt::format("{}[{}]", path, i);
      RC_ASSIGN_OR_RETURN(const std::string text, ReadText(name, value[i], "a fault", example));
      const StatusOr<Fault> fault = ParseFault(text);
      if (!fault.ok()) {
        return {fault.status().code(), absl::StrCat(name, ": ", fault.status().message())};
      }
      config.inject.push_back(*fault);
    }
    return OkStatus();
  };
  const auto write = [](const JobConfig& config) {
    return "[" +
           absl::StrJoin(
               config.inject, ", ",
               [](std::string* out, const Fault& fault) { out->append(Quoted(ToString(fault))); }) +
           "]";
  };
  return {path, rule, "",   "Faults to inject, for tests and demonstrations (also --inject).",
          "",   read, write};
}

#undef RC_FIELD

Keys MakeConfigKeys() {
  Keys keys;
  const auto append = [&keys](Keys more) {
    std::move(more.begin(), more.end(), std::back_inserter(keys));
  };
  append(ModelKeys());
  append(DataKeys());
  append(ParallelAndBatchKeys());
  append(TrainKeys());
  append(OptimizerKeys());
  append(ScheduleKeys());
  append(ResilienceKeys());
  append(CheckpointKeys());
  append(DeviceKeys());
  append(LaunchAndLogKeys());
  append(SecurityKeys());
  keys.push_back(InjectKey());
  return keys;
}

}  // namespace

std::string ConfigKey::section() const {
  const std::size_t dot = path.find('.');
  return dot == std::string::npos ? "" : path.substr(0, dot);
}

std::string ConfigKey::name() const { return path.substr(path.find('.') + 1); }

const std::vector<ConfigKey>& ConfigKeys() {
  static const auto* const keys = new Keys(MakeConfigKeys());
  return *keys;
}

const ConfigKey* FindConfigKey(const std::string& path) {
  const std::vector<ConfigKey>& keys = ConfigKeys();
  const auto found = std::find_if(keys.begin(), keys.end(),
                                  [&path](const ConfigKey& key) { return key.path == path; });
  return found == keys.end() ? nullptr : &*found;
}

std::string NearestConfigKey(const std::string& path) {
  // The right name in the wrong section is the likelier slip than two typing errors.
  const std::string name = path.substr(path.find('.') + 1);
  std::vector<std::string_view> paths;
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.name() == name) return key.path;
    paths.emplace_back(key.path);
  }
  return std::string(NearestName(path, paths));
}

namespace {

std::string DefaultOf(const ConfigKey& key) {
  return key.required() ? key.example : key.write(JobConfig());
}

}  // namespace

std::string DefaultsAsYaml() {
  std::string yaml =
      "# Every key of a job with its default. Keys marked REQUIRED have none: they show an "
      "example.\n";
  std::string section;
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.section() != section) {
      section = key.section();
      if (!section.empty()) yaml += fmt::format("\n{}:\n", section);
    }
    const std::string indent = section.empty() ? "" : "  ";
    if (section.empty()) yaml += "\n";
    yaml += fmt::format("{}# {}{}\n{}# {}{}.\n{}{}: {}\n", indent,
                        key.required() ? "REQUIRED. " : "", key.meaning, indent, key.rule,
                        key.unit.empty() ? "" : fmt::format(" [{}]", key.unit), indent, key.name(),
                        DefaultOf(key));
  }
  return yaml;
}

std::string ConfigKeysAsMarkdown() {
  std::string text =
      "# Keys of a job\n\n"
      "<!-- Written by `recycle config --markdown`; a test compares the two. -->\n\n"
      "A job is a YAML file of sections. `recycle config --defaults` prints it with every key,\n"
      "`recycle config job.yaml` checks one and prints it with all defaults filled in, and\n"
      "`--set section.key=value` of `train` and `config` overrides a key. Relative paths count "
      "from\n"
      "the job file's folder. Unknown keys, wrong types and values whose feature is not built yet "
      "are\n"
      "refused with exit code 2 and a sentence that names the nearest valid choice.\n";
  std::string section = "?";
  for (const ConfigKey& key : ConfigKeys()) {
    if (key.section() != section) {
      section = key.section();
      text += fmt::format(
          "\n## {}\n\n| key | must be | unit | default | meaning |\n"
          "|---|---|---|---|---|\n",
          section.empty() ? "Without a section" : section);
    }
    text += fmt::format("| `{}` | {} | {} | {} | {} |\n", key.path, key.rule, key.unit,
                        key.required() ? fmt::format("required (such as `{}`)", key.example)
                                       : fmt::format("`{}`", DefaultOf(key)),
                        key.meaning);
  }
  return text;
}

}  // namespace recycle
