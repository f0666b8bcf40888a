// Ids as strong types: a stage cannot be passed where a pipeline is meant.
//
//   WorkerId worker{PipelineId(1), StageId(2)};   // printed and parsed as "1:2"
//   MicroBatch batch{PipelineId(1), 5};           // home pipeline 1, number 5: "1.5"
//
// Values, freely copied between threads.
#ifndef RECYCLE_BASE_IDS_H_
#define RECYCLE_BASE_IDS_H_

#include <compare>
#include <cstdint>
#include <functional>
#include <ostream>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/status.h"

namespace recycle {

// An integer that mixes with no other integer. Tag is an empty struct that names the meaning.
template <typename Tag, typename Rep = std::int32_t>
class StrongId {
 public:
  constexpr StrongId() = default;
  constexpr explicit StrongId(Rep value) : value_(value) {}
  constexpr Rep value() const { return value_; }
  constexpr auto operator<=>(const StrongId&) const = default;

 private:
  Rep value_ = 0;
};

template <typename Tag, typename Rep>
std::ostream& operator<<(std::ostream& out, StrongId<Tag, Rep> id) {
  return out << id.value();
}

using PipelineId = StrongId<struct PipelineTag>;  // data-parallel replica k, 0 <= k < DP
using StageId = StrongId<struct StageTag>;        // pipeline stage i, 0 <= i < PP
// Grows with every change of membership; stamped on every message, group and frame. 0 = none yet.
using Generation = StrongId<struct GenerationTag, std::int64_t>;

// The worker that runs stage `stage` for pipeline `pipeline`.
struct WorkerId {
  PipelineId pipeline;
  StageId stage;
  constexpr auto operator<=>(const WorkerId&) const = default;
};

// Micro-batch `index` of pipeline `home`, 0 <= index < M.
struct MicroBatch {
  PipelineId home;
  std::int32_t index = 0;
  constexpr auto operator<=>(const MicroBatch&) const = default;
};

std::string ToString(WorkerId worker);                       // "k:i"
std::string ToString(const std::vector<WorkerId>& workers);  // "k:i k:i"
std::string ToString(MicroBatch micro_batch);                // "k.m"
std::ostream& operator<<(std::ostream& out, WorkerId worker);
std::ostream& operator<<(std::ostream& out, MicroBatch micro_batch);

// Parse the texts above. Error: kInvalidArgument naming the text and the form expected.
StatusOr<WorkerId> ParseWorkerId(std::string_view text);
StatusOr<MicroBatch> ParseMicroBatch(std::string_view text);

}  // namespace recycle

template <typename Tag, typename Rep>
struct std::hash<recycle::StrongId<Tag, Rep>> {
  std::size_t operator()(recycle::StrongId<Tag, Rep> id) const noexcept {
    return std::hash<Rep>()(id.value());
  }
};
template <>
struct std::hash<recycle::WorkerId> {
  std::size_t operator()(recycle::WorkerId worker) const noexcept {
    return (static_cast<std::size_t>(worker.pipeline.value()) << 32) ^
           static_cast<std::size_t>(worker.stage.value());
  }
};
template <>
struct std::hash<recycle::MicroBatch> {
  std::size_t operator()(recycle::MicroBatch micro_batch) const noexcept {
    return (static_cast<std::size_t>(micro_batch.home.value()) << 32) ^
           static_cast<std::size_t>(micro_batch.index);
  }
};

#endif  // RECYCLE_BASE_IDS_H_
