#include "recycle/executor/state_record_reader.h"

#include <fmt/format.h>

#include <utility>

namespace recycle {

StatusOr<StateRecord> StateRecordReader::Take(std::size_t num_parameters) {
  StateRecord record;
  RC_ASSIGN_OR_RETURN(const std::vector<std::byte> wire, TakeFrame());
  RC_ASSIGN_OR_RETURN(record.header, DecodeStateHeader(wire, num_parameters));
  RC_ASSIGN_OR_RETURN(record.bytes, TakeBytes(record.header.bytes));
  return record;
}

StatusOr<std::vector<std::byte>> StateRecordReader::TakeFrame() {
  RC_ASSIGN_OR_RETURN(Frame frame, inbox_.Take(StateFrameKey(next_frame_++)));
  return std::move(frame.payload);
}

StatusOr<std::vector<std::byte>> StateRecordReader::TakeBytes(std::uint64_t size) {
  std::vector<std::byte> bytes;
  while (bytes.size() < size) {
    RC_ASSIGN_OR_RETURN(const std::vector<std::byte> chunk, TakeFrame());
    if (chunk.empty() || chunk.size() > size - bytes.size()) {
      return absl::DataLossError(fmt::format("a chunk of {} bytes came where {} were due",
                                             chunk.size(), size - bytes.size()));
    }
    bytes.insert(bytes.end(), chunk.begin(), chunk.end());
  }
  return bytes;
}

}  // namespace recycle
