#include "recycle/executor/snapshot_keeper.h"

#include <fmt/format.h>

#include <utility>

#include "recycle/base/log.h"
#include "recycle/executor/state_record.h"

namespace recycle {
namespace {

// Takes those out of `ends` that `goes` says. Their threads end with what is returned, outside any
// lock.
template <typename End, typename Goes>
std::map<std::int64_t, End> TakeOut(std::map<std::int64_t, End>& ends, Goes goes) {
  std::map<std::int64_t, End> out;
  for (auto end = ends.begin(); end != ends.end();) {
    const auto next = std::next(end);
    if (goes(*end)) out.insert(ends.extract(end));
    end = next;
  }
  return out;
}

}  // namespace

SnapshotKeeper::SnapshotKeeper(const ExecutorOptions& options, std::shared_ptr<Device> device,
                               ControlLink& control, FaultInjector& injector)
    : options_(options), device_(std::move(device)), control_(control), injector_(injector) {}

// --- control thread --------------------------------------------------------------------------

void SnapshotKeeper::Handle(const Transfer& transfer) {
  const bool opens = transfer.donor_end.empty();
  if (opens && transfer.donor == options_.worker) return OpenGiver(transfer);
  if (opens && transfer.joiner == options_.worker) return OpenTaker(transfer);
  const std::lock_guard lock(mutex_);
  if (const auto giver = givers_.find(transfer.transfer); giver != givers_.end()) {
    BeginGiver(transfer.transfer, giver->second, transfer.joiner_end);
  } else if (const auto taker = takers_.find(transfer.transfer); taker != takers_.end()) {
    taker->second.receiver->Begin(transfer.donor_end);
  }
}

// One that follows takes the place of the one before: that was another coordinator's.
void SnapshotKeeper::OpenGiver(const Transfer& transfer) {
  const std::int64_t id = transfer.transfer;
  const SnapshotOrder order = *transfer.snapshot;
  // For a single one everybody waits.
  const double rate = order.version ? 0 : options_.copy_bytes_per_second;
  auto donor =
      std::make_unique<StateDonor>(device_, transfer, rate, [this, id](const std::string& error) {
        control_.Send(TransferBroken{.transfer = id, .error = error});
      });
  control_.Send(TransferOpened{.transfer = id, .address = donor->address()});
  std::map<std::int64_t, Giver> old;
  const std::lock_guard lock(mutex_);
  if (!order.version) {
    old = TakeOut(givers_, [](const auto& entry) { return !entry.second.order.version; });
  }
  givers_.insert_or_assign(id, Giver{order, std::move(donor)});
}

void SnapshotKeeper::OpenTaker(const Transfer& transfer) {
  const std::int64_t id = transfer.transfer;
  const SnapshotOrder order = *transfer.snapshot;
  SnapshotReceiver::Events events;
  events.begins = [this, order](int version) {
    const std::lock_guard lock(mutex_);
    store_.Begin(order.stage, version);
  };
  events.complete = [this, order](Snapshot snapshot) { Keep(order.stage, std::move(snapshot)); };
  events.broken = [this, id](const std::string& error) {
    control_.Send(TransferBroken{.transfer = id, .error = error});
  };
  auto receiver = std::make_unique<SnapshotReceiver>(device_, transfer, std::move(events));
  control_.Send(TransferOpened{.transfer = id, .address = receiver->address()});
  std::map<std::int64_t, Taker> old;
  const std::lock_guard lock(mutex_);
  if (!order.version) {
    old = TakeOut(takers_, [&](const auto& entry) {
      return !entry.second.order.version && entry.second.order.stage == order.stage;
    });
  }
  takers_.insert_or_assign(id, Taker{order, std::move(receiver)});
}

void SnapshotKeeper::BeginGiver(std::int64_t id, Giver& giver, const std::string& joiner_end) {
  giver.donor->Begin(joiner_end);
  const Snapshot* const snapshot = giver.order.version
                                       ? store_.Find(giver.order.stage, *giver.order.version)
                                       : store_.Newest(giver.order.stage);
  if (snapshot != nullptr) {
    giver.donor->Give(*snapshot);
  } else if (giver.order.version) {
    control_.Send(TransferBroken{.transfer = id, .error = "that snapshot has gone"});
  }
}

void SnapshotKeeper::Handle(const EndTransfer& end) {
  std::map<std::int64_t, Giver> giver;
  std::map<std::int64_t, Taker> taker;
  const auto is_it = [&](const auto& entry) { return entry.first == end.transfer; };
  const std::lock_guard lock(mutex_);
  giver = TakeOut(givers_, is_it);
  taker = TakeOut(takers_, is_it);
}

void SnapshotKeeper::Handle(const SnapshotCounts& counts) {
  const std::lock_guard lock(mutex_);
  store_.Count(counts.version);
}

// --- any thread ------------------------------------------------------------------------------

void SnapshotKeeper::Keep(StageId stage, Snapshot snapshot) {
  const SnapshotHeld held = Describe(stage, snapshot);
  {
    const std::lock_guard lock(mutex_);
    store_.Put(stage, std::move(snapshot));
  }
  LogInfo("keeps the state of stage {} after iteration {}: {} bytes", stage.value(), held.version,
          held.bytes);
  control_.Send(held);
}

// --- training thread -------------------------------------------------------------------------

void SnapshotKeeper::Take(OptimizerStep& step, bool anew) {
  const int every = options_.snapshot_every;
  const int version = step.version();
  if (every == 0 || version == options_.iterations || (version % every != 0 && !anew)) return;
  const StageId stage = options_.worker.stage;
  {
    const std::lock_guard lock(mutex_);
    store_.Begin(stage, version);
  }
  const std::vector<ParameterState> state = step.state();
  Snapshot snapshot{
      .version = version, .squared_norm = step.final_squared_norm(), .parameters = {}};
  for (const ParameterState& parameter : state) {
    if (snapshot.parameters.size() == state.size() / 2) {
      injector_.At(FaultPoint::kSnapshot, version - 1);
    }
    snapshot.parameters.push_back(
        std::make_shared<const std::vector<std::byte>>(CopyState(parameter)));
  }
  Keep(stage, snapshot);
  const std::lock_guard lock(mutex_);
  for (const auto& [transfer, giver] : givers_) {
    if (!giver.order.version) giver.donor->Give(snapshot);
  }
}

StatusOr<std::optional<double>> SnapshotKeeper::Restore(int version, OptimizerStep& step) {
  const std::lock_guard lock(mutex_);
  const Snapshot* const snapshot = store_.Find(options_.worker.stage, version);
  if (snapshot == nullptr) {
    return absl::NotFoundError(fmt::format("there is no snapshot of iteration {} here", version));
  }
  const std::vector<ParameterState> state = step.state();
  bool fits = state.size() == snapshot->parameters.size();
  for (std::size_t i = 0; fits && i < state.size(); ++i) {
    fits = StateBytes(state[i]) == snapshot->parameters[i]->size();
  }
  if (!fits) {
    return absl::DataLossError(
        fmt::format("the snapshot of iteration {} is not of this stage", version));
  }
  for (std::size_t i = 0; i < state.size(); ++i) WriteState(*snapshot->parameters[i], state[i]);
  return snapshot->squared_norm;
}

void SnapshotKeeper::StartOver(std::optional<int> version) {
  const std::lock_guard lock(mutex_);
  store_.KeepOnly(version);
}

std::vector<SnapshotHeld> SnapshotKeeper::held() const {
  const std::lock_guard lock(mutex_);
  return store_.Held();
}

}  // namespace recycle
