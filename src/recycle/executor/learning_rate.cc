#include "recycle/executor/learning_rate.h"

#include <algorithm>
#include <cmath>
#include <numbers>

namespace recycle {

double LearningRate(const OptimizerOptions& options, int iterations, int iteration) {
  if (iteration < options.warmup) {
    return options.lr * static_cast<double>(iteration + 1) / static_cast<double>(options.warmup);
  }
  if (!options.cosine) return options.lr;
  const double length = std::max(1, iterations - options.warmup);
  const double progress = std::min(1.0, static_cast<double>(iteration - options.warmup) / length);
  const double share = 0.5 * (1.0 + std::cos(std::numbers::pi * progress));
  return options.min_lr + share * (options.lr - options.min_lr);
}

}  // namespace recycle
