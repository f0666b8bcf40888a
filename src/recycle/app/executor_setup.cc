#include "recycle/app/executor_setup.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>

#include "recycle/app/event_writer.h"
#include "recycle/app/job_conversion.h"

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
  Json json;
  json["token_file"] = corpus.token_file;
  json["tokenizer_model"] = corpus.tokenizer_model;
  json["num_tokens"] = corpus.num_tokens;
  return WriteFileAtomically(folder.Corpus(), json.dump(2) + "\n");
}

StatusOr<PreparedCorpus> ReadCorpusFile(const RunFolder& folder) {
  RC_ASSIGN_OR_RETURN(const std::string text, ReadWholeFile(folder.Corpus()));
  try {
    const Json json = Json::parse(text);
    PreparedCorpus corpus;
    corpus.token_file = json.at("token_file");
    corpus.tokenizer_model = json.at("tokenizer_model");
    corpus.num_tokens = json.at("num_tokens");
    corpus.reused = true;
    return corpus;
  } catch (const Json::exception& error) {
    return absl::DataLossError(
        fmt::format("'{}' is damaged: {}; start a new run", folder.Corpus(), error.what()));
  }
}

StatusOr<ExecutorOptions> ExecutorOptionsOf(const JobConfig& config, const RunFolder& folder,
                                            WorkerId worker, int agent, int agent_pid) {
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
  options.optimizer = {.lr = config.optimizer.lr,
                       .beta1 = config.optimizer.beta1,
                       .beta2 = config.optimizer.beta2,
                       .weight_decay = config.optimizer.weight_decay,
                       .clip = config.optimizer.clip,
                       .cosine = config.optimizer.schedule == "cosine",
                       .warmup = config.optimizer.warmup,
                       .min_lr = config.optimizer.min_lr};
  options.token_file = corpus.token_file;
  options.validation_fraction = config.data.validation;
  options.heartbeat_interval = HeartbeatInterval(config);
  if (config.log.trace) options.trace_file = folder.TracePart(worker);
  options.faults = config.inject;
  options.fault_folder = folder.FaultFolder();
  options.agent = agent;
  options.agent_pid = agent_pid;
  return options;
}

}  // namespace recycle
