#include "recycle/executor/checkpoint_writer.h"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <cstring>
#include <utility>

#include "recycle/base/log.h"

namespace recycle {
namespace {

// Of the job's whole model, a parameter that two stages hold is written by the first of them.
bool IsWrittenElsewhere(const Parameter& parameter, WorkerId self) {
  return parameter.tied && self.stage.value() != 0;
}

}  // namespace

LayerRange ShareOfLayers(const LayerRange& stage_layers, WorkerId self,
                         const std::vector<WorkerId>& members) {
  std::vector<WorkerId> peers;
  std::copy_if(members.begin(), members.end(), std::back_inserter(peers),
               [&](WorkerId member) { return member.stage == self.stage; });
  std::sort(peers.begin(), peers.end());
  const auto count = static_cast<int>(peers.size());
  const auto place =
      static_cast<int>(std::lower_bound(peers.begin(), peers.end(), self) - peers.begin());
  const int layers = stage_layers.end - stage_layers.begin;
  return {stage_layers.begin + layers * place / count,
          stage_layers.begin + layers * (place + 1) / count};
}

CheckpointWriter::CheckpointWriter(const ExecutorOptions& options, ControlLink& control,
                                   FaultInjector& injector)
    : options_(options),
      control_(control),
      injector_(injector),
      folder_(options.checkpoint_folder),
      thread_([this] { Loop(); }) {}

CheckpointWriter::~CheckpointWriter() {
  {
    const std::lock_guard lock(mutex_);
    stopping_ = true;
    changed_.notify_all();
  }
  thread_.join();
}

bool CheckpointWriter::IsDue(const OptimizerStep& step) const {
  const int every = options_.checkpoint_every;
  const int version = step.version();
  if (every == 0 || version == 0 || version == restored_) return false;
  return version % every == 0 || version == options_.iterations || step.stop_agreed();
}

void CheckpointWriter::Save(Generation generation, const std::vector<WorkerId>& members,
                            OptimizerStep& step) {
  if (!IsDue(step) || (saved_ == step.version() && saved_in_ == generation)) return;
  saved_ = step.version();
  saved_in_ = generation;
  const LayerRange& own = options_.layers[static_cast<std::size_t>(options_.worker.stage.value())];
  const LayerRange layers = ShareOfLayers(own, options_.worker, members);
  if (layers.begin == layers.end) return;
  Flush();
  Share share = Copy(generation, layers, step);
  const std::lock_guard lock(mutex_);
  share_ = std::move(share);
  changed_.notify_all();
}

Status CheckpointWriter::AwaitBeforeStep(int version, const std::function<bool()>& interrupted) {
  // An interruption gives no notice here; it is looked for now and then.
  constexpr std::chrono::milliseconds kLook{5};
  std::unique_lock lock(mutex_);
  while (share_.has_value() && share_->stamp.iteration < version) {
    if (interrupted()) return absl::AbortedError("interrupted while a checkpoint is written");
    changed_.wait_for(lock, kLook);
  }
  return OkStatus();
}

void CheckpointWriter::Flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !share_.has_value(); });
}

CheckpointWriter::Share CheckpointWriter::Copy(Generation generation, const LayerRange& layers,
                                               OptimizerStep& step) const {
  Share share{.stamp = {.iteration = step.version(),
                        .generation = generation.value(),
                        .squared_norm = step.final_squared_norm()},
              .layers = layers,
              .numbers = {},
              .tensors = {}};
  struct Source {
    std::string name;
    const Parameter* parameter;
    std::span<const float> numbers;
  };
  std::vector<Source> sources;
  std::size_t total = 0;
  const std::vector<ParameterState> states = step.state();
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Parameter& parameter = step.parameters()[i];
    const bool is_own = parameter.layer >= layers.begin && parameter.layer < layers.end;
    if (!is_own || IsWrittenElsewhere(parameter, options_.worker)) continue;
    sources.push_back({parameter.name, &parameter, states[i].value});
    sources.push_back({std::string(kFirstMoment) + parameter.name, &parameter, states[i].first});
    sources.push_back({std::string(kSecondMoment) + parameter.name, &parameter, states[i].second});
    total += 3 * states[i].value.size_bytes();
  }
  share.numbers.resize(total);
  std::size_t offset = 0;
  for (const Source& source : sources) {
    const std::span<std::byte> place(share.numbers.data() + offset, source.numbers.size_bytes());
    std::memcpy(place.data(), source.numbers.data(), place.size());
    offset += place.size();
    share.tensors.push_back({.name = source.name,
                             .shape = source.parameter->value.sizes().vec(),
                             .layer = source.parameter->layer,
                             .bytes = place});
  }
  return share;
}

void CheckpointWriter::Loop() {
  std::unique_lock lock(mutex_);
  for (;;) {
    changed_.wait(lock, [this] { return stopping_ || share_.has_value(); });
    if (!share_.has_value()) return;
    lock.unlock();
    const StatusOr<ManifestFile> file = Write(*share_);
    ShardWritten report{.generation = Generation(share_->stamp.generation),
                        .version = share_->stamp.iteration,
                        .layer_begin = share_->layers.begin,
                        .layer_end = share_->layers.end,
                        .file = "",
                        .bytes = 0,
                        .sha256 = "",
                        .error = ""};
    if (file.ok()) {
      report.file = file->name;
      report.bytes = static_cast<std::int64_t>(file->bytes);
      report.sha256 = file->sha256;
    } else {
      report.error = std::string(file.status().message());
      LogWarning("no shard of the checkpoint of iteration {}: {}", report.version, report.error);
    }
    control_.Send(report);
    lock.lock();
    share_.reset();
    changed_.notify_all();
  }
}

StatusOr<ManifestFile> CheckpointWriter::Write(const Share& share) {
  RC_RETURN_IF_ERROR(folder_.Create(share.stamp.iteration));
  const int iteration = share.stamp.iteration - 1;
  return WriteShard(
      folder_.Path(share.stamp.iteration) + "/" + ShardName(share.stamp, share.tensors),
      share.stamp, share.tensors,
      {.half_written = [&] { injector_.At(FaultPoint::kCheckpoint, iteration); },
       .before_rename = [&] { injector_.At(FaultPoint::kCheckpointRename, iteration); }});
}

}  // namespace recycle
