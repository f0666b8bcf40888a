#include "recycle/executor/gradient_reduction.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/zeros.h>
#include <fmt/format.h>

#include <cstring>

#include "recycle/base/check.h"
#include "recycle/base/log.h"
#include "recycle/base/prng.h"

namespace recycle {
namespace {

// Parameters start at multiples of a cache line.
constexpr std::size_t kAlignment = 16;
constexpr int kReductionAttempts = 4;

// Order-dependent, cheap; it has to see corrupted bits, not malice.
std::uint64_t Checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  std::uint64_t hash = seed;
  std::size_t i = 0;
  for (; i + sizeof(std::uint64_t) <= bytes.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, &bytes[i], sizeof(word));
    hash = (hash ^ word) * 0x9fb21c651e98df25U;
    hash ^= hash >> 29;
  }
  std::uint64_t rest = 0;
  if (i < bytes.size()) std::memcpy(&rest, &bytes[i], bytes.size() - i);
  return Mix64(hash ^ Mix64(rest));
}

std::size_t AlignUp(std::size_t size) { return (size + kAlignment - 1) / kAlignment * kAlignment; }

}  // namespace

GradientReduction::GradientReduction(std::vector<Parameter>& parameters, bool apart) {
  std::vector<std::size_t> offsets(parameters.size());
  std::size_t size = 0;
  for (const bool tied : {false, true}) {
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if ((apart && parameters[i].tied) != tied) continue;
      offsets[i] = size;
      size += AlignUp(static_cast<std::size_t>(parameters[i].value.numel()));
    }
    if (!tied) stage_part_ = size;
  }
  local_ = at::zeros({static_cast<std::int64_t>(size)}, at::kFloat);
  reduced_.resize(size);
  for (std::size_t i = 0; i < parameters.size(); ++i) {
    Parameter& parameter = parameters[i];
    const std::int64_t count = parameter.value.numel();
    parameter.gradient = local_.narrow(0, static_cast<std::int64_t>(offsets[i]), count)
                             .view(parameter.value.sizes());
    reduced_spans_.emplace_back(&reduced_[offsets[i]], static_cast<std::size_t>(count));
    tied_.push_back(apart && parameter.tied);
  }
}

Status GradientReduction::Reduce(ReduceGroup& stage_group, ReduceGroup* tied_group,
                                 const ReductionRequest& request) {
  complete_ = false;
  RC_RETURN_IF_ERROR(
      ReducePart(stage_group, 0, stage_part_, request, /*with_results=*/!request.results.empty()));
  if (stage_part_ == reduced_.size()) return OkStatus();
  RC_CHECK(tied_group != nullptr) << "tied parameters without a group";
  return ReducePart(*tied_group, stage_part_, reduced_.size(), request, /*with_results=*/false);
}

Status GradientReduction::ReducePart(ReduceGroup& group, std::size_t begin, std::size_t end,
                                     const ReductionRequest& request, bool with_results) {
  const std::span<const float> local(local_.data_ptr<float>() + begin, end - begin);
  const std::span<float> reduced = std::span(reduced_).subspan(begin, end - begin);
  const float scale = 1.0F / static_cast<float>(request.tokens);
  for (int attempt = 1; attempt <= kReductionAttempts; ++attempt) {
    RC_RETURN_IF_ERROR(group.AllReduceSum(local, reduced));
    for (float& element : reduced) element *= scale;
    std::uint64_t checksum = Checksum(std::as_bytes(reduced), 0);
    if (with_results) {
      RC_RETURN_IF_ERROR(group.AllReduceSum(request.results, request.reduced_results));
      checksum = Checksum(std::as_bytes(request.reduced_results), checksum);
    }
    complete_ = end == reduced_.size();
    request.before_commit();
    RC_ASSIGN_OR_RETURN(const MinMax agreed, group.AllReduceMinMax(checksum));
    if (agreed.min == agreed.max) return OkStatus();
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
    if (tied_[i] && !with_tied) continue;
    for (const float element : reduced_spans_[i]) sum += static_cast<double>(element) * element;
  }
  return sum;
}

}  // namespace recycle
