#include "recycle/executor/state_donor.h"

#include <algorithm>
#include <chrono>
#include <utility>

namespace recycle {
namespace {

// Parameters that may lie in memory, by how long it takes to send them.
constexpr double kWaitingSeconds = 1.0;

}  // namespace

StateDonor::StateDonor(const std::shared_ptr<Device>& device, const Transfer& transfer,
                       double bytes_per_second,
                       std::function<void(const std::string& error)> on_broken)
    : joiner_(transfer.joiner),
      bytes_per_second_(bytes_per_second),
      on_broken_(std::move(on_broken)),
      mesh_(device, transfer.donor, kStateChunkBytes, inbox_,
            [this](WorkerId /*joiner*/, const std::string& error) { Break(error); }),
      address_(mesh_.Open({joiner_}).at(joiner_)) {}

StateDonor::~StateDonor() {
  {
    const std::lock_guard lock(mutex_);
    over_ = true;
  }
  changed_.notify_all();
  if (!thread_.joinable()) return;
  mesh_.Abort(absl::AbortedError("the copy is over"));
  thread_.join();
}

void StateDonor::Begin(const std::string& joiner_end) {
  if (!thread_.joinable()) thread_ = std::thread([this, joiner_end] { Run(joiner_end); });
}

void StateDonor::Break(const std::string& error) {
  {
    const std::lock_guard lock(mutex_);
    // After End the joiner closes the link as soon as it has everything; if it has not, it says so.
    if (std::exchange(over_, true) || ended_) return;
  }
  changed_.notify_all();
  on_broken_(error);
}

// --- training thread -------------------------------------------------------------------------

void StateDonor::AfterStep(OptimizerStep& step) {
  const std::lock_guard lock(mutex_);
  if (!connected_ || over_ || ended_) return;
  if (given_ > 0) PushStep(step);
  const std::vector<ParameterState> state = step.state();
  for (; given_ < state.size(); ++given_) {
    if (bytes_per_second_ > 0 &&
        static_cast<double>(waiting_bytes_) >= bytes_per_second_ * kWaitingSeconds) {
      break;
    }
    StateRecordHeader header;
    header.version = step.version();
    header.index = static_cast<std::int32_t>(given_);
    Push(header, std::make_shared<const std::vector<std::byte>>(CopyState(state[given_])));
  }
  changed_.notify_all();
}

void StateDonor::PushStep(const OptimizerStep& step) {
  StateRecordHeader header;
  header.kind = StateRecordKind::kStep;
  header.version = step.version() - 1;
  header.index = static_cast<std::int32_t>(given_);
  header.squared_norm = step.last_squared_norm();
  header.redone = step.last_was_redone() ? 1 : 0;
  std::vector<std::byte> bytes;
  for (std::size_t i = 0; i < given_; ++i) {
    const auto gradient = std::as_bytes(step.last_gradients()[i]);
    bytes.insert(bytes.end(), gradient.begin(), gradient.end());
  }
  Push(header, std::make_shared<const std::vector<std::byte>>(std::move(bytes)));
}

void StateDonor::End(const OptimizerStep& step, bool owes_validation) {
  const std::lock_guard lock(mutex_);
  if (std::exchange(ended_, true)) return;
  const OptimizerStep::Scalars scalars = step.scalars();
  StateRecordHeader header;
  header.kind = StateRecordKind::kEnd;
  header.version = scalars.version;
  header.index = static_cast<std::int32_t>(given_);
  header.owes_validation = owes_validation ? 1 : 0;
  header.stop_agreed = scalars.stop_agreed ? 1 : 0;
  header.stops_next = scalars.stops_next ? 1 : 0;
  header.clean_in_a_row = scalars.clean_in_a_row;
  header.skipped_in_a_row = scalars.skipped_in_a_row;
  if (scalars.verdict) {
    header.knows_verdict = 1;
    header.verdict_stop = scalars.verdict->stop ? 1 : 0;
    header.verdict_squared_norm = scalars.verdict->squared_norm;
  }
  header.squared_norm = scalars.previous_squared_norm;
  Push(header, std::make_shared<const std::vector<std::byte>>());
  changed_.notify_all();
}

void StateDonor::Give(const Snapshot& snapshot) {
  const std::lock_guard lock(mutex_);
  if (over_) return;
  outgoing_.clear();
  waiting_bytes_ = 0;
  StateRecordHeader header;
  header.version = snapshot.version;
  for (const SharedBytes& bytes : snapshot.parameters) {
    Push(header, bytes);
    ++header.index;
  }
  header.kind = StateRecordKind::kEnd;
  header.knows_verdict = snapshot.squared_norm ? 1 : 0;
  header.verdict_squared_norm = snapshot.squared_norm.value_or(0);
  Push(header, std::make_shared<const std::vector<std::byte>>());
  changed_.notify_all();
}

void StateDonor::Push(StateRecordHeader header, SharedBytes bytes) {
  header.bytes = bytes->size();
  if (header.kind == StateRecordKind::kParameter) waiting_bytes_ += bytes->size();
  outgoing_.push_back({header, std::move(bytes)});
}

// --- the copy's thread -----------------------------------------------------------------------

void StateDonor::Run(const std::string& joiner_end) {
  const Status connected = mesh_.Connect({{joiner_, joiner_end}});
  if (!connected.ok()) return Break(std::string(connected.message()));
  {
    const std::lock_guard lock(mutex_);
    connected_ = true;
  }
  while (const std::optional<Outgoing> record = Next()) {
    if (!SendRecord(*record)) return;
  }
}

std::optional<StateDonor::Outgoing> StateDonor::Next() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return over_ || !outgoing_.empty(); });
  if (over_) return std::nullopt;
  Outgoing record = std::move(outgoing_.front());
  outgoing_.pop_front();
  return record;
}

bool StateDonor::SendRecord(const Outgoing& record) {
  const bool limited = record.header.kind == StateRecordKind::kParameter;
  if (!SendFrame(
          std::make_shared<const std::vector<std::byte>>(EncodeStateHeader(record.header)))) {
    return false;
  }
  const std::vector<std::byte>& bytes = *record.bytes;
  for (std::size_t begin = 0; begin < bytes.size(); begin += kStateChunkBytes) {
    const std::size_t size = std::min(kStateChunkBytes, bytes.size() - begin);
    if (limited && !AwaitTurn(size)) return false;
    const auto first = bytes.begin() + static_cast<std::ptrdiff_t>(begin);
    if (!SendFrame(std::make_shared<const std::vector<std::byte>>(
            first, first + static_cast<std::ptrdiff_t>(size)))) {
      return false;
    }
  }
  if (limited) {
    const std::lock_guard lock(mutex_);
    waiting_bytes_ -= std::min(waiting_bytes_, bytes.size());
  }
  return true;
}

// Each chunk takes its share of the time before it goes out.
bool StateDonor::AwaitTurn(std::size_t bytes) {
  std::unique_lock lock(mutex_);
  if (bytes_per_second_ <= 0) return !over_;
  const std::chrono::duration<double> share(static_cast<double>(bytes) / bytes_per_second_);
  turn_ = std::max(turn_, SystemClock().Now()) + std::chrono::duration_cast<Duration>(share);
  return !changed_.wait_until(lock, turn_, [this] { return over_; });
}

bool StateDonor::SendFrame(SharedBytes bytes) {
  const Status sent = mesh_.Send(
      joiner_, OutgoingFrame(Generation(), StateFrameKey(next_frame_++), std::move(bytes)));
  if (!sent.ok()) Break(std::string(sent.message()));
  return sent.ok();
}

}  // namespace recycle
