#include "recycle/nn/model_options.h"

#include <fmt/format.h>

#include <functional>
#include <numeric>

#include "recycle/base/check.h"

namespace recycle {
namespace {

Status CheckAtLeast(const char* key, int value, int least) {
  if (value >= least) return OkStatus();
  return absl::InvalidArgumentError(
      fmt::format("{} is {}: it must be at least {}; the nearest valid choice is {}", key, value,
                  least, least));
}

// The divisors of `hidden` on both sides of `heads`, as text.
std::string NearestDivisors(int hidden, int heads) {
  int below = heads < hidden ? heads : hidden;
  while (below > 1 && hidden % below != 0) --below;
  if (below < 1) below = 1;
  int above = heads < 1 ? 1 : heads;
  while (above < hidden && hidden % above != 0) ++above;
  if (above > hidden || above == below) return fmt::format("the nearest valid choice is {}", below);
  return fmt::format("the nearest valid choices are {} and {}", below, above);
}

ParameterSpec Matrix(std::string name, int layer, std::int64_t rows, std::int64_t columns,
                     Initializer initializer = Initializer::kNormal) {
  return {std::move(name), layer, {rows, columns}, initializer};
}

void AppendNorm(const std::string& name, int layer, std::int64_t width,
                std::vector<ParameterSpec>& specs) {
  specs.push_back({name + ".weight", layer, {width}, Initializer::kOnes});
  specs.push_back({name + ".bias", layer, {width}, Initializer::kZeros});
}

void AppendLinear(const std::string& name, int layer, std::int64_t out, std::int64_t in,
                  Initializer initializer, std::vector<ParameterSpec>& specs) {
  specs.push_back(Matrix(name + ".weight", layer, out, in, initializer));
  specs.push_back({name + ".bias", layer, {out}, Initializer::kZeros});
}

void AppendBlock(const ModelOptions& options, int layer, std::vector<ParameterSpec>& specs) {
  const std::int64_t width = options.hidden;
  const std::string prefix = fmt::format("h.{}.", layer - 1);
  AppendNorm(prefix + "ln_1", layer, width, specs);
  AppendLinear(prefix + "attn.qkv", layer, 3 * width, width, Initializer::kNormal, specs);
  AppendLinear(prefix + "attn.proj", layer, width, width, Initializer::kResidualNormal, specs);
  AppendNorm(prefix + "ln_2", layer, width, specs);
  AppendLinear(prefix + "mlp.fc", layer, 4 * width, width, Initializer::kNormal, specs);
  AppendLinear(prefix + "mlp.proj", layer, width, 4 * width, Initializer::kResidualNormal, specs);
}

}  // namespace

Status ModelOptions::Validate() const {
  RC_RETURN_IF_ERROR(CheckAtLeast("model.layers", num_blocks, 1));
  RC_RETURN_IF_ERROR(CheckAtLeast("model.hidden", hidden, 1));
  RC_RETURN_IF_ERROR(CheckAtLeast("model.sequence", sequence, 1));
  RC_RETURN_IF_ERROR(CheckAtLeast("data.vocabulary", vocabulary, 2));
  if (heads < 1 || hidden % heads != 0) {
    return absl::InvalidArgumentError(
        fmt::format("model.heads is {}: it must divide model.hidden ({}); {}", heads, hidden,
                    NearestDivisors(hidden, heads)));
  }
  if (!(dropout >= 0.0 && dropout < 1.0)) {
    return absl::InvalidArgumentError(fmt::format(
        "model.dropout is {}: it must be at least 0 and below 1; the nearest valid choice is {}",
        dropout, dropout >= 1.0 ? "0.99" : "0"));
  }
  return OkStatus();
}

std::int64_t ParameterSpec::NumElements() const {
  return std::accumulate(shape.begin(), shape.end(), std::int64_t{1}, std::multiplies<>());
}

std::vector<ParameterSpec> ParameterSpecs(const ModelOptions& options, int layer_begin,
                                          int layer_end) {
  const int head_layer = options.num_layers() - 1;
  RC_CHECK(0 <= layer_begin && layer_begin < layer_end && layer_end <= options.num_layers())
      << "layers [" << layer_begin << ", " << layer_end << ") of " << options.num_layers();
  std::vector<ParameterSpec> specs;
  for (int layer = layer_begin; layer < layer_end; ++layer) {
    if (layer == 0) {
      specs.push_back(Matrix("wte.weight", layer, options.vocabulary, options.hidden));
      specs.push_back(Matrix("wpe.weight", layer, options.sequence, options.hidden));
    } else if (layer < head_layer) {
      AppendBlock(options, layer, specs);
    } else {
      AppendNorm("ln_f", layer, options.hidden, specs);
      if (!options.tied) {
        specs.push_back(Matrix("head.weight", layer, options.vocabulary, options.hidden));
      } else if (layer_begin > 0) {
        specs.push_back(Matrix("wte.weight", layer, options.vocabulary, options.hidden));
      }
    }
  }
  return specs;
}

std::vector<std::string> CanonicalParameterNames(const ModelOptions& options) {
  std::vector<std::string> names;
  for (ParameterSpec& spec : ParameterSpecs(options, 0, options.num_layers())) {
    names.push_back(std::move(spec.name));
  }
  return names;
}

}  // namespace recycle
