#include "recycle/executor/optimizer_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "recycle/base/check.h"
#include "recycle/base/sha256.h"
#include "recycle/executor/checksum.h"
#include "recycle/executor/learning_rate.h"

namespace recycle {
namespace {

// Keeps the clip scale finite for a gradient of zeros; the customary value.
constexpr double kClipEpsilon = 1.0e-6;

std::span<float> Elements(const at::Tensor& tensor) {
  return {tensor.data_ptr<float>(), static_cast<std::size_t>(tensor.numel())};
}

std::vector<SteppedParameter> ToStepped(const std::vector<Parameter>& parameters) {
  std::vector<SteppedParameter> stepped;
  stepped.reserve(parameters.size());
  for (const Parameter& parameter : parameters) {
    stepped.push_back({Elements(parameter.value), parameter.decay});
  }
  return stepped;
}

}  // namespace

OptimizerStep::OptimizerStep(const ExecutorOptions& options, StageModel& model,
                             PeerNetwork& network, FaultInjector& injector)
    : options_(options),
      model_(model),
      network_(network),
      injector_(injector),
      tied_apart_(options.model.tied && options.parallel.num_stages() > 1),
      gradients_(model.parameters(), tied_apart_),
      optimizer_(options.optimizer, ToStepped(model.parameters())) {
  const int micro_batches = options.parallel.data * options.micro_batches;
  if (is_last()) reduced_results_.resize(MicroBatchResults(micro_batches).values().size());
}

bool OptimizerStep::is_last() const {
  return options_.worker.stage.value() + 1 == options_.parallel.num_stages();
}

ReductionRequest OptimizerStep::MakeRequest() {
  const std::int64_t micro_batches =
      static_cast<std::int64_t>(options_.parallel.data) * options_.micro_batches;
  ReductionRequest request;
  request.tokens = micro_batches * options_.micro_batch_size * options_.model.sequence;
  request.before_commit = [this](std::span<float>) { injector_.At(FaultPoint::kCommit, version_); };
  request.reduced_results = reduced_results_;
  return request;
}

Status OptimizerStep::Reduce(MicroBatchResults& results, bool stop_requested) {
  ReductionRequest request = MakeRequest();
  if (is_last()) {
    if (stop_requested) results.SetStopWanted();
    request.results = results.values();
  }
  return gradients_.Reduce(network_.stage_group(), network_.tied_group(), request);
}

bool OptimizerStep::Concerns(const HandOver& hand_over) const {
  return hand_over.part == ReducedPart::kTied ? network_.tied_group() != nullptr
                                              : hand_over.stage == options_.worker.stage;
}

Status OptimizerStep::TakePart(const HandOver& hand_over) {
  ReduceGroup& group =
      hand_over.part == ReducedPart::kTied ? *network_.tied_group() : network_.stage_group();
  return gradients_.HandOver(group, hand_over.part, hand_over.from == options_.worker,
                             MakeRequest());
}

Status OptimizerStep::Validate() {
  RC_CHECK(gradients_.complete()) << "iteration " << version_ << " has no reduced gradient here";
  if (is_last()) {
    const std::int64_t tokens =
        static_cast<std::int64_t>(options_.micro_batch_size) * options_.model.sequence;
    RC_ASSIGN_OR_RETURN(results_, DecodeResults(reduced_results_, options_.micro_batches, tokens));
  }
  // Tied parameters are the first stage's.
  const bool counts_tied = options_.worker.stage.value() == 0;
  own_squared_norm_ = gradients_.SquaredNorm(counts_tied);
  RC_ASSIGN_OR_RETURN(norm_, Collect(version_, {own_squared_norm_, results_.stop_wanted}));
  RC_RETURN_IF_ERROR(PassNormDown(network_, version_, *norm_));
  if (!std::isfinite(norm_->squared)) {
    return absl::DataLossError(fmt::format(
        "iteration {}: the squared gradient norm is {}: lower optimizer.lr or clip the gradient",
        version_ + 1, norm_->squared));
  }
  return OkStatus();
}

Status OptimizerStep::ValidateAgain() {
  RC_ASSIGN_OR_RETURN(const GlobalNorm norm,
                      Collect(version_ - 1, {previous_squared_norm_, stop_agreed_}));
  return PassNormDown(network_, version_ - 1, norm);
}

StatusOr<GlobalNorm> OptimizerStep::Collect(int iteration, const GlobalNorm& own) {
  return CollectNorm(network_, options_.parallel.num_stages(), iteration, own,
                     [this, iteration] { injector_.At(FaultPoint::kValidate, iteration); });
}

AdamWStep OptimizerStep::MakeStep(int iteration, double squared_norm) const {
  const double clip = options_.optimizer.clip;
  return {.step = iteration + 1,
          .lr = LearningRate(options_.optimizer, options_.iterations, iteration),
          .gradient_scale =
              clip > 0 ? std::min(1.0, clip / (std::sqrt(squared_norm) + kClipEpsilon)) : 1.0};
}

std::optional<IterationDone> OptimizerStep::Step() {
  RC_CHECK(norm_.has_value()) << "iteration " << version_ << " has no norm";
  const AdamWStep step = MakeStep(version_, norm_->squared);
  optimizer_.Step(step, gradients_.reduced(), [this](int done) {
    if (done == 1) injector_.At(FaultPoint::kStep, version_);
  });
  std::optional<IterationDone> done;
  if (is_last()) {
    done = IterationDone{.generation = {},
                         .iteration = version_,
                         .results = results_.micro_batches,
                         .grad_norm = std::sqrt(norm_->squared),
                         .lr = step.lr,
                         .validation_loss = std::nullopt,
                         .stop_agreed = norm_->stop};
  }
  previous_squared_norm_ = own_squared_norm_;
  last_squared_norm_ = norm_->squared;
  stop_agreed_ = norm_->stop;
  norm_.reset();
  gradients_.Discard();
  model_.ZeroGradients();
  ++version_;
  return done;
}

void OptimizerStep::Restore(const Scalars& scalars) {
  version_ = scalars.version;
  previous_squared_norm_ = scalars.previous_squared_norm;
  stop_agreed_ = scalars.stop_agreed;
  norm_.reset();
  gradients_.Discard();
  model_.ZeroGradients();
}

void OptimizerStep::Follow(int iteration, double squared_norm,
                           const std::vector<std::span<const float>>& gradients) {
  optimizer_.Step(MakeStep(iteration, squared_norm), gradients, {});
}

std::uint64_t OptimizerStep::HashState() {
  std::uint64_t hash = 0;
  for (const ParameterState& parameter : optimizer_.state()) {
    for (const std::span<float> numbers : {parameter.value, parameter.first, parameter.second}) {
      hash = Checksum(std::as_bytes(numbers), hash);
    }
  }
  return hash;
}

std::map<std::string, std::string> OptimizerStep::ParameterHashes() {
  std::map<std::string, std::string> hashes;
  for (const Parameter& parameter : model_.parameters()) {
    Sha256 sha256;
    sha256.Update(std::as_bytes(std::span<const float>(Elements(parameter.value))));
    hashes[parameter.name] = sha256.HexDigest();
  }
  return hashes;
}

}  // namespace recycle
