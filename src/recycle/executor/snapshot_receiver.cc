#include "recycle/executor/snapshot_receiver.h"

#include <fmt/format.h>

#include <cstddef>
#include <utility>

namespace recycle {
namespace {

// A stage has less: what else comes is no state.
constexpr std::size_t kMostParameters = std::size_t{1} << 20;

}  // namespace

SnapshotReceiver::SnapshotReceiver(const std::shared_ptr<Device>& device, const Transfer& transfer,
                                   Events events)
    : events_(std::move(events)), receiver_(device, transfer) {}

void SnapshotReceiver::Begin(const std::string& donor_end) {
  receiver_.Begin(donor_end, [this](const Status& connected) {
    const Status status = connected.ok() ? Receive() : connected;
    if (!absl::IsAborted(status)) events_.broken(std::string(status.message()));
  });
}

Status SnapshotReceiver::Receive() {
  for (;;) {
    RC_ASSIGN_OR_RETURN(StateRecord record, receiver_.Take(kMostParameters));
    RC_RETURN_IF_ERROR(Add(std::move(record)));
  }
}

Status SnapshotReceiver::Add(StateRecord record) {
  const StateRecordHeader& header = record.header;
  const bool is_parameter = header.kind == StateRecordKind::kParameter;
  if (is_parameter && header.index == 0) {  // a newer one, in place of what has come
    snapshot_ = {.version = header.version, .parameters = {}};
    events_.begins(header.version);
  }
  if (header.kind == StateRecordKind::kStep || header.version != snapshot_.version ||
      static_cast<std::size_t>(header.index) != snapshot_.parameters.size()) {
    return absl::DataLossError(fmt::format(
        "of the snapshot of iteration {} came record {} of iteration {} where {} was due",
        snapshot_.version, header.index, header.version, snapshot_.parameters.size()));
  }
  if (is_parameter) {
    snapshot_.parameters.push_back(
        std::make_shared<const std::vector<std::byte>>(std::move(record.bytes)));
  } else {
    if (header.knows_verdict != 0) snapshot_.squared_norm = header.verdict_squared_norm;
    events_.complete(std::exchange(snapshot_, {}));
  }
  return OkStatus();
}

}  // namespace recycle
