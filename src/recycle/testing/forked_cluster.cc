#include "recycle/testing/forked_cluster.h"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <fstream>
#include <variant>

#include "recycle/base/check.h"
#include "recycle/base/log.h"
#include "recycle/executor/executor.h"
#include "recycle/executor/pacer.h"
#include "recycle/nn/model_options.h"
#include "recycle/planner/remainder.h"
#include "recycle/rpc/convert.h"

namespace recycle {
namespace {

// Message boundaries are the socket's (SOCK_SEQPACKET).
bool SendBytes(int socket, const std::string& bytes) {
  return send(socket, bytes.data(), bytes.size(), MSG_NOSIGNAL) ==
         static_cast<ssize_t>(bytes.size());
}

// The next message; empty when the other end is gone (no message is empty).
std::string ReceiveBytes(int socket) {
  const ssize_t size = recv(socket, nullptr, 0, MSG_PEEK | MSG_TRUNC);
  if (size <= 0) return {};
  std::string bytes(static_cast<std::size_t>(size), '\0');
  if (recv(socket, bytes.data(), bytes.size(), 0) != size) return {};
  return bytes;
}

class SocketControlLink : public ControlLink {
 public:
  explicit SocketControlLink(int socket) : socket_(socket) {}

  void Send(const ExecutorMessage& message) override {
    SendBytes(socket_, ToProto(message).SerializeAsString());
  }

  StatusOr<CoordinatorMessage> Receive() override {
    v1::CoordinatorMessage message;
    const std::string bytes = ReceiveBytes(socket_);
    if (bytes.empty()) return absl::UnavailableError("the coordinator's end is closed");
    RC_CHECK(message.ParseFromString(bytes)) << "a message that is none";
    return FromProto(message);
  }

  void Close() override { shutdown(socket_, SHUT_RDWR); }

