#include "recycle/executor/executor.h"

#include <ATen/Parallel.h>
#include <unistd.h>

#include <cstdlib>
#include <exception>
#include <memory>
#include <optional>

#include "recycle/base/log.h"
#include "recycle/comm/device.h"
#include "recycle/executor/batch_source.h"
#include "recycle/executor/control_mailbox.h"
#include "recycle/executor/control_reader.h"
#include "recycle/executor/fault_injector.h"
#include "recycle/executor/heartbeat.h"
#include "recycle/executor/norm_book.h"
#include "recycle/executor/pacer.h"
#include "recycle/executor/peer_network.h"
#include "recycle/executor/position.h"
#include "recycle/executor/profile_writer.h"
#include "recycle/executor/snapshot_keeper.h"
#include "recycle/executor/state_transfers.h"
#include "recycle/executor/training_loop.h"
#include "recycle/nn/allocator.h"
#include "recycle/nn/arithmetic.h"
#include "recycle/nn/stage_model.h"

namespace recycle {
namespace {

PeerNetworkOptions NetworkOptions(const ExecutorOptions& options) {
  const std::size_t activation = static_cast<std::size_t>(options.micro_batch_size) *
                                     static_cast<std::size_t>(options.model.sequence) *
                                     static_cast<std::size_t>(options.model.hidden) *
                                     sizeof(float) +
                                 kRiderBytes;
  return {.self = options.worker,
          .num_stages = options.parallel.num_stages(),
          .tied = options.model.tied,
          .max_payload_bytes = std::max<std::size_t>(activation, 64)};
}

[[noreturn]] void LeaveFenced(const std::string& reason) {
  LogWarning("fenced: {}", reason);
  // At once: the training thread may be stuck for as long as its peers are.
  _exit(static_cast<int>(ExitCode::kFenced));
}

// Trains until the job is over. Exceptions of libtorch (memory) end here: they are last words.
Status Train(const ExecutorOptions& options, const TrainingServices& services) {
  try {
    RC_ASSIGN_OR_RETURN(const BatchSource batches, BatchSource::Open(options));
    const LayerRange layers =
        options.layers[static_cast<std::size_t>(options.worker.stage.value())];
    StageModel model(options.model, layers.begin, layers.end);
    TrainingLoop loop(options, services, batches, model);
    return loop.Run();
  } catch (const std::exception& error) {
    return absl::InternalError(error.what());
  }
}

ExitCode ToExitCode(const Status& end) {
  if (end.code() == StatusCode::kCancelled) return ExitCode::kDone;
  if (end.code() == StatusCode::kUnavailable) return ExitCode::kUnreachable;
  return ExitCode::kNo;
}

}  // namespace

ExecutorEnd RunExecutor(const ExecutorOptions& options, ControlLink& control, const Clock& clock) {
  TuneAllocator();
  at::set_num_threads(1);
  Position position;
  FaultInjector injector(options, control, clock);
  injector.At(FaultPoint::kStart, /*iteration=*/0);
  control.Send(Hello{.worker = options.worker,
                     .pid = getpid(),
                     .generation = Generation(0),
                     .version = 0,
                     .arithmetic = Arithmetic()});

  StatusOr<std::shared_ptr<Device>> device = Device::Create(options.bind_address);
  if (!device.ok()) {
    control.Send(LastWords{.message = std::string(device.status().message())});
    control.Close();
    return {.code = ExitCode::kNo, .next = {}};
  }
  ProfileWriter profile(options.profile_file, clock);
  PeerNetwork network(
      NetworkOptions(options), *device,
      [&](Generation generation, WorkerId peer, const std::string& error) {
        LogWarning("the link to {} broke: {}", ToString(peer), error);
        control.Send(LinkBroken{.generation = generation, .peer = peer, .error = error});
      });
  if (profile.on()) network.Measure(profile);
  std::optional<Pacer> pacer;
  if (options.pace) {
    pacer.emplace(options.worker.stage, *options.pace, clock);
    network.Pace(*pacer);
  }
  injector.SetLinkCutter({.has_link = [&network](WorkerId peer) { return network.HasLink(peer); },
                          .cut = [&network](WorkerId peer) { network.CutLink(peer); }});
  ControlMailbox mailbox(network);
  StateTransfers transfers(options.worker, options.copy_bytes_per_second, *device, control, mailbox,
                           injector, position);
  SnapshotKeeper snapshots(options, *device, control, injector);
  std::optional<WorkerId> next;  // written before the mailbox says that it is the end
  const ControlReader reader(
      control, mailbox, transfers, snapshots,
      [&network](const Prepare& prepare) { network.Expect(prepare); }, LeaveFenced,
      [&next](const Leave& leave) { next = leave.next; });
  const HeartbeatThread heartbeat(options.heartbeat_interval, position, control, injector);

  const Clock& time = pacer ? static_cast<const Clock&>(*pacer) : clock;
  const Status end = Train(options, {control, mailbox, network, transfers, snapshots, injector,
                                     position, profile, time, pacer ? &*pacer : nullptr});
  const ExitCode code = ToExitCode(end);
  LogInfo("leaving with {}: {}", static_cast<int>(code), std::string(end.message()));
  if (code == ExitCode::kNo) control.Send(LastWords{.message = std::string(end.message())});
  control.Close();  // ends the reader
  return {.code = code, .next = code == ExitCode::kDone ? next : std::nullopt};
}

}  // namespace recycle
