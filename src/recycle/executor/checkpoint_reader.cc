#include "recycle/executor/checkpoint_reader.h"

#include <fmt/format.h>

#include <vector>

#include "recycle/checkpoint/checkpoint_folder.h"
#include "recycle/checkpoint/shard.h"

namespace recycle {
namespace {

// Where the numbers of a tensor of the checkpoint go.
StatusOr<TensorRead> FindTensorFor(const Checkpoint& checkpoint, const std::string& name,
                                   const Parameter& parameter, std::span<float> destination) {
  const ManifestTensor* const tensor = checkpoint.manifest.FindTensor(name);
  if (tensor == nullptr) {
    return absl::DataLossError(
        fmt::format("checkpoint '{}' has no tensor '{}'", checkpoint.path, name));
  }
  if (tensor->dtype != "F32" || tensor->shape != parameter.value.sizes().vec()) {
    return absl::DataLossError(
        fmt::format("tensor '{}' of checkpoint '{}' is {} [{}], but the model needs F32 [{}]", name,
                    checkpoint.path, tensor->dtype, fmt::join(tensor->shape, ", "),
                    fmt::join(parameter.value.sizes().vec(), ", ")));
  }
  return TensorRead{*tensor, std::as_writable_bytes(destination)};
}

}  // namespace

StatusOr<std::optional<double>> LoadState(const std::string& path, OptimizerStep& step) {
  RC_ASSIGN_OR_RETURN(const Checkpoint checkpoint, OpenCheckpoint(path));
  std::vector<TensorRead> reads;
  const std::vector<ParameterState> states = step.state();
  for (std::size_t i = 0; i < states.size(); ++i) {
    const Parameter& parameter = step.parameters()[i];
    for (const auto& [prefix, numbers] :
         {std::pair(std::string_view(), states[i].value), std::pair(kFirstMoment, states[i].first),
          std::pair(kSecondMoment, states[i].second)}) {
      RC_ASSIGN_OR_RETURN(
          const TensorRead read,
          FindTensorFor(checkpoint, std::string(prefix) + parameter.name, parameter, numbers));
      reads.push_back(read);
    }
  }
  RC_RETURN_IF_ERROR(ReadTensors(path, reads));
  if (checkpoint.manifest.files.empty()) return std::optional<double>();
  RC_ASSIGN_OR_RETURN(const ShardStamp stamp,
                      ReadStamp(path + "/" + checkpoint.manifest.files.front().name));
  return stamp.squared_norm;
}

}  // namespace recycle
