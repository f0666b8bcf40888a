#include "recycle/executor/norm_exchange.h"

#include <array>
#include <cstring>

#include "recycle/base/check.h"

namespace recycle {
namespace {

std::vector<WorkerId> OfStage(const std::vector<WorkerId>& members, StageId stage) {
  std::vector<WorkerId> result;
  for (const WorkerId member : members) {
    if (member.stage == stage) result.push_back(member);
  }
  return result;
}

SharedBytes Encode(const GlobalNorm& norm) {
  const std::array<double, 2> words = {norm.squared, norm.stop ? 1.0 : 0.0};
  const auto bytes = std::as_bytes(std::span(words));
  return std::make_shared<const std::vector<std::byte>>(bytes.begin(), bytes.end());
}

StatusOr<GlobalNorm> TakeNorm(PeerNetwork& network, int iteration, FrameKind kind) {
  const FrameKey key{.iteration = iteration, .kind = kind, .stage = network.self().stage};
  RC_ASSIGN_OR_RETURN(const Frame frame, network.Take(key));
  std::array<double, 2> words{};
  RC_CHECK(frame.payload.size() == sizeof(words)) << ToString(key);
  std::memcpy(words.data(), frame.payload.data(), sizeof(words));
  return GlobalNorm{.squared = words[0], .stop = words[1] != 0.0};
}

Status SendNorm(PeerNetwork& network, StageId stage, int iteration, FrameKind kind,
                const GlobalNorm& norm) {
  const FrameKey key{.iteration = iteration, .kind = kind, .stage = stage};
  Status result;
  for (const WorkerId listener : NormListeners(network.members(), network.self(), stage)) {
    result.Update(network.Send(listener, key, Encode(norm)));
  }
  return result;
}

}  // namespace

WorkerId NormSource(const std::vector<WorkerId>& members, WorkerId listener, StageId stage) {
  const std::vector<WorkerId> sources = OfStage(members, stage);
  RC_CHECK(!sources.empty()) << "no live worker in stage " << stage;
  for (const WorkerId source : sources) {
    if (source.pipeline == listener.pipeline) return source;
  }
  return sources[static_cast<std::size_t>(listener.pipeline.value()) % sources.size()];
}

std::vector<WorkerId> NormListeners(const std::vector<WorkerId>& members, WorkerId speaker,
                                    StageId stage) {
  std::vector<WorkerId> listeners;
  for (const WorkerId listener : OfStage(members, stage)) {
    if (NormSource(members, listener, speaker.stage) == speaker) listeners.push_back(listener);
  }
  return listeners;
}

StatusOr<GlobalNorm> CollectNorm(PeerNetwork& network, int num_stages, int iteration,
                                 GlobalNorm own, const std::function<void()>& before_answer) {
  const StageId stage = network.self().stage;
  GlobalNorm norm = own;
  if (stage.value() > 0) {
    RC_ASSIGN_OR_RETURN(const GlobalNorm prefix, TakeNorm(network, iteration, FrameKind::kNormUp));
    norm.squared += prefix.squared;
  }
  const StageId above(stage.value() + 1);
  const bool is_last = above.value() == num_stages;
  if (!is_last) RC_RETURN_IF_ERROR(SendNorm(network, above, iteration, FrameKind::kNormUp, norm));
  before_answer();
  if (is_last) return norm;
  return TakeNorm(network, iteration, FrameKind::kNormDown);
}

Status PassNormDown(PeerNetwork& network, int iteration, const GlobalNorm& total) {
  const StageId stage = network.self().stage;
  if (stage.value() == 0) return OkStatus();
  return SendNorm(network, StageId(stage.value() - 1), iteration, FrameKind::kNormDown, total);
}

}  // namespace recycle
