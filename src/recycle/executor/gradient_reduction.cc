#include "recycle/executor/gradient_reduction.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <algorithm>
#include <limits>

#include "recycle/base/check.h"
#include "recycle/base/log.h"
#include "recycle/executor/checksum.h"

namespace recycle {
namespace {

// Parameters start at multiples of a cache line.
constexpr std::size_t kAlignment = 16;
constexpr int kReductionAttempts = 4;
// Numbers of fixed point that are summed at a time: R is made of them piece by piece, so that it
// takes no more memory than one of floats.
constexpr std::size_t kPiece = std::size_t{1} << 18;

// One member gives `numbers` to all those who lack them, as a sum to which everybody else adds
// nothing: x + -0 is x to the bit, for a zero of either sign, too. Who holds them keeps them.
template <typename T>
Status HandOverRound(ReduceGroup& group, std::span<T> numbers, bool held, bool is_source) {
  const std::vector<T> nothing(is_source ? 0 : numbers.size(), static_cast<T>(-0.0));
  const std::span<const T> in = is_source ? std::span<const T>(numbers) : std::span(nothing);
  if (!held) return group.AllReduceSum(in, numbers);
  std::vector<T> sum(numbers.size());
  return group.AllReduceSum(in, std::span<T>(sum));
}

std::size_t AlignUp(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

GradientReduction::GradientReduction(std::vector<Parameter>& parameters, bool apart,
                                     FixedPointSums* sums)
    : sums_(sums) {
  std::vector<std::size_t> offsets(parameters.size());
  std::size_t size = 0;
  for (const bool tied : {false, true}) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if ((apart && parameters[i].tied) != tied) continue;
      offsets[i] = size;
      size += AlignUp(static_cast<std::size_t>(parameters[i].value.numel()));
    }
    // The last number of a part counts members that have seen something that was not finite.
    if (sums != nullptr && size > stage_.end) size += kAlignment;
    (tied ? tied_ : stage_).end = size;
    if (!tied) tied_.begin = size;
  }
  local_ = at::zeros({static_cast<std::int64_t>(size)}, sums == nullptr ? at::kFloat : at::kLong);
  reduced_.resize(size);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = parameters[i];
    parameter.sums = sums;
    const std::int64_t count = parameter.value.numel();
    parameter.gradient = local_.narrow(0, static_cast<std::int64_t>(offsets[i]), count)
                             .view(parameter.value.sizes());
    reduced_spans_.emplace_back(&reduced_[offsets[i]], static_cast<std::size_t>(count));
    is_tied_.push_back(apart && parameter.tied);
  }
}

std::span<float> GradientReduction::Reduced(ReducedPart part) {
  return std::span(reduced_).subspan(At(part).begin, At(part).size());
}

Status GradientReduction::Reduce(ReduceGroup& stage_group, ReduceGroup* tied_group,
                                 const ReductionRequest& request) {
  Discard();
  RC_RETURN_IF_ERROR(UntilAgreed(stage_group, ReducedPart::kStage, request,
                                 [&] { return Sum(stage_group, ReducedPart::kStage, request); }));
  if (tied_.size() == 0) return OkStatus();
  RC_CHECK(tied_group != nullptr) << "tied parameters without a group";
  return UntilAgreed(*tied_group, ReducedPart::kTied, request,
                     [&] { return Sum(*tied_group, ReducedPart::kTied, request); });
}

Status GradientReduction::HandOver(ReduceGroup& group, ReducedPart part, bool is_source,
                                   const ReductionRequest& request) {
  RC_CHECK(!is_source || Holds(part)) << "this worker has nothing to hand over";
  return UntilAgreed(group, part, request,
                     [&] { return Receive(group, part, is_source, request); });
}

Status GradientReduction::Sum(ReduceGroup& group, ReducedPart part,
                              const ReductionRequest& request) {
  RC_RETURN_IF_ERROR(sums_ == nullptr ? SumFloats(group, part, request.tokens)
                                      : SumFixedPoint(group, part, request.tokens));
  if (part == ReducedPart::kStage && !request.results.empty()) {
    RC_RETURN_IF_ERROR(group.AllReduceSum(request.results, request.reduced_results));
  }
  return OkStatus();
}

