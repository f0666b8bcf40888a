#include "recycle/checkpoint/reshard.h"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <map>
#include <system_error>
#include <utility>
#include <vector>

#include "recycle/checkpoint/durable_file.h"
#include "recycle/checkpoint/shard.h"

namespace recycle {
namespace {

using Tensors = std::vector<ManifestTensor>;

// Whole layers in order, dealt to at most `num_groups` groups of about equal length.
std::vector<Tensors> Group(const Manifest& manifest, int num_groups) {
  std::map<int, Tensors> layers;
  for (const ManifestTensor& tensor : manifest.tensors) layers[tensor.layer].push_back(tensor);
  const auto most = static_cast<int>(layers.size());
  const int count = std::clamp(num_groups, 1, most);
  const double share = static_cast<double>(manifest.num_bytes()) / count;
  std::vector<Tensors> groups(1);
  double done = 0;
  int layers_left = most;
  for (const auto& [layer, tensors] : layers) {
    const auto made = static_cast<int>(groups.size());
    const bool full = done >= share * made;
    const bool needed = layers_left <= count - made;
    if (made < count && !groups.back().empty() && (full || needed)) groups.emplace_back();
    groups.back().insert(groups.back().end(), tensors.begin(), tensors.end());
    for (const ManifestTensor& tensor : tensors) done += static_cast<double>(tensor.num_bytes());
    --layers_left;
  }
  return groups;
}

StatusOr<ManifestFile> CopyGroup(const Checkpoint& source, const std::string& target,
                                 const Tensors& group) {
  std::vector<std::vector<std::byte>> buffers;
  std::vector<TensorRead> reads;
  std::vector<StateTensor> tensors;
  buffers.reserve(group.size());
  for (const ManifestTensor& tensor : group) {
    std::vector<std::byte>& buffer = buffers.emplace_back(tensor.num_bytes());
    reads.push_back({tensor, buffer});
    tensors.push_back({.name = tensor.name,
                       .dtype = tensor.dtype,
                       .shape = tensor.shape,
                       .layer = tensor.layer,
                       .bytes = buffer});
  }
  RC_RETURN_IF_ERROR(ReadTensors(source.path, reads));
  RC_ASSIGN_OR_RETURN(const ShardStamp stamp,
                      ReadStamp(source.path + "/" + source.manifest.files.front().name));
  return WriteShard(target + "/" + ShardName(stamp, tensors), stamp, tensors, {});
}

}  // namespace

StatusOr<Manifest> Reshard(const Checkpoint& source, const std::string& target, int num_files) {
  std::error_code error;
  if (std::filesystem::exists(target, error)) {
    return absl::AlreadyExistsError(
        fmt::format("'{}' is there already; name a folder that is not", target));
  }
  if (!std::filesystem::create_directories(target, error)) {
    return WriteError(target, error.value());
  }
  std::vector<ManifestFile> files;
  for (const Tensors& group : Group(source.manifest, num_files)) {
    RC_ASSIGN_OR_RETURN(ManifestFile file, CopyGroup(source, target, group));
    files.push_back(std::move(file));
  }
  RC_ASSIGN_OR_RETURN(Manifest manifest, DescribeShards(target, source.manifest, files));
  RC_RETURN_IF_ERROR(SealCheckpoint(target, manifest, [](CommitPoint) {}));
  return manifest;
}

}  // namespace recycle
