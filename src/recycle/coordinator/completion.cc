#include "recycle/coordinator/completion.h"

#include <fmt/format.h>

#include <algorithm>
#include <utility>

#include "recycle/base/sha256.h"

namespace recycle {
namespace {

// Mean loss per token; nothing if there was no token.
std::optional<double> MeanLoss(const std::vector<MicroBatchResult>& results) {
  double loss_sum = 0;
  std::int64_t tokens = 0;
  for (const MicroBatchResult& result : results) {
    loss_sum += result.loss_sum;
    tokens += result.tokens;
  }
  if (tokens == 0) return std::nullopt;
  return loss_sum / static_cast<double>(tokens);
}

EndJob Failed(std::string reason) {
  return EndJob{.how = EndJob::How::kFailed, .reason = std::move(reason), .parameters_sha256 = ""};
}

}  // namespace

Completion::Completion(std::int32_t iterations, std::vector<std::string> canonical_parameters)
    : iterations_(iterations), canonical_parameters_(std::move(canonical_parameters)) {}

void Completion::RestartAt(std::int32_t version) {
  next_ = version;
  waiting_.clear();
}

std::vector<IterationDone> Completion::OnIterationDone(const IterationDone& done) {
  if (done.iteration < next_ || done.iteration >= iterations_) return {};
  waiting_.try_emplace(done.iteration, done);
  std::vector<IterationDone> due;
  for (auto first = waiting_.begin(); first != waiting_.end() && first->first == next_;
       first = waiting_.erase(first)) {
    last_loss_ = MeanLoss(first->second.results);
    due.push_back(std::move(first->second));
    ++next_;
  }
  return due;
}

void Completion::OnFinished(WorkerId worker, const Finished& finished) {
  finished_[worker] = finished;
}

bool Completion::AnyFinishedAt(std::int32_t version) const {
  return std::any_of(finished_.begin(), finished_.end(),
                     [&](const auto& entry) { return entry.second.version <= version; });
}

EndJob Completion::Conclude(const std::vector<WorkerId>& members) const {
  std::map<std::string, std::pair<WorkerId, std::string>>
      parameters;  // who said it first, and what
  const std::int32_t version = finished_.at(members.front()).version;
  for (const WorkerId member : members) {
    const Finished& finished = finished_.at(member);
    if (finished.version != version) {
      return Failed(fmt::format("workers {} and {} disagree about the end: {} and {} steps",
                                ToString(members.front()), ToString(member), version,
                                finished.version));
    }
    for (const auto& [name, sha256] : finished.parameter_sha256) {
      const auto [known, is_new] = parameters.try_emplace(name, member, sha256);
      if (known->second.second == sha256) continue;
      return Failed(fmt::format("workers {} and {} disagree about parameter {}",
                                ToString(known->second.first), ToString(member), name));
    }
  }
  Sha256 hash;
  for (const std::string& name : canonical_parameters_) {
    const auto parameter = parameters.find(name);
    if (parameter == parameters.end()) {
      return Failed(fmt::format("no worker reported parameter {}", name));
    }
    hash.Update(name);
    hash.Update(std::string_view("\0", 1));
    hash.Update(parameter->second.second);
    hash.Update("\n");
  }
  const bool complete = version >= iterations_;
  return EndJob{.how = complete ? EndJob::How::kDone : EndJob::How::kStopped,
                .reason = complete ? "all iterations are done" : "stopped as asked",
                .parameters_sha256 = hash.HexDigest(),
                .iterations = version};
}

}  // namespace recycle
