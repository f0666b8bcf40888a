#include "recycle/plan/model_shape.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <limits>

#include "recycle/base/check.h"

namespace recycle {
namespace {

constexpr double kBytes = 4;  // fp32

double Tokens(const ModelShape& shape) {
  return static_cast<double>(shape.micro_batch_size) * shape.sequence;
}

// Memory of `kept` floats from F to I and `deferred` from I to W. Gradients kept for W can outweigh
// the activations I frees; a plan knows memory only to shrink at I, so F then takes it all at once.
void SetMemory(LayerCosts& costs, double kept, double deferred) {
  costs.deferred_bytes = kBytes * deferred;
  costs.activation_bytes = kBytes * std::max(kept, deferred);
}

// A lookup: F reads and adds two rows a token, W adds one gradient row to each; there is no input
// to differentiate for.
LayerCosts EmbeddingCosts(const ModelShape& shape) {
  const double rows = Tokens(shape) * shape.hidden;
  LayerCosts costs;
  costs.forward_flops = rows;
  costs.backward_weight_flops = 2 * rows;
  const double tokens = 2 * Tokens(shape);  // of 8 bytes
  SetMemory(costs, tokens, tokens + rows);
  costs.parameters = (std::int64_t{shape.vocabulary} + shape.sequence) * shape.hidden;
  return costs;
}

// Per token, H = hidden, T = sequence: qkv 3H x H, projection H x H, MLP H x 4H and 4H x H, so 12
// H^2 weights, two FLOPs each; scores and mixing 2 T H each, twice that in I; attention has no
// weights.
LayerCosts BlockCosts(const ModelShape& shape) {
  const double tokens = Tokens(shape);
  const double hidden = shape.hidden;
  const double matrices = 24 * tokens * hidden * hidden;
  const double attention = 4 * tokens * hidden * shape.sequence;
  LayerCosts costs;
  costs.forward_flops = matrices + attention;
  costs.backward_input_flops = matrices + 2 * attention;
  costs.backward_weight_flops = matrices;
  // F keeps the inputs of both norms (2H), of the four matrices (7H), q, k, v (3H), the value
  // before GELU (4H) and the attention's weights; W needs the inputs of the matrices (7H) and the
  // gradients of their outputs (9H); those of the norms' weights are made in I, where both are at
  // hand.
  const double scores = static_cast<double>(shape.heads) * shape.sequence;
  SetMemory(costs, tokens * (16 * hidden + scores), tokens * 16 * hidden);
  costs.parameters =
      std::int64_t{12} * shape.hidden * shape.hidden + std::int64_t{13} * shape.hidden;
  return costs;
}

// One matrix H x V and the softmax, about five FLOPs a logit.
LayerCosts HeadCosts(const ModelShape& shape) {
  const double tokens = Tokens(shape);
  const double hidden = shape.hidden;
  const double vocabulary = shape.vocabulary;
  const double matrix = 2 * tokens * hidden * vocabulary;
  LayerCosts costs;
  costs.forward_flops = matrix + 5 * tokens * vocabulary;
  costs.backward_input_flops = matrix + 2 * tokens * vocabulary;
  costs.backward_weight_flops = matrix;
  SetMemory(costs, tokens * (2 * hidden + vocabulary), tokens * (hidden + vocabulary));
  costs.parameters = 2 * std::int64_t{shape.hidden};
  if (!shape.tied) costs.parameters += std::int64_t{shape.hidden} * shape.vocabulary;
  return costs;
}

double TotalFlops(const LayerCosts& layer) {
  return layer.forward_flops + layer.backward_input_flops + layer.backward_weight_flops;
}

// Finds splits of layers [0, n) by their cost.
class Splitter {
 public:
  explicit Splitter(const std::vector<LayerCosts>& layers) : sums_(1, 0.0) {
    for (const LayerCosts& layer : layers) sums_.push_back(sums_.back() + TotalFlops(layer));
  }

  // The least possible cost of the most expensive of `num_stages` stages.
  double Bottleneck(int num_stages) const {
    std::vector<double> best(sums_.size(), std::numeric_limits<double>::infinity());
    best[0] = 0;
    for (int stage = 0; stage < num_stages; ++stage) {
      std::vector<double> next(sums_.size(), std::numeric_limits<double>::infinity());
      for (std::size_t end = 1; end < sums_.size(); ++end) {
        for (std::size_t begin = 0; begin < end; ++begin) {
          next[end] = std::min(next[end], std::max(best[begin], Cost(begin, end)));
        }
      }
      best = std::move(next);
    }
    return best.back();
  }

