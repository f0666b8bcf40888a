#include "recycle/executor/control_reader.h"

#include <variant>

#include "recycle/base/log.h"

namespace recycle {
namespace {

template <typename... Functions>
struct Overloaded : Functions... {
  using Functions::operator()...;
};
template <typename... Functions>
Overloaded(Functions...) -> Overloaded<Functions...>;

}  // namespace

ControlReader::ControlReader(ControlLink& control, ControlMailbox& mailbox,
                             StateTransfers& transfers, SnapshotKeeper& snapshots,
                             std::function<void(const Prepare&)> on_prepare,
                             std::function<void(const std::string& reason)> on_fence,
                             std::function<void(const Leave&)> on_leave)
    : control_(control),
      mailbox_(mailbox),
      transfers_(transfers),
      snapshots_(snapshots),
      on_prepare_(std::move(on_prepare)),
      on_fence_(std::move(on_fence)),
      on_leave_(std::move(on_leave)),
      thread_([this] { Loop(); }) {}

void ControlReader::Loop() {
  for (;;) {
    StatusOr<CoordinatorMessage> message = control_.Receive();
    if (!message.ok()) {
      LogInfo("the control link has ended: {}", std::string(message.status().message()));
      mailbox_.PostEnd(absl::UnavailableError(message.status().message()));
      return;
    }
    Handle(*std::move(message));
  }
}

void ControlReader::Handle(CoordinatorMessage message) {
  std::visit(
      Overloaded{
          [this](Prepare& prepare) {
            on_prepare_(prepare);
            mailbox_.Post(std::move(prepare));
          },
          [this](Resume& resume) { mailbox_.Post(std::move(resume)); },
          [this](const Ask& ask) { control_.Send(StillHere{.nonce = ask.nonce}); },
          [this](const Fence& fence) { on_fence_(fence.reason); },
          [this](const StopRequest&) { mailbox_.PostStopRequest(); },
          [this](const Drain& drain) { mailbox_.Post(drain); },
          [](const Recorded&) {},  // whoever keeps messages for the next coordinator has seen it
          [this](const Transfer& transfer) {
            if (transfer.snapshot) return snapshots_.Handle(transfer);
            transfers_.Handle(transfer);
          },
          [this](const EndTransfer& end) {
            transfers_.Handle(end);
            snapshots_.Handle(end);
          },
          [this](const SnapshotCounts& counts) { snapshots_.Handle(counts); },
          [this](const Leave& leave) {
            on_leave_(leave);
            mailbox_.PostEnd(absl::CancelledError("told to leave"));
          },
      },
      message);
}

}  // namespace recycle
