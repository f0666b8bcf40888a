#include "recycle/executor/adamw.h"

#include <fmt/format.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <span>
#include <vector>

#include "recycle/base/prng.h"

namespace recycle {
namespace {

std::vector<float> RandomValues(Prng& prng, std::size_t count) {
  std::vector<float> values(count);
  for (float& value : values) value = static_cast<float>(prng.Uniform() * 2.0 - 1.0);
  return values;
}

// The paper's algorithm 2, element by element in double precision.
class Oracle {
 public:
  Oracle(const OptimizerOptions& options, const std::vector<float>& value, bool decay)
      : options_(options), decay_(decay), value_(value.begin(), value.end()) {
    first_.resize(value.size());
    second_.resize(value.size());
  }

  void Step(const AdamWStep& step, const std::vector<float>& gradient) {
    for (std::size_t i = 0; i < value_.size(); ++i) {
      const double g = static_cast<double>(gradient[i]) * step.gradient_scale;
      first_[i] = options_.beta1 * first_[i] + (1 - options_.beta1) * g;
      second_[i] = options_.beta2 * second_[i] + (1 - options_.beta2) * g * g;
      const double first = first_[i] / (1 - std::pow(options_.beta1, step.step));
      const double second = second_[i] / (1 - std::pow(options_.beta2, step.step));
      if (decay_) value_[i] -= step.lr * options_.weight_decay * value_[i];
      value_[i] -= step.lr * first / (std::sqrt(second) + options_.epsilon);
    }
  }

  const std::vector<double>& value() const { return value_; }

 private:
  const OptimizerOptions options_;
  const bool decay_;
  std::vector<double> value_;
  std::vector<double> first_;
  std::vector<double> second_;
};

TEST(AdamW, FollowsTheFormulaWithAndWithoutDecay) {
  Prng prng(7);
  OptimizerOptions options;
  std::vector<float> matrix = RandomValues(prng, 1001);
  std::vector<float> bias = RandomValues(prng, 3);
  Oracle matrix_oracle(options, matrix, true);
  Oracle bias_oracle(options, bias, false);
  AdamW optimizer(options, {{matrix, true}, {bias, false}});
  for (int step = 1; step <= 20; ++step) {
    const AdamWStep now{.step = step, .lr = 0.01 * step, .gradient_scale = 0.5};
    const std::vector<float> matrix_gradient = RandomValues(prng, matrix.size());
    const std::vector<float> bias_gradient = RandomValues(prng, bias.size());
    std::vector<int> done;
    optimizer.Step(now, {matrix_gradient, bias_gradient}, [&](int i) { done.push_back(i); });
    EXPECT_EQ(done, (std::vector<int>{1, 2}));
    matrix_oracle.Step(now, matrix_gradient);
    bias_oracle.Step(now, bias_gradient);
  }
  for (std::size_t i = 0; i < matrix.size(); ++i) {
    EXPECT_NEAR(matrix[i], matrix_oracle.value()[i], 2e-5) << i;
  }
  for (std::size_t i = 0; i < bias.size(); ++i) {
    EXPECT_NEAR(bias[i], bias_oracle.value()[i], 2e-5) << i;
  }
}

// Largest |a - b| over the largest |b|.
double RelativeError(std::span<const float> a, std::span<const float> b) {
  double error = 0;
  double most = 0;
  for (std::size_t i = 0; i < b.size(); ++i) {
    error = std::max(error, std::abs(static_cast<double>(a[i]) - static_cast<double>(b[i])));
    most = std::max(most, std::abs(static_cast<double>(b[i])));
  }
  return error / most;
}

// docs/RECOVERY.md has these errors.
TEST(AdamW, UndoIsTheInverseButForRounding) {
  Prng prng(11);
  std::vector<float> value = RandomValues(prng, 20000);
  AdamW optimizer(OptimizerOptions{}, {{value, true}});
  const ParameterState now = optimizer.state()[0];
  double worst_value = 0;
  double worst_first = 0;
  double worst_second = 0;
  for (int step = 1; step <= 200; ++step) {
    const AdamWStep next{.step = step, .lr = 3e-4, .gradient_scale = 1.0};
    const std::vector<float> gradient = RandomValues(prng, value.size());
    const std::vector<float> before(now.value.begin(), now.value.end());
    const std::vector<float> first(now.first.begin(), now.first.end());
    const std::vector<float> second(now.second.begin(), now.second.end());
    optimizer.Step(next, {gradient}, {});
    const std::vector<float> after(now.value.begin(), now.value.end());
    optimizer.UndoValues(next);
    EXPECT_LT(RelativeError(now.value, before), 2e-7);
    std::copy(after.begin(), after.end(), now.value.begin());
    optimizer.Undo(next, {gradient});
    worst_value = std::max(worst_value, RelativeError(now.value, before));
    if (step > 1) {  // they were 0
      worst_first = std::max(worst_first, RelativeError(now.first, first));
      worst_second = std::max(worst_second, RelativeError(now.second, second));
    }
    optimizer.Step(next, {gradient}, {});
  }
  RecordProperty("value", fmt::format("{:.2g}", worst_value));
  RecordProperty("first", fmt::format("{:.2g}", worst_first));
  RecordProperty("second", fmt::format("{:.2g}", worst_second));
  EXPECT_LT(worst_value, 2e-7);
  EXPECT_LT(worst_first, 5e-7);
  EXPECT_LT(worst_second, 5e-7);
}

}  // namespace
}  // namespace recycle
