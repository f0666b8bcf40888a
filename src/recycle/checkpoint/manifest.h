// What a checkpoint is: the list of its tensors and files, and of which training it is the state.
// manifest.json is the only thing that says which files of a folder count.
//
// The unit of state is the layer: its parameters and, for each, the optimizer's two moments, under
// names that no layout changes ("h.3.attn.qkv.weight", "first_moment.h.3.attn.qkv.weight").
//
//   RC_ASSIGN_OR_RETURN(const Manifest manifest, ManifestFromJson(text));
//
// Values and pure functions; thread-safe.
#ifndef RECYCLE_CHECKPOINT_MANIFEST_H_
#define RECYCLE_CHECKPOINT_MANIFEST_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/status.h"

namespace recycle {

// The optimizer's moments of a parameter are tensors called by these words and its name.
inline constexpr std::string_view kFirstMoment = "first_moment.";
inline constexpr std::string_view kSecondMoment = "second_moment.";

struct ManifestTensor {
  std::string name;
  std::string dtype;
  std::vector<std::int64_t> shape;
  int layer = 0;            // of the model, from 0
  std::string file;         // a name in the folder
  std::uint64_t begin = 0;  // bytes, from the beginning of the file
  std::uint64_t end = 0;
  std::string sha256;  // of its bytes
  bool operator==(const ManifestTensor&) const = default;
  std::uint64_t num_bytes() const { return end - begin; }
};

struct ManifestFile {
  std::string name;
  std::uint64_t bytes = 0;
  std::string sha256;
  bool operator==(const ManifestFile&) const = default;
};

struct Manifest {
  int iteration = 0;            // iterations done; the next one has this number from 0
  std::int64_t generation = 0;  // in which it was committed
  std::optional<double> loss;   // of the last iteration done, nats per token
  std::map<std::string, std::string>
      identity;  // keys of the job that must not change: key -> value
  std::vector<ManifestFile> files;
  std::vector<ManifestTensor> tensors;  // layer by layer; a parameter, then its moments
  bool operator==(const Manifest&) const = default;

  const ManifestTensor* FindTensor(std::string_view name) const;
  std::uint64_t num_bytes() const;  // of all tensors
};

// Hash of a state of tensors: SHA-256 over the lines "<name> NUL <hex digest>", in the given order.
class TensorListHash {
 public:
  void Add(std::string_view name, std::string_view sha256);
  std::string HexDigest() const;

 private:
  std::string lines_;
};

// Over all tensors of the manifest.
std::string StateSha256(const Manifest& manifest);
// Over the parameters alone: what summary.json of a run calls parameters_sha256.
std::string ParametersSha256(const Manifest& manifest);

std::string ManifestToJson(const Manifest& manifest);

// Error: kDataLoss with the rule that is broken: not the format, another format number, a tensor
// outside its file, a name that is there twice or is a path, or hashes that do not fit together.
StatusOr<Manifest> ManifestFromJson(std::string_view text);

}  // namespace recycle

#endif  // RECYCLE_CHECKPOINT_MANIFEST_H_
