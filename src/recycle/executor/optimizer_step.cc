#include "recycle/executor/optimizer_step.h"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cmath>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/sha256.h"
#include "recycle/executor/checksum.h"
#include "recycle/executor/learning_rate.h"
#include "recycle/nn/accumulate.h"

namespace recycle {
namespace {

// So many steps in a row that took the gradient as it was let the next ones go ahead of their
// verdicts: what begins with clipping goes on clipping, and a wrong step costs a warm-up.
constexpr int kCleanBeforeStaggered = 10;

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

// A norm has no sign: its bit is free.
constexpr std::uint64_t kStop = std::uint64_t{1} << 63;

// A verdict as a number that is 0 where there is none, and the same wherever there is one.
std::uint64_t Pack(const Verdict* verdict) {
  if (verdict == nullptr) return 0;
  const auto bits = std::bit_cast<std::uint64_t>(verdict->squared_norm) & ~kStop;
  return (bits | (verdict->stop ? kStop : 0)) + 1;
}

Verdict Unpack(std::uint64_t packed, int iteration) {
  const std::uint64_t bits = packed - 1;
  return {.iteration = iteration,
          .squared_norm = std::bit_cast<double>(bits & ~kStop),
          .stop = (bits & kStop) != 0,
          .corrects = false};
}

}  // namespace

OptimizerStep::OptimizerStep(const ExecutorOptions& options, StageModel& model,
                             PeerNetwork& network, FaultInjector& injector, NormBook& norms,
                             QuantumBook& quanta)
    : options_(options),
      model_(model),
      network_(network),
      injector_(injector),
      norms_(norms),
      quanta_(quanta),
      poisons_(options.poisons),
      tied_apart_(options.model.tied && options.parallel.num_stages() > 1),
      gradients_(model.parameters(), tied_apart_, quanta.sums()),
      optimizer_(options.optimizer, ToStepped(model.parameters())),
      undo_(options.exact_rollback) {
  const int micro_batches = options.parallel.data * options.micro_batches;
  if (is_last()) reduced_results_.resize(MicroBatchResults(micro_batches).values().size());
}

bool OptimizerStep::is_last() const {
  return options_.worker.stage.value() + 1 == options_.parallel.num_stages();
}

// --- the reduced gradient ----------------------------------------------------------------------

ReductionRequest OptimizerStep::MakeRequest() {
  const std::int64_t micro_batches =
      static_cast<std::int64_t>(options_.parallel.data) * options_.micro_batches;
  ReductionRequest request;
  request.tokens = micro_batches * options_.micro_batch_size * options_.model.sequence;
  request.before_commit = [this](std::span<float>) { injector_.At(FaultPoint::kCommit, version_); };
  request.commits = !options_.unprotected;
  request.reduced_results = reduced_results_;
  return request;
}

void OptimizerStep::DiscardReduced() {
  if (reduced_of_ == version_) gradients_.Discard();
}

void OptimizerStep::DiscardSums() {
  DiscardReduced();
  model_.ZeroGradients();
}

void OptimizerStep::Poison() {
  std::erase_if(poisons_, [this](const GradientPoison& poison) {
    if (poison.worker != options_.worker || poison.iteration != version_) return false;
    AddGradient(std::span(&poison.value, 1), 0, model_.parameters().front());
    return !quanta_.outgrown();  // else it comes again with the coarser quantum
  });
}

Status OptimizerStep::Reduce(MicroBatchResults& results, bool stop_requested) {
  ReductionRequest request = MakeRequest();
  if (is_last()) {
    if (stop_requested) results.SetStopWanted();
    request.results = results.values();
  }
  quanta_.Open(version_);
  Poison();
  if (quanta_.outgrown()) return absl::AbortedError("a gradient does not fit the sums");
  reduced_of_ = version_;
  return gradients_.Reduce(network_.stage_group(), network_.tied_group(), request);
}

bool OptimizerStep::Concerns(const HandOver& hand_over) const {
  return hand_over.part == ReducedPart::kTied ? network_.tied_group() != nullptr
                                              : hand_over.stage == options_.worker.stage;
}

Status OptimizerStep::TakePart(const HandOver& hand_over, int iteration) {
  if (reduced_of_ != iteration) {  // nothing of it yet; or it was closed here, and made way
    gradients_.Discard();
    reduced_of_ = iteration;
  }
  ReduceGroup& group =
      hand_over.part == ReducedPart::kTied ? *network_.tied_group() : network_.stage_group();
  return gradients_.HandOver(group, hand_over.part, hand_over.from == options_.worker,
                             MakeRequest());
}

// What R says of the iteration.
Status OptimizerStep::Evaluate() {
  RC_CHECK(reduced_of_ == version_ && gradients_.complete())
      << "iteration " << version_ << " has no reduced gradient here";
  if (evaluated_ == version_) return OkStatus();
  if (is_last()) {
    const std::int64_t tokens =
        static_cast<std::int64_t>(options_.micro_batch_size) * options_.model.sequence;
    RC_ASSIGN_OR_RETURN(results_, DecodeResults(reduced_results_, options_.micro_batches, tokens));
  }
  // Tied parameters are the first stage's.
  const bool counts_tied = options_.worker.stage.value() == 0;
  norms_.SetOwn(version_, gradients_.SquaredNorm(counts_tied));
  if (!options_.exact_rollback) {
    reduced_squared_norm_ = gradients_.SquaredNorm(/*with_tied=*/true);
  }
  evaluated_ = version_;
  return OkStatus();
}

// --- the verdict -------------------------------------------------------------------------------

Status OptimizerStep::Validate() {
  RC_RETURN_IF_ERROR(Evaluate());
  RC_ASSIGN_OR_RETURN(const GlobalNorm norm,
                      Collect(version_, {*norms_.own(version_), results_.stop_wanted}));
  norms_.Note({.iteration = version_, .squared_norm = norm.squared, .stop = norm.stop});
  return PassNormDown(network_, version_, norm);
}

Status OptimizerStep::ValidateAgain() {
  const double own = norms_.own(version_ - 1).value_or(0);
  RC_ASSIGN_OR_RETURN(const GlobalNorm norm, Collect(version_ - 1, {own, stop_agreed_}));
  return PassNormDown(network_, version_ - 1, norm);
}

StatusOr<GlobalNorm> OptimizerStep::Collect(int iteration, const GlobalNorm& own) {
  return CollectNorm(network_, options_.parallel.num_stages(), iteration, own,
                     [this, iteration] { injector_.At(FaultPoint::kValidate, iteration); });
}

Status OptimizerStep::ShareVerdict() {
  const Verdict* known = norms_.Find(version_ - 1);
  RC_ASSIGN_OR_RETURN(const MinMax heard, network_.stage_group().AllReduceMinMax(Pack(known)));
  if (heard.max != 0) norms_.Note(Unpack(heard.max, version_ - 1));
  RC_CHECK(validated_ || heard.max != 0)
      << "iteration " << version_ << " is run, and nobody knows the verdict of the one before";
  return OkStatus();
}

std::optional<Verdict> OptimizerStep::Judge() {
  const std::optional<double> squared = norms_.total(version_ - 1);
  if (validated_ || !squared) return std::nullopt;
  const Verdict verdict{.iteration = version_ - 1,
                        .squared_norm = *squared,
                        .stop = results_.stop_wanted,
                        .corrects = ScaleOf(*squared) != 1.0};
  norms_.Note(verdict);
  if (!verdict.corrects) return std::nullopt;
  return verdict;
}

bool OptimizerStep::Settle() {
  const Verdict* verdict = norms_.Find(version_ - 1);
  if (validated_ || verdict == nullptr || verdict->corrects) return false;
  Finalize(*verdict);
  return true;
}

std::optional<int> OptimizerStep::Apply(const std::vector<Verdict>& verdicts) {
  std::optional<int> void_from;
  for (const Verdict& verdict : verdicts) {
    const bool was_made = verdict.iteration == version_ - 1 && !validated_;
    const bool is_news = verdict.iteration == version_ && !holds_norm();
    norms_.Note(verdict);
    if (was_made && verdict.corrects) {
      undo_.Restore(optimizer_, gradients_.reduced());
      last_was_redone_ = !options_.exact_rollback && !IsWrongAsItIs();
      const double scale = ScaleOf(verdict.squared_norm);
      KeepUndo(verdict.iteration, scale);
      Run(verdict.iteration, scale, gradients_.reduced(), {});
    }
    if (was_made) Finalize(verdict);
    if ((was_made || is_news) && verdict.corrects) void_from = verdict.iteration + 1;
  }
  return void_from;
}

// The step that made `version_` stands.
void OptimizerStep::Finalize(const Verdict& verdict) {
  const double scale = ScaleOf(verdict.squared_norm);
  validated_ = true;
  last_squared_norm_ = verdict.squared_norm;
  clean_in_a_row_ = scale == 1.0 ? clean_in_a_row_ + 1 : 0;
  skipped_in_a_row_ = scale == 0.0 ? skipped_in_a_row_ + 1 : 0;
  stop_agreed_ = was_synchronous_ && (verdict.stop || stops_next_);
  stops_next_ = !was_synchronous_ && verdict.stop;
  if (report_.has_value()) {
    report_->grad_norm = std::sqrt(verdict.squared_norm);
    report_->stop_agreed = stop_agreed_;
    report_->skipped_in_a_row = skipped_in_a_row_;
  }
  final_ = {.version = version_,
            .previous_squared_norm = norms_.own(version_ - 1).value_or(0),
            .verdict = verdict,
            .stop_agreed = stop_agreed_,
            .stops_next = stops_next_,
            .clean_in_a_row = clean_in_a_row_,
            .skipped_in_a_row = skipped_in_a_row_};
}

bool OptimizerStep::IsSynchronous() const {
  RC_CHECK(validated_) << "the step before is not judged yet";
  const auto is_due = [this](int every) { return every > 0 && (version_ + 1) % every == 0; };
  return options_.parallel.num_stages() == 1 || clean_in_a_row_ < kCleanBeforeStaggered ||
         stops_next_ || version_ + 1 == options_.iterations || is_due(options_.validate_every) ||
         is_due(options_.checkpoint_every);
}

std::optional<IterationDone> OptimizerStep::TakeReport() {
  if (!validated_) return std::nullopt;
  return std::exchange(report_, std::nullopt);
}

// --- the step ----------------------------------------------------------------------------------

// By how much the gradient is multiplied; 0: there is no step.
double OptimizerStep::ScaleOf(double squared_norm) const {
  if (!std::isfinite(squared_norm)) return 0.0;
  const double clip = options_.optimizer.clip;
  return clip > 0 ? std::min(1.0, clip / (std::sqrt(squared_norm) + kClipEpsilon)) : 1.0;
}

AdamWStep OptimizerStep::StepOf(int iteration, double scale) const {
  return {.step = iteration + 1,
          .lr = LearningRate(options_.optimizer, options_.iterations, iteration),
          .gradient_scale = scale};
}

void OptimizerStep::Run(int iteration, double scale,
                        const std::vector<std::span<const float>>& gradients,
                        const std::function<void(int done)>& after_parameter) {
  if (scale != 0.0) optimizer_.Step(StepOf(iteration, scale), gradients, after_parameter);
}

void OptimizerStep::KeepUndo(int iteration, double scale) {
  undo_.Keep(optimizer_, scale == 0.0 ? std::nullopt : std::optional(StepOf(iteration, scale)));
}

void OptimizerStep::StepInVain(int iteration,
                               const std::vector<std::span<const float>>& gradients) {
  Run(iteration, 1.0, gradients, {});
  optimizer_.Undo(StepOf(iteration, 1.0), gradients);
}

Status OptimizerStep::Step(bool synchronous) {
  RC_RETURN_IF_ERROR(Evaluate());
  const Verdict* verdict = norms_.Find(version_);
  RC_CHECK(verdict != nullptr || !synchronous) << "iteration " << version_ << " has no norm";
  double scale = verdict == nullptr ? 1.0 : ScaleOf(verdict->squared_norm);
  last_was_redone_ = false;
  // The inverse of a step by what is no number is none; and such a step is not needed.
  const bool in_vain = !options_.exact_rollback && IsWrongAsItIs();
  if (verdict == nullptr) {
    if (in_vain) scale = 0.0;
    KeepUndo(version_, scale);
  } else if (verdict->corrects && !options_.exact_rollback && !in_vain) {
    StepInVain(version_, gradients_.reduced());
    last_was_redone_ = true;
  }
  Run(version_, scale, gradients_.reduced(), [this](int done) {
    if (done == 1) injector_.At(FaultPoint::kStep, version_);
  });
  if (is_last()) {
    report_ = IterationDone{.generation = {},
                            .iteration = version_,
                            .results = results_.micro_batches,
                            .grad_norm = 0,
                            .lr = LearningRate(options_.optimizer, options_.iterations, version_),
                            .validation_loss = std::nullopt};
  }
  model_.ZeroGradients();
  ++version_;
  was_synchronous_ = synchronous;
  validated_ = false;
  if (verdict != nullptr) Finalize(*verdict);
  norms_.DropBefore(version_ - 2);
  quanta_.DropBefore(version_);
  return OkStatus();
}

void OptimizerStep::Restore(const Scalars& scalars) {
  version_ = scalars.version;
  validated_ = true;
  was_synchronous_ = true;
  stop_agreed_ = scalars.stop_agreed;
  stops_next_ = scalars.stops_next;
  clean_in_a_row_ = scalars.clean_in_a_row;
  skipped_in_a_row_ = scalars.skipped_in_a_row;
  final_ = scalars;
  norms_.Clear();
  quanta_.StartOver(version_);
  if (scalars.verdict) {
    norms_.Note(*scalars.verdict);
    norms_.SetOwn(version_ - 1, scalars.previous_squared_norm);
  }
  report_.reset();
  reduced_of_ = evaluated_ = -1;
  gradients_.Discard();
  undo_.Drop();
  model_.ZeroGradients();
}

void OptimizerStep::Follow(int iteration, double squared_norm, bool redone,
                           const std::vector<std::span<const float>>& gradients) {
  if (redone) StepInVain(iteration, gradients);
  Run(iteration, ScaleOf(squared_norm), gradients, {});
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

void OptimizerStep::FlipBit() {
  constexpr std::uint32_t kHighestOfTheFraction = 1U << 22;
  const std::span<float> numbers = optimizer_.state().front().value;
  float& number = numbers[numbers.size() / 2];
  number = std::bit_cast<float>(std::bit_cast<std::uint32_t>(number) ^ kHighestOfTheFraction);
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
