#include "recycle/executor/state_receiver.h"

#include <fmt/format.h>

#include <utility>

namespace recycle {

StateReceiver::StateReceiver(const std::shared_ptr<Device>& device, const Transfer& transfer)
    : donor_(transfer.donor),
      mesh_(device, transfer.joiner, kStateChunkBytes, inbox_,
            [this](WorkerId /*donor*/, const std::string& error) {
              inbox_.Interrupt(absl::UnavailableError(error));
            }),
      address_(mesh_.Open({donor_}).at(donor_)) {}

StateReceiver::~StateReceiver() {
  if (!thread_.joinable()) return;
  inbox_.Interrupt(absl::AbortedError("the transfer is over"));
  mesh_.Abort(absl::AbortedError("the transfer is over"));
  thread_.join();
}

void StateReceiver::Begin(const std::string& donor_end,
                          std::function<void(const Status& connected)> receive) {
  if (thread_.joinable()) return;
  thread_ = std::thread([this, donor_end, receive = std::move(receive)] {
    receive(mesh_.Connect({{donor_, donor_end}}));
  });
}

StatusOr<StateRecord> StateReceiver::Take(std::size_t num_parameters) {
  StateRecord record;
  RC_ASSIGN_OR_RETURN(const std::vector<std::byte> wire, TakeFrame());
  RC_ASSIGN_OR_RETURN(record.header, DecodeStateHeader(wire, num_parameters));
  RC_ASSIGN_OR_RETURN(record.bytes, TakeBytes(record.header.bytes));
  return record;
}

StatusOr<std::vector<std::byte>> StateReceiver::TakeFrame() {
  RC_ASSIGN_OR_RETURN(Frame frame, inbox_.Take(StateFrameKey(next_frame_++)));
  return std::move(frame.payload);
}

StatusOr<std::vector<std::byte>> StateReceiver::TakeBytes(std::uint64_t size) {
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