 private:
  const int socket_;
};

CoordinatorOptions ToCoordinatorOptions(const ClusterOptions& options) {
  CoordinatorOptions result;
  result.parallel = options.executor.parallel;
  result.micro_batches = options.executor.micro_batches;
  result.iterations = options.executor.iterations;
  result.tied = options.executor.model.tied;
  result.failure_timeout = options.failure_timeout;
  result.snapshots = options.executor.snapshot_every > 0;
  return result;
}

}  // namespace

ForkedCluster::ForkedCluster(ClusterOptions options)
    : options_(std::move(options)),
      coordinator_(ToCoordinatorOptions(options_), options_.make_plan, OrderRemainder,
                   CanonicalParameterNames(options_.executor.model)) {}

ForkedCluster::~ForkedCluster() {
  for (auto& [worker, process] : processes_) {
    if (process.socket >= 0) close(process.socket);
    if (process.pid == 0) continue;
    kill(process.pid, SIGKILL);
    waitpid(process.pid, nullptr, 0);
  }
}

std::string ForkedCluster::FileOf(const char* what, WorkerId worker, const char* suffix) const {
  return fmt::format("{}/{}-{}-{}.{}", options_.folder, what, worker.pipeline.value(),
                     worker.stage.value(), suffix);
}

ClusterResult ForkedCluster::Run() {
  deadline_ = SystemClock().Now() + options_.limit;
  for (const WorkerId worker : LiveWorkers(options_.executor.parallel, {})) Start(worker);
  while (!result_.end.has_value() && SystemClock().Now() < deadline_) WaitForMessages();
  // Those that were told to leave end by themselves.
  while (EndedWell() && IsAnyAlive() && SystemClock().Now() < deadline_) WaitForMessages();
  return result_;
}

bool ForkedCluster::EndedWell() const {
  return result_.end.has_value() &&
         (result_.end->how == EndJob::How::kDone || result_.end->how == EndJob::How::kStopped);
}

bool ForkedCluster::IsAnyAlive() const {
  return std::any_of(processes_.begin(), processes_.end(),
                     [](const auto& entry) { return entry.second.pid != 0; });
}

void ForkedCluster::Start(WorkerId worker) {
  int ends[2];
  RC_CHECK(socketpair(AF_UNIX, SOCK_SEQPACKET | SOCK_CLOEXEC, 0, ends) == 0) << "socketpair";
  const pid_t pid = fork();
  RC_CHECK(pid >= 0) << "fork";
  if (pid == 0) {
    for (const auto& [other, process] : processes_) close(process.socket);
    close(ends[0]);
    RunChild(worker, ends[1]);
  }
  close(ends[1]);
  processes_[worker] = {pid, ends[0]};
}

void ForkedCluster::RunChild(WorkerId worker, int socket) {
  prctl(PR_SET_PDEATHSIG, SIGKILL);
  InitLog(fmt::format("executor {}", ToString(worker)), FileOf("executor", worker, "log"));
  ExecutorOptions executor = options_.executor;
  executor.worker = worker;
  executor.trace_file = FileOf("trace", worker, "jsonl");
  if (executor.pace) {
    PreparePacedProcess(worker.pipeline.value() * executor.parallel.pipeline +
                        worker.stage.value());
  }
  SocketControlLink control(socket);
  _exit(static_cast<int>(RunExecutor(executor, control, SystemClock()).code));
}

void ForkedCluster::WaitForMessages() {
  std::vector<pollfd> polled;
  std::vector<WorkerId> workers;
  for (const auto& [worker, process] : processes_) {
    if (process.socket < 0) continue;
    polled.push_back({.fd = process.socket, .events = POLLIN, .revents = 0});
    workers.push_back(worker);
  }
  const TimePoint due = std::min(deadline_, coordinator_.NextDeadline().value_or(deadline_));
  const Duration wait = std::max(Duration(0), due - SystemClock().Now());
  const auto milliseconds = std::chrono::ceil<std::chrono::milliseconds>(wait).count();
  poll(polled.data(), polled.size(), static_cast<int>(milliseconds));
  for (std::size_t i = 0; i < polled.size(); ++i) {
    if (polled[i].revents != 0) Receive(workers[i], processes_[workers[i]]);
  }
  Step(TimePassed{});
}

void ForkedCluster::Receive(WorkerId worker, Process& process) {
  const std::string bytes = ReceiveBytes(process.socket);
  if (bytes.empty()) {
    close(process.socket);
    process.socket = -1;
    Step(StreamClosed{worker});
    Reap(worker, process);
    return;
  }
  v1::ExecutorMessage proto;
  RC_CHECK(proto.ParseFromString(bytes)) << "a message that is none";
  StatusOr<ExecutorMessage> message = FromProto(proto);
  RC_CHECK(message.ok()) << message.status().message();
  if (const auto* hello = std::get_if<Hello>(&*message)) result_.pids[worker] = hello->pid;
  Step(FromExecutor{.worker = worker, .message = *std::move(message)});
}

// The process has closed its stream: it has ended or is about to.
void ForkedCluster::Reap(WorkerId worker, Process& process) {
  int status = 0;
  waitpid(process.pid, &status, 0);
  result_.wait_statuses[worker] = status;
  const pid_t pid = process.pid;
  process.pid = 0;
  Step(FromAgent{.message = ExecutorExited{.worker = worker, .pid = pid, .wait_status = status},
                 .agent = 0});
}

void ForkedCluster::Step(const Event& event) {
  events_.push(event);
  for (; !events_.empty(); events_.pop()) {
    for (const Effect& effect : coordinator_.Step(events_.front(), SystemClock().Now())) {
      Handle(effect);
    }
  }
}

void ForkedCluster::Handle(const Effect& effect) {
  if (const auto* send = std::get_if<SendTo>(&effect)) {
    Send(*send);
  } else if (const auto* store = std::get_if<StoreRecord>(&effect)) {
    result_.records.push_back(store->record);
    events_.emplace(RecordStored{store->record.generation});
  } else if (const auto* iteration = std::get_if<AnnounceIteration>(&effect)) {
    result_.iterations.push_back(*iteration);
    if (options_.on_iteration) options_.on_iteration(iteration->done.iteration, result_.pids);
    if (options_.stop_after_iteration == iteration->done.iteration) events_.emplace(StopWanted{});
  } else if (const auto* resumed = std::get_if<AnnounceResumed>(&effect)) {
    result_.resumes.push_back(*resumed);
  } else if (const auto* fault = std::get_if<AnnounceFault>(&effect)) {
    result_.faults.push_back(*fault);
  } else if (const auto* rollback = std::get_if<AnnounceRollback>(&effect)) {
    result_.rollbacks.push_back(*rollback);
  } else if (const auto* redo = std::get_if<AnnounceRedo>(&effect)) {
    result_.redone.push_back(redo->quantum);
  } else if (const auto* skipped = std::get_if<AnnounceSkippedStep>(&effect)) {
    result_.skipped_steps.push_back(*skipped);
  } else if (const auto* end = std::get_if<EndJob>(&effect)) {
    result_.end = *end;
  }
}

void ForkedCluster::Send(const SendTo& send) {
  const auto found = processes_.find(send.worker);
  if (found == processes_.end() || found->second.socket < 0) return;
  SendBytes(found->second.socket, ToProto(send.message).SerializeAsString());
}

std::vector<std::string> ForkedCluster::TraceLines(WorkerId worker) const {
  std::ifstream file(FileOf("trace", worker, "jsonl"));
  std::vector<std::string> lines;
  for (std::string line; std::getline(file, line);) lines.push_back(line);
  return lines;
}

}  // namespace recycle
