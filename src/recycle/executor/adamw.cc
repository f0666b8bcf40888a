#include "recycle/executor/adamw.h"

#include <cmath>

#include "recycle/base/check.h"

namespace recycle {
namespace {

// The step's scalars, rounded to single precision once.
struct Factors {
  float gradient_scale;
  float beta1;
  float beta2;
  float rate;  // lr / (1 - beta1^step)
  float root;  // 1 / sqrt(1 - beta2^step)
  float epsilon;
  float decay;  // 1 - lr * weight_decay
};

Factors MakeFactors(const OptimizerOptions& options, const AdamWStep& step) {
  const double correction1 = 1.0 - std::pow(options.beta1, step.step);
  const double correction2 = 1.0 - std::pow(options.beta2, step.step);
  return {.gradient_scale = static_cast<float>(step.gradient_scale),
          .beta1 = static_cast<float>(options.beta1),
          .beta2 = static_cast<float>(options.beta2),
          .rate = static_cast<float>(step.lr / correction1),
          .root = static_cast<float>(1.0 / std::sqrt(correction2)),
          .epsilon = static_cast<float>(options.epsilon),
          .decay = static_cast<float>(1.0 - step.lr * options.weight_decay)};
}

// Plain arrays that do not overlap, so that the compiler makes vector code of it.
void StepElements(const Factors& f, float decay, std::size_t size, const float* __restrict gradient,
                  float* __restrict value, float* __restrict first, float* __restrict second) {
  for (std::size_t i = 0; i < size; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    first[i] = f.beta1 * first[i] + (1.0F - f.beta1) * g;
    second[i] = f.beta2 * second[i] + (1.0F - f.beta2) * g * g;
    value[i] = decay * value[i] - f.rate * first[i] / (std::sqrt(second[i]) * f.root + f.epsilon);
  }
}

// Out of the moments after the step; they stay as they are.
void UndoElementValues(const Factors& f, float decay, std::size_t size, float* __restrict value,
                       const float* __restrict first, const float* __restrict second) {
  for (std::size_t i = 0; i < size; ++i) {
    value[i] = (value[i] + f.rate * first[i] / (std::sqrt(second[i]) * f.root + f.epsilon)) / decay;
  }
}

// `inverse` of a factor of 0 is 0: such a moment remembers nothing.
void UndoElementMoments(const Factors& f, std::size_t size, const float* __restrict gradient,
                        float* __restrict first, float* __restrict second) {
  const float inverse1 = f.beta1 > 0 ? 1.0F / f.beta1 : 0.0F;
  const float inverse2 = f.beta2 > 0 ? 1.0F / f.beta2 : 0.0F;
  for (std::size_t i = 0; i < size; ++i) {
    const float g = gradient[i] * f.gradient_scale;
    first[i] = (first[i] - (1.0F - f.beta1) * g) * inverse1;
    const float before = (second[i] - (1.0F - f.beta2) * g * g) * inverse2;
    second[i] = before > 0.0F ? before : 0.0F;
  }
}

}  // namespace

AdamW::AdamW(const OptimizerOptions& options, std::vector<SteppedParameter> parameters)
    : options_(options), parameters_(std::move(parameters)) {
  moments_.reserve(parameters_.size());
  for (const SteppedParameter& parameter : parameters_) {
    const std::size_t size = parameter.value.size();
    moments_.push_back({std::vector<float>(size), std::vector<float>(size)});
  }
}

void AdamW::Step(const AdamWStep& step, const std::vector<std::span<const float>>& gradients,
                 const std::function<void(int done)>& after_parameter) {
  RC_CHECK(gradients.size() <= parameters_.size())
      << gradients.size() << " gradients for " << parameters_.size() << " parameters";
  const Factors factors = MakeFactors(options_, step);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const SteppedParameter& parameter = parameters_[i];
    RC_CHECK(gradients[i].size() == parameter.value.size()) << "parameter " << i;
    StepElements(factors, parameter.decay ? factors.decay : 1.0F, parameter.value.size(),
                 gradients[i].data(), parameter.value.data(), moments_[i].first.data(),
                 moments_[i].second.data());
    if (after_parameter) after_parameter(static_cast<int>(i) + 1);
  }
}

void AdamW::Undo(const AdamWStep& step, const std::vector<std::span<const float>>& gradients) {
  const Factors factors = MakeFactors(options_, step);
  for (std::size_t i = 0; i < gradients.size(); ++i) {
    const SteppedParameter& parameter = parameters_[i];
    UndoElementValues(factors, parameter.decay ? factors.decay : 1.0F, parameter.value.size(),
                      parameter.value.data(), moments_[i].first.data(), moments_[i].second.data());
    UndoElementMoments(factors, gradients[i].size(), gradients[i].data(), moments_[i].first.data(),
                       moments_[i].second.data());
  }
}

void AdamW::UndoValues(const AdamWStep& step) {
  const Factors factors = MakeFactors(options_, step);
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    const SteppedParameter& parameter = parameters_[i];
    UndoElementValues(factors, parameter.decay ? factors.decay : 1.0F, parameter.value.size(),
                      parameter.value.data(), moments_[i].first.data(), moments_[i].second.data());
  }
}

std::vector<ParameterState> AdamW::state() {
  std::vector<ParameterState> state;
  state.reserve(parameters_.size());
  for (std::size_t i = 0; i < parameters_.size(); ++i) {
    state.push_back({parameters_[i].value, moments_[i].first, moments_[i].second});
  }
  return state;
}

}  // namespace recycle