  // Among the splits no stage of which costs more than `limit`, the one with the least sum of
  // squares: the most even one.
  std::vector<LayerRange> Evenest(int num_stages, double limit) const {
    const std::size_t size = sums_.size();
    std::vector<double> best(size, std::numeric_limits<double>::infinity());
    best[0] = 0;
    std::vector<std::vector<std::size_t>> begins;
    for (int stage = 0; stage < num_stages; ++stage) {
      std::vector<double> next(size, std::numeric_limits<double>::infinity());
      std::vector<std::size_t>& choice = begins.emplace_back(size, 0);
      for (std::size_t end = 1; end < size; ++end) {
        for (std::size_t begin = 0; begin < end; ++begin) {
          const double cost = Cost(begin, end);
          const double sum = best[begin] + cost * cost;
          if (cost > limit || sum >= next[end]) continue;
          next[end] = sum;
          choice[end] = begin;
        }
      }
      best = std::move(next);
    }
    std::vector<LayerRange> ranges(static_cast<std::size_t>(num_stages));
    std::size_t end = size - 1;
    for (std::size_t stage = ranges.size(); stage-- > 0;) {
      const std::size_t begin = begins[stage][end];
      ranges[stage] = {static_cast<int>(begin), static_cast<int>(end)};
      end = begin;
    }
    return ranges;
  }

 private:
  double Cost(std::size_t begin, std::size_t end) const { return sums_[end] - sums_[begin]; }

  std::vector<double> sums_;  // FLOPs of the layers before
};

Ticks ComputeTime(double flops, double flops_per_second) {
  constexpr double kMaxMs = 9e6;
  const double ms = std::min(flops / flops_per_second * 1e3, kMaxMs);
  return std::llround(ms * static_cast<double>(kTicksPerUnit));
}

}  // namespace

std::vector<LayerCosts> ComputeLayerCosts(const ModelShape& shape) {
  std::vector<LayerCosts> layers{EmbeddingCosts(shape)};
  layers.insert(layers.end(), static_cast<std::size_t>(shape.num_blocks), BlockCosts(shape));
  layers.push_back(HeadCosts(shape));
  return layers;
}

StatusOr<std::vector<LayerRange>> SplitLayers(const ModelShape& shape, int num_stages) {
  if (num_stages < 1 || num_stages > shape.num_blocks) {
    return absl::InvalidArgumentError(
        fmt::format("{} stages for a model of {} blocks: must be from 1 to the number of blocks",
                    num_stages, shape.num_blocks));
  }
  const Splitter splitter(ComputeLayerCosts(shape));
  return splitter.Evenest(num_stages, splitter.Bottleneck(num_stages));
}

CostProfile CostsFromShape(const ModelShape& shape, const std::vector<LayerRange>& stages,
                           double flops_per_second) {
  RC_CHECK(flops_per_second > 0 && !stages.empty()) << flops_per_second;
  constexpr double kOptimizerFlops = 12;  // AdamW, per parameter
  const std::vector<LayerCosts> layers = ComputeLayerCosts(shape);
  CostProfile profile;
  for (const LayerRange& range : stages) {
    RC_CHECK(0 <= range.begin && range.begin < range.end && range.end <= shape.num_layers())
        << range.begin << " to " << range.end;
    LayerCosts sum;
    for (int layer = range.begin; layer < range.end; ++layer) {
      const LayerCosts& costs = layers[static_cast<std::size_t>(layer)];
      sum.forward_flops += costs.forward_flops;
      sum.backward_input_flops += costs.backward_input_flops;
      sum.backward_weight_flops += costs.backward_weight_flops;
      sum.activation_bytes += costs.activation_bytes;
      sum.deferred_bytes += costs.deferred_bytes;
      sum.parameters += costs.parameters;
    }
    const bool borrows_embedding = shape.tied && range.begin > 0 && range.end == shape.num_layers();
    if (borrows_embedding) sum.parameters += std::int64_t{shape.vocabulary} * shape.hidden;
    const double parameters = static_cast<double>(sum.parameters);
    StageCosts stage;
    stage.forward = ComputeTime(sum.forward_flops, flops_per_second);
    stage.backward_input = ComputeTime(sum.backward_input_flops, flops_per_second);
    stage.backward_weight = ComputeTime(sum.backward_weight_flops, flops_per_second);
    stage.optimizer = ComputeTime(kOptimizerFlops * parameters, flops_per_second);
    stage.activation_bytes = sum.activation_bytes;
    stage.deferred_bytes = sum.deferred_bytes;
    stage.boundary_bytes = kBytes * Tokens(shape) * shape.hidden;
    stage.parameter_bytes = kBytes * parameters;
    stage.state_bytes = 3 * kBytes * parameters;
    profile.stages.push_back(stage);
  }
  profile.send_forward.assign(stages.size() - 1, 0);
  profile.send_backward.assign(stages.size() - 1, 0);
  return profile;
}

}  // namespace recycle