Status GradientReduction::SumFloats(ReduceGroup& group, ReducedPart part, std::int64_t tokens) {
  const std::span<const float> local(local_.data_ptr<float>() + At(part).begin, At(part).size());
  const std::span<float> reduced = Reduced(part);
  const float scale = 1.0F / static_cast<float>(tokens);
  RC_RETURN_IF_ERROR(group.AllReduceSum(local, reduced));
  for (float& element : reduced) element *= scale;
  return OkStatus();
}

Status GradientReduction::SumFixedPoint(ReduceGroup& group, ReducedPart part, std::int64_t tokens) {
  RC_CHECK(!sums_->coarser()) << "a gradient does not fit the quantum 2^" << sums_->quantum();
  // As unsigned numbers: what is not finite has left anything there.
  const std::span local(
      reinterpret_cast<std::uint64_t*>(local_.data_ptr<std::int64_t>()) + At(part).begin,
      At(part).size());
  const std::span<float> reduced = Reduced(part);
  if (local.empty()) return OkStatus();
  local.back() = sums_->finite() ? 0 : 1;
  const double scale = sums_->unit() / static_cast<double>(tokens);
  std::vector<std::uint64_t> total(std::min(kPiece, local.size()));
  for (std::size_t begin = 0; begin < local.size(); begin += kPiece) {
    total.resize(std::min(kPiece, local.size() - begin));
    RC_RETURN_IF_ERROR(group.AllReduceSum(local.subspan(begin, total.size()), std::span(total)));
    for (std::size_t i = 0; i < total.size(); ++i) {
      const auto quanta = static_cast<std::int64_t>(total[i]);
      reduced[begin + i] = static_cast<float>(static_cast<double>(quanta) * scale);
    }
  }
  if (total.back() != 0) std::ranges::fill(reduced, std::numeric_limits<float>::quiet_NaN());
  return OkStatus();
}

Status GradientReduction::Receive(ReduceGroup& group, ReducedPart part, bool is_source,
                                  const ReductionRequest& request) {
  const bool held = Holds(part);
  RC_RETURN_IF_ERROR(HandOverRound(group, Reduced(part), held, is_source));
  if (part == ReducedPart::kStage && !request.reduced_results.empty()) {
    RC_RETURN_IF_ERROR(HandOverRound(group, request.reduced_results, held, is_source));
  }
  return OkStatus();
}

Status GradientReduction::UntilAgreed(ReduceGroup& group, ReducedPart part,
                                      const ReductionRequest& request,
                                      const std::function<Status()>& round) {
  for (int attempt = 1; attempt <= kReductionAttempts; ++attempt) {
    const bool held = Holds(part);
    RC_RETURN_IF_ERROR(round());
    At(part).held = true;
    request.before_commit(Reduced(part));
    if (!request.commits) return OkStatus();
    std::uint64_t checksum = Checksum(std::as_bytes(Reduced(part)), 0);
    if (part == ReducedPart::kStage) {
      checksum = Checksum(std::as_bytes(request.reduced_results), checksum);
    }
    RC_ASSIGN_OR_RETURN(const MinMax agreed, group.AllReduceMinMax(checksum));
    if (agreed.min == agreed.max) return OkStatus();
    At(part).held = held;
    LogWarning("the peers' reduced gradients differ (attempt {} of {}): done again", attempt,
               kReductionAttempts);
  }
  return absl::DataLossError(
      fmt::format("the peers' reduced gradients differ after {} attempts: memory or network "
                  "corrupts data",
                  kReductionAttempts));
}

double GradientReduction::SquaredNorm(bool with_tied) const {
  double sum = 0;
  for (std::size_t i = 0; i < reduced_spans_.size(); ++i) {
    if (is_tied_[i] && !with_tied) continue;
    for (const float element : reduced_spans_[i]) sum += static_cast<double>(element) * element;
  }
  return sum;
}

}  // namespace recycle
