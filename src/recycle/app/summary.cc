#include "recycle/app/summary.h"

#include <algorithm>

namespace recycle {
namespace {

double Seconds(Duration duration) { return std::chrono::duration<double>(duration).count(); }

// A number, or null where there is none.
Json OrNull(const std::optional<double>& value) { return value ? Json(*value) : Json(nullptr); }

}  // namespace

void Throughput::Add(std::int64_t tokens, Duration elapsed) {
  tokens_ += tokens;
  elapsed_ += elapsed;
}

std::optional<double> Throughput::tokens_per_s() const {
  if (elapsed_ <= Duration::zero()) return std::nullopt;
  return static_cast<double>(tokens_) / Seconds(elapsed_);
}

void RunSummary::AddIteration(const Iteration& iteration) {
  if (!first_loss_) first_loss_ = iteration.loss;
  final_loss_ = iteration.loss;
  tokens_ += iteration.tokens;
  training_ += iteration.elapsed;
  if (iteration.disturbed) return;
  if (failures_ == 0) fault_free_.Add(iteration.tokens, iteration.elapsed);
  if (iteration.generation != last_generation_) last_ = Throughput();
  last_generation_ = iteration.generation;
  last_.Add(iteration.tokens, iteration.elapsed);
}

void RunSummary::AddFailures(int workers) {
  failures_ += workers;
  if (workers > 0) last_ = Throughput();
}

void RunSummary::AddRegroup(int replayed_actions, Duration wasted) {
  replayed_actions_ += replayed_actions;
  wasted_ += wasted;
}

Json RunSummary::ToJson(int iterations, const std::string& parameters_sha256, Duration wall) const {
  std::optional<double> goodput;
  if (training_ > Duration::zero()) {
    goodput = std::clamp(1.0 - Seconds(wasted_) / Seconds(training_), 0.0, 1.0);
  }
  Json json;
  json["first_loss"] = OrNull(first_loss_);
  json["final_loss"] = OrNull(final_loss_);
  json["iterations"] = iterations;
  json["failures"] = failures_;
  json["lost_iterations"] = lost_iterations_;
  json["replayed_actions"] = replayed_actions_;
  json["parameters_sha256"] = parameters_sha256;
  json["wall_s"] = Seconds(wall);
  json["goodput"] = OrNull(goodput);
  json["tokens"] = tokens_;
  json["tokens_per_s"] = {{"fault_free", OrNull(fault_free_.tokens_per_s())},
                          {"now", OrNull(last_.tokens_per_s())}};
  return json;
}

}  // namespace recycle
