// A shard: one safetensors file with the state of some whole layers. It describes itself: the
// layer and the SHA-256 of every tensor stand in its metadata, so a manifest is made of headers.
//
//   RC_ASSIGN_OR_RETURN(const ManifestFile file, WriteShard(path, {40, 3}, tensors, {}));
//   RC_ASSIGN_OR_RETURN(const std::vector<ManifestTensor> list, DescribeShard(path));
//   RC_RETURN_IF_ERROR(ReadTensors(folder, {{list[0], destination}}));
//
// Functions on files; thread-safe for different files.
#ifndef RECYCLE_CHECKPOINT_SHARD_H_
#define RECYCLE_CHECKPOINT_SHARD_H_

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/checkpoint/manifest.h"

namespace recycle {

struct StateTensor {
  std::string name;
  std::string dtype = "F32";
  std::vector<std::int64_t> shape;
  int layer = 0;
  std::span<const std::byte> bytes;  // of dtype and shape
};

// Of what a shard is the state. The generation keeps a writer that was frozen and woke from
// mixing its file with those of the living.
struct ShardStamp {
  int iteration = 0;
  std::int64_t generation = 0;
  // Of the whole gradient of the last step, if known.
  std::optional<double> squared_norm = std::nullopt;
};

// "layers-00003-00005.g2.safetensors", for layers 3 to 5.
std::string ShardName(const ShardStamp& stamp, const std::vector<StateTensor>& tensors);

// Called on the way; empty functions are allowed to be left out.
struct ShardHooks {
  std::function<void()> half_written = [] {};
  std::function<void()> before_rename = [] {};
};

// Writes a shard durably, in the order of `tensors`. Errors as DurableFile::Commit.
StatusOr<ManifestFile> WriteShard(const std::string& path, const ShardStamp& stamp,
                                  const std::vector<StateTensor>& tensors, const ShardHooks& hooks);

// The tensors of a shard, out of its header alone; `file` is the last part of `path`. Errors:
// kNotFound, kDataLoss.
StatusOr<std::vector<ManifestTensor>> DescribeShard(const std::string& path);

// Out of its header. Errors as above.
StatusOr<ShardStamp> ReadStamp(const std::string& path);

// A tensor to read, and where to: exactly its bytes.
struct TensorRead {
  ManifestTensor tensor;
  std::span<std::byte> destination;
};

// Reads the byte ranges of the given tensors and nothing else of the files in `folder`, and
// compares each with its hash. Errors: kNotFound; kDataLoss naming file and tensor.
Status ReadTensors(const std::string& folder, const std::vector<TensorRead>& reads);

// Compares a file of `folder` with its entry in the manifest, length and hash. Errors as above.
Status VerifyFile(const std::string& folder, const ManifestFile& file);

}  // namespace recycle

#endif  // RECYCLE_CHECKPOINT_SHARD_H_
