#include "recycle/executor/state_record.h"

#include <fmt/format.h>

#include <cstring>

#include "recycle/base/check.h"

namespace recycle {
namespace {

static_assert(sizeof(StateRecordHeader) == 72, "no gaps: it travels as it lies in memory");

}  // namespace

FrameKey StateFrameKey(int number) {
  return {.iteration = number, .kind = FrameKind::kState, .stage = StageId(0)};
}

std::vector<std::byte> EncodeStateHeader(const StateRecordHeader& header) {
  std::vector<std::byte> bytes(sizeof(header));
  std::memcpy(bytes.data(), &header, sizeof(header));
  return bytes;
}

StatusOr<StateRecordHeader> DecodeStateHeader(std::span<const std::byte> bytes,
                                              std::size_t num_parameters) {
  StateRecordHeader header;
  if (bytes.size() != sizeof(header)) {
    return absl::DataLossError(fmt::format("a copy of state has a header of {} bytes; it has {}",
                                           bytes.size(), sizeof(header)));
  }
  std::memcpy(&header, bytes.data(), sizeof(header));
  const auto last = static_cast<std::int64_t>(num_parameters);
  const bool is_parameter = header.kind == StateRecordKind::kParameter;
  const bool known =
      is_parameter || header.kind == StateRecordKind::kStep || header.kind == StateRecordKind::kEnd;
  if (!known || header.index < 0 || header.index > (is_parameter ? last - 1 : last)) {
    return absl::DataLossError(fmt::format("a copy of state names parameter {} of {} (kind {})",
                                           header.index, num_parameters,
                                           static_cast<int>(header.kind)));
  }
  return header;
}

std::size_t StateBytes(const ParameterState& parameter) {
  return parameter.value.size_bytes() + parameter.first.size_bytes() +
         parameter.second.size_bytes();
}

std::vector<std::byte> CopyState(const ParameterState& parameter) {
  std::vector<std::byte> bytes;
  bytes.reserve(StateBytes(parameter));
  for (const std::span<float> numbers : {parameter.value, parameter.first, parameter.second}) {
    const auto part = std::as_bytes(numbers);
    bytes.insert(bytes.end(), part.begin(), part.end());
  }
  return bytes;
}

void WriteState(std::span<const std::byte> bytes, const ParameterState& parameter) {
  RC_CHECK(bytes.size() == StateBytes(parameter)) << bytes.size() << " bytes of state";
  std::size_t offset = 0;
  for (const std::span<float> numbers : {parameter.value, parameter.first, parameter.second}) {
    std::memcpy(numbers.data(), bytes.data() + offset, numbers.size_bytes());
    offset += numbers.size_bytes();
  }
}

}  // namespace recycle
