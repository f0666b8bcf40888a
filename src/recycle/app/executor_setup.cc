#include "recycle/app/executor_setup.h"

#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <nlohmann/json.hpp>

#include "recycle/app/child_process.h"
#include "recycle/app/commands.h"
#include "recycle/app/corpus_process.h"
#include "recycle/app/event_writer.h"
#include "recycle/app/job_conversion.h"
#include "recycle/app/report_error.h"
#include "recycle/app/snapshot_budget.h"
#include "recycle/base/file.h"

namespace recycle {

ModelOptions ModelOptionsOf(const JobConfig& config) {
  return ModelOptions{.num_blocks = config.model.layers,
                      .hidden = config.model.hidden,
                      .heads = config.model.heads,
                      .sequence = config.model.sequence,
                      .vocabulary = config.data.vocabulary,
                      .dropout = config.model.dropout,
                      .tied = config.model.tied,
                      .seed = config.train.seed};
}

std::chrono::milliseconds HeartbeatInterval(const JobConfig& config) {
  return std::chrono::milliseconds(std::clamp(config.resilience.failure_timeout_ms / 10, 1, 200));
}

Status WriteCorpusFile(const PreparedCorpus& corpus, const RunFolder& folder) {
  return WriteFileAtomically(folder.Corpus(), ToJson(corpus).dump(2) + "\n");
}

StatusOr<PreparedCorpus> ReadCorpusFile(const RunFolder& folder) {
  RC_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(folder.Corpus()));
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  StatusOr<PreparedCorpus> corpus = PreparedCorpusFromJson(json);
  if (corpus.ok()) return corpus;
  return absl::DataLossError(fmt::format("'{}' is damaged: {}; start a new run", folder.Corpus(),
                                         std::string(corpus.status().message())));
}

std::vector<std::pair<std::string, std::string>> OneThreadEnvironment() {
  return {{"OMP_NUM_THREADS", "1"}, {"OPENBLAS_NUM_THREADS", "1"}};
}

StatusOr<ExecutorOptions> ExecutorOptionsOf(const JobConfig& config, const RunFolder& folder,
                                            WorkerId worker, const ExecutorHome& home) {
  RC_ASSIGN_OR_RETURN(const PreparedCorpus corpus, ReadCorpusFile(folder));
  RC_ASSIGN_OR_RETURN(std::vector<LayerRange> layers, LayersOf(config));
  ExecutorOptions options;
  options.worker = worker;
  options.parallel = ParallelismOf(config);
  options.micro_batches = config.batch.micro_batches;
  options.micro_batch_size = config.batch.micro_batch_size;
  options.iterations = config.train.iterations;
  options.validate_every = config.train.validate_every;
  options.seed = config.train.seed;
  options.model = ModelOptionsOf(config);
  options.layers = std::move(layers);
  options.bind_address = home.listen.empty() ? config.launch.listen : home.listen;
  options.optimizer = {.lr = config.optimizer.lr,
                       .beta1 = config.optimizer.beta1,
                       .beta2 = config.optimizer.beta2,
                       .weight_decay = config.optimizer.weight_decay,
                       .clip = config.optimizer.clip,
                       .cosine = config.optimizer.schedule == "cosine",
                       .warmup = config.optimizer.warmup,
                       .min_lr = config.optimizer.min_lr};
  options.reproducible = config.train.reproducible;
  options.exact_rollback = config.schedule.rollback == "exact";
  options.token_file = corpus.token_file;
  options.validation_fraction = config.data.validation;
  options.heartbeat_interval = HeartbeatInterval(config);
  options.log_bytes = config.resilience.log_bytes;
  options.compare_every = config.resilience.compare_every;
  options.log_folder = folder.root();
  options.copy_bytes_per_second = config.resilience.copy_mb_per_s.value_or(0) * 1e6;
  options.snapshot_every = SnapshotEvery(config);
  options.checkpoint_every = config.checkpoint.every;
  options.checkpoint_folder = folder.Checkpoints();
  if (config.log.trace) options.trace_file = folder.TracePart(worker);
  options.measure_costs = config.schedule.measure;
  if (config.device.is_paced()) {
    RC_ASSIGN_OR_RETURN(CostProfile costs, PacedCostsOf(config));
    options.pace = Pace{.time_scale = config.device.time_scale, .costs = std::move(costs)};
  }
  if (config.log.profile) options.profile_file = folder.ProfilePart(worker);
  options.faults = config.inject;
  options.fault_folder = folder.FaultFolder();
  options.agent = home.agent;
  options.agent_pid = home.agent_pid;
  options.launcher_pid = home.launcher_pid;
  return options;
}

int RunExecutorProcess(const ExecutorArguments& arguments) {
  for (const auto& [name, value] : OneThreadEnvironment()) setenv(name.c_str(), value.c_str(), 1);
  std::vector<std::string> words = {ProgramFolder() + "/recycle-executor", "run"};
  words.insert(words.end(), arguments.arguments.begin(), arguments.arguments.end());
  std::vector<char*> argv;
  argv.reserve(words.size() + 1);
  for (std::string& word : words) argv.push_back(word.data());
  argv.push_back(nullptr);
  execv(argv[0], argv.data());
  return ReportError(absl::NotFoundError(fmt::format(
      "program '{}' cannot be started ({}); build it first", words[0], std::strerror(errno))));
}

}  // namespace recycle
