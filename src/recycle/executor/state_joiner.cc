#include "recycle/executor/state_joiner.h"

#include <fmt/format.h>

#include <chrono>
#include <cstring>
#include <utility>

namespace recycle {
namespace {

OptimizerStep::Scalars ScalarsOf(const StateRecordHeader& end) {
  OptimizerStep::Scalars scalars{.version = end.version,
                                 .previous_squared_norm = end.squared_norm,
                                 .verdict = std::nullopt,
                                 .stop_agreed = end.stop_agreed != 0,
                                 .stops_next = end.stops_next != 0,
                                 .clean_in_a_row = end.clean_in_a_row,
                                 .skipped_in_a_row = end.skipped_in_a_row};
  if (end.knows_verdict != 0) {
    scalars.verdict = Verdict{.iteration = end.version - 1,
                              .squared_norm = end.verdict_squared_norm,
                              .stop = end.verdict_stop != 0,
                              .corrects = false};
  }
  return scalars;
}

}  // namespace

StateJoiner::StateJoiner(const std::shared_ptr<Device>& device, const Transfer& transfer,
                         Events events)
    : transfer_(transfer.transfer), events_(std::move(events)), receiver_(device, transfer) {}

void StateJoiner::Begin(const std::string& donor_end, OptimizerStep& step) {
  receiver_.Begin(donor_end, [this, &step](const Status& connected) {
    events_.over(connected.ok() ? Receive(step) : connected);
  });
}

Status StateJoiner::Receive(OptimizerStep& step) {
  met_ = SystemClock().Now();
  state_ = step.state();
  for (;;) {
    RC_ASSIGN_OR_RETURN(const StateRecord record, receiver_.Take(state_.size()));
    RC_RETURN_IF_ERROR(Apply(record.header, record.bytes, step));
    events_.at_version(version_);
    if (record.header.kind == StateRecordKind::kEnd) return OkStatus();
  }
}

Status StateJoiner::Apply(const StateRecordHeader& header, const std::vector<std::byte>& bytes,
                          OptimizerStep& step) {
  const auto index = static_cast<std::size_t>(header.index);
  switch (header.kind) {
    case StateRecordKind::kParameter:
      if (index != arrived_ || bytes.size() != StateBytes(state_[index])) {
        return absl::DataLossError(
            fmt::format("parameter {} of {} bytes came where parameter {} was due", index,
                        bytes.size(), arrived_));
      }
      WriteState(bytes, state_[index]);
      version_ = header.version;
      bytes_ += static_cast<std::int64_t>(bytes.size());
      if (++arrived_ == (state_.size() + 1) / 2) events_.half_way(version_);
      if (arrived_ == state_.size()) {
        events_.caught_up({.transfer = transfer_,
                           .version = version_,
                           .bytes = bytes_,
                           .microseconds = std::chrono::duration_cast<std::chrono::microseconds>(
                                               SystemClock().Now() - met_)
                                               .count()});
      }
      return OkStatus();
    case StateRecordKind::kStep:
      return ApplyStep(header, bytes, step);
    case StateRecordKind::kEnd:
      if (index != state_.size() || header.version != version_) {
        return absl::DataLossError(fmt::format(
            "the copy ends at version {} with {} parameters; here are {} of {} at version {}",
            header.version, index, arrived_, state_.size(), version_));
      }
      owes_validation_ = header.owes_validation != 0;
      step.Restore(ScalarsOf(header));
      return OkStatus();
  }
  return OkStatus();
}

Status StateJoiner::ApplyStep(const StateRecordHeader& header, const std::vector<std::byte>& bytes,
                              OptimizerStep& step) {
  const auto count = static_cast<std::size_t>(header.index);
  std::size_t floats = 0;
  for (std::size_t i = 0; i < count && i < state_.size(); ++i) floats += state_[i].value.size();
  if (count != arrived_ || header.version != version_ || bytes.size() != floats * sizeof(float)) {
    return absl::DataLossError(
        fmt::format("a step of iteration {} on {} parameters came where version {} of {} was",
                    header.version + 1, count, version_, arrived_));
  }
  std::vector<float> numbers(floats);
  std::memcpy(numbers.data(), bytes.data(), bytes.size());
  std::vector<std::span<const float>> gradients;
  std::size_t offset = 0;
  for (std::size_t i = 0; i < count; ++i) {
    gradients.push_back(std::span<const float>(numbers).subspan(offset, state_[i].value.size()));
    offset += state_[i].value.size();
  }
  step.Follow(header.version, header.squared_norm, header.redone != 0, gradients);
  version_ = header.version + 1;
  return OkStatus();
}

}  // namespace recycle
