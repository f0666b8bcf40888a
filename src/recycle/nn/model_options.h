// The shape of a GPT-2-style decoder and the table of its parameters. No libtorch here: plans,
// checkpoints and command lines need names and sizes without a tensor.
//
// Layer 0 is the embedding (token + position), layers 1..num_blocks are pre-norm transformer
// blocks, layer num_blocks + 1 is the final norm, the head and the cross-entropy.
//
//   ModelOptions options{.num_blocks = 4, .hidden = 128, .heads = 4, .vocabulary = 4096};
//   RC_RETURN_IF_ERROR(options.Validate());
//   for (const std::string& name : CanonicalParameterNames(options)) ...
//
// Values and pure functions; thread-safe.
#ifndef RECYCLE_NN_MODEL_OPTIONS_H_
#define RECYCLE_NN_MODEL_OPTIONS_H_

#include <cstdint>
#include <string>
#include <vector>

#include "recycle/base/status.h"

namespace recycle {

struct ModelOptions {
  int num_blocks = 4;      // transformer blocks (model.layers), at least 1; 4
  int hidden = 128;        // width of the residual stream (model.hidden), at least 1; 128
  int heads = 4;           // attention heads (model.heads), a divisor of `hidden`; 4
  int sequence = 128;      // tokens per sample (model.sequence), at least 1; 128
  int vocabulary = 4096;   // distinct tokens (data.vocabulary), at least 2; 4096
  double dropout = 0.0;    // probability to drop an element (model.dropout), in [0, 1); 0
  bool tied = false;       // the head's weight is the token embedding (model.tied); false
  std::uint64_t seed = 0;  // keys initial values and dropout masks (train.seed)

  int num_layers() const { return num_blocks + 2; }

  // OK, or kInvalidArgument naming the key as in the config file, the value, the rule and the
  // nearest valid choice.
  Status Validate() const;
};

// What a parameter starts from.
enum class Initializer { kNormal, kResidualNormal, kZeros, kOnes };

struct ParameterSpec {
  std::string name;                 // layout-independent, e.g. "h.3.attn.qkv.weight"
  int layer = 0;                    // the layer that owns it
  std::vector<std::int64_t> shape;  // matrices are [out, in]
  Initializer initializer = Initializer::kZeros;

  std::int64_t NumElements() const;
  // Weight decay is for matrices (embeddings included), not for norms and biases.
  bool decay() const { return shape.size() > 1; }
};

// The parameters of layers [layer_begin, layer_end) in canonical order. With a tied head the token
// embedding belongs to layer 0 and, where the range has the head without layer 0, to the head too.
std::vector<ParameterSpec> ParameterSpecs(const ModelOptions& options, int layer_begin,
                                          int layer_end);

// All parameters in canonical order, each name once: the order of checksums and checkpoints.
std::vector<std::string> CanonicalParameterNames(const ModelOptions& options);

}  // namespace recycle

#endif  // RECYCLE_NN_MODEL_OPTIONS_H_
