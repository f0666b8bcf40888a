#include "recycle/rpc/control_server.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <chrono>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <utility>

#include "recycle/base/log.h"
#include "recycle/rpc/channel.h"
#include "recycle/rpc/convert.h"
#include "recycle/rpc/credentials.h"
#include "recycle/rpc/numeric_address.h"
#include "recycle/rpc/stream_session.h"
#include "recycle/rpc/wire_values.h"
#include "recycle_control.grpc.pb.h"

namespace recycle {
namespace {

using ExecutorSession = StreamSession<v1::ExecutorMessage, v1::CoordinatorMessage>;
using AgentSession = StreamSession<v1::AgentMessage, v1::AgentReply>;

// The streams of one kind, by what their Hello named.
template <typename Key, typename Session>
class SessionTable {
 public:
  // Whose session it is; nothing if it has not said hello, or if its owner has a newer one.
  std::optional<Key> KeyOf(Session* session) const {
    const auto entry = keys_.find(session);
    if (entry == keys_.end()) return std::nullopt;
    // The one that replaced it may be over already.
    const auto newest = sessions_.find(entry->second);
    if (newest == sessions_.end() || newest->second != session) return std::nullopt;
    return entry->second;
  }
  bool HasSaidHello(Session* session) const { return keys_.contains(session); }
  Session* Find(const Key& key) const {
    const auto entry = sessions_.find(key);
    return entry == sessions_.end() ? nullptr : entry->second;
  }
  // Returns the session that this one replaces, or nullptr.
  Session* Bind(Session* session, const Key& key) {
    keys_[session] = key;
    return std::exchange(sessions_[key], session);
  }
  void Remove(Session* session) {
    if (const auto key = KeyOf(session)) sessions_.erase(*key);
    keys_.erase(session);
  }

 private:
  std::map<Session*, Key> keys_;      // every session that has said hello
  std::map<Key, Session*> sessions_;  // the newest one of each
};

}  // namespace

class ControlServer::Impl final : public v1::Control::CallbackService,
                                  private ExecutorSession::Owner,
                                  private AgentSession::Owner {
 public:
  Impl(const RpcSecurity& security, Handlers handlers)
      : security_(security), handlers_(std::move(handlers)) {}

  ~Impl() override {
    {
      const std::lock_guard lock(delivery_mutex_);
      handlers_ = Handlers();
    }
    if (server_ != nullptr) server_->Shutdown(DeadlineAfter(Duration::zero()));
  }

  recycle::Status Listen(const std::string& bind_address) {
    RC_ASSIGN_OR_RETURN(const std::string any_port, JoinAddress(bind_address, 0));
    grpc::ServerBuilder builder;
    int port = 0;
    builder.AddListeningPort(any_port, ServerCredentials(security_), &port);
    builder.AddChannelArgument(GRPC_ARG_ALLOW_REUSEPORT, 0);
    builder.SetMaxReceiveMessageSize(kMaxRequestBytes);
    builder.SetMaxSendMessageSize(kMaxReplyBytes);
    builder.RegisterService(this);
    server_ = builder.BuildAndStart();
    if (server_ == nullptr || port == 0) {
      return absl::UnavailableError(
          fmt::format("cannot listen on {}: no such address on this machine?", bind_address));
    }
    RC_ASSIGN_OR_RETURN(address_, JoinAddress(bind_address, port));
    return OkStatus();
  }

  const std::string& address() const { return address_; }

  void Send(WorkerId worker, const CoordinatorMessage& message) {
    v1::CoordinatorMessage proto = ToProto(message);
    const std::lock_guard lock(table_mutex_);
    ExecutorSession* session = executors_.Find(worker);
    if (session == nullptr) return;
    Record(traffic_.out, proto);
    session->Send(std::move(proto));
  }

  void Send(int agent, const StartExecutor& command) {
    v1::AgentReply proto;
    *proto.mutable_start() = ToProto(command.worker);
    const std::lock_guard lock(table_mutex_);
    AgentSession* session = agents_.Find(agent);
    if (session == nullptr) return;
    Record(traffic_.out, "StartExecutor", proto);
    session->Send(std::move(proto));
  }

  void Close(WorkerId worker) {
    const std::lock_guard lock(table_mutex_);
    if (ExecutorSession* session = executors_.Find(worker)) session->Finish(grpc::Status::OK);
  }

  Traffic traffic() const {
    const std::lock_guard lock(table_mutex_);
    return traffic_;
  }

  Refusals refusals() const {
    const std::lock_guard lock(table_mutex_);
    return refusals_;
  }

 private:
  // --- v1::Control::CallbackService
  grpc::ServerBidiReactor<v1::ExecutorMessage, v1::CoordinatorMessage>* Executor(
      grpc::CallbackServerContext* context) override {
    return Open<v1::ExecutorMessage, v1::CoordinatorMessage>("Executor", *context);
  }

  grpc::ServerBidiReactor<v1::AgentMessage, v1::AgentReply>* Agent(
      grpc::CallbackServerContext* context) override {
    return Open<v1::AgentMessage, v1::AgentReply>("Agent", *context);
  }

  grpc::ServerUnaryReactor* Status(grpc::CallbackServerContext* context,
                                   const v1::StatusRequest* /*request*/,
                                   v1::StatusReply* reply) override {
    const grpc::Status may = MayCall("Status", *context);
    if (!may.ok()) return Answer(context, may);
    {
      const std::lock_guard lock(delivery_mutex_);
      if (handlers_.status_json) reply->set_json(handlers_.status_json());
    }
    return Answer(context);
  }

  grpc::ServerUnaryReactor* Stop(grpc::CallbackServerContext* context,
                                 const v1::StopWish* /*request*/,
                                 v1::StopReply* /*reply*/) override {
    const grpc::Status may = MayCall("Stop", *context);
    if (!may.ok()) return Answer(context, may);
    {
      const std::lock_guard lock(delivery_mutex_);
      if (handlers_.on_stop_wanted) handlers_.on_stop_wanted();
    }
    return Answer(context);
  }

  grpc::ServerUnaryReactor* Drain(grpc::CallbackServerContext* context,
                                  const v1::DrainWish* request,
                                  v1::DrainReply* /*reply*/) override {
    const grpc::Status may = MayCall("Drain", *context);
    if (!may.ok()) return Answer(context, may);
    const auto worker = ReadWorker("worker", request->has_worker(), request->worker());
    if (!worker.ok()) {
      return Answer(context, grpc::Status(grpc::StatusCode::INVALID_ARGUMENT,
                                          std::string(worker.status().message())));
    }
    {
      const std::lock_guard lock(delivery_mutex_);
      if (handlers_.on_drain_wanted) handlers_.on_drain_wanted(*worker);
    }
    return Answer(context);
  }

  // May whoever calls? Whoever may not is counted.
  grpc::Status MayCall(const char* call, const grpc::CallbackServerContext& context) {
    grpc::Status may = CheckToken(security_, context);
    if (may.ok()) return may;
    const std::lock_guard lock(table_mutex_);
    Refuse(fmt::format("{} from {}: {}", call, context.peer(), may.error_message()));
    return may;
  }

  template <typename Request, typename Reply>
  grpc::ServerBidiReactor<Request, Reply>* Open(const char* call,
                                                const grpc::CallbackServerContext& context) {
    grpc::Status may = MayCall(call, context);
    if (may.ok()) may = IsNew(call, context);
    if (!may.ok()) return new RefusedSession<Request, Reply>(may);
    return new StreamSession<Request, Reply>(this);
  }

  // Has no stream of its name been there before?
  grpc::Status IsNew(const char* call, const grpc::CallbackServerContext& context) {
    const std::string name = StreamName(context);
    const std::lock_guard lock(table_mutex_);
    if (!name.empty() && stream_names_.insert(name).second) return grpc::Status::OK;
    const char* const why = "the stream has no name of its own";
    Refuse(fmt::format("{} from {}: {}", call, context.peer(), why));
    return {grpc::StatusCode::UNAUTHENTICATED, why};
  }

  // table_mutex_ is held.
  void Refuse(std::string what) {
    ++refusals_.count;
    refusals_.last = std::move(what);
  }

  static grpc::ServerUnaryReactor* Answer(grpc::CallbackServerContext* context,
                                          const grpc::Status& status = grpc::Status::OK) {
    grpc::ServerUnaryReactor* reactor = context->DefaultReactor();
    reactor->Finish(status);
    return reactor;
  }

  // --- sessions. Delivery is locked from the look-up on, so that the end of a replaced stream, or
  // what it still says, can never be handed out after the Hello of the new one.
  bool OnSessionMessage(ExecutorSession* session, const v1::ExecutorMessage& request,
                        bool in_turn) override {
    const auto message = FromProto(request);
    const auto* hello = message.ok() ? std::get_if<Hello>(&*message) : nullptr;
    const std::lock_guard delivery(delivery_mutex_);
    const auto worker = Admit(executors_, session, request, Readable(message.status(), in_turn),
                              hello == nullptr ? std::optional<WorkerId>() : hello->worker);
    if (!worker) return false;
    if (handlers_.on_executor_message) handlers_.on_executor_message(*worker, *message);
    return true;
  }

  bool OnSessionMessage(AgentSession* session, const v1::AgentMessage& request,
                        bool in_turn) override {
    const auto message = FromProto(request);
    const auto* hello = message.ok() ? std::get_if<AgentHello>(&*message) : nullptr;
    const std::lock_guard delivery(delivery_mutex_);
    const auto agent = Admit(agents_, session, request, Readable(message.status(), in_turn),
                             hello == nullptr ? std::optional<int>() : hello->agent);
    if (!agent) return false;
    if (handlers_.on_agent_message) handlers_.on_agent_message(*agent, *message);
    return true;
  }

  void OnSessionOver(ExecutorSession* session) override {
    const std::lock_guard delivery(delivery_mutex_);
    const auto worker = Dismiss(executors_, session);
    if (worker && handlers_.on_executor_closed) handlers_.on_executor_closed(*worker);
  }

  void OnSessionOver(AgentSession* session) override {
    const std::lock_guard delivery(delivery_mutex_);
    const auto agent = Dismiss(agents_, session);
    if (agent && handlers_.on_agent_closed) handlers_.on_agent_closed(*agent);
  }

  static recycle::Status Readable(const recycle::Status& parsed, bool in_turn) {
    return in_turn ? parsed : absl::InvalidArgumentError("control message: it comes out of turn");
  }

  // Whose message this is; nothing if the stream must end. `hello`: whom the message introduces.
  template <typename Key, typename Session, typename Request>
  std::optional<Key> Admit(SessionTable<Key, Session>& table, Session* session,
                           const Request& request, const recycle::Status& readable,
                           const std::optional<Key>& hello) {
    const std::lock_guard lock(table_mutex_);
    Record(traffic_.in, request);
    if (!readable.ok()) {
      LogWarning("control stream ended: {}", std::string(readable.message()));
      Refuse(std::string(readable.message()));
      return std::nullopt;
    }
    if (hello) {
      Session* old = table.Bind(session, *hello);
      if (old != nullptr && old != session) {
        old->Finish(grpc::Status(grpc::StatusCode::ABORTED, "replaced by a newer stream"));
      }
      return hello;
    }
    const auto key = table.KeyOf(session);
    if (!key) {
      LogWarning("control stream ended: {} of a stranger or an old stream", KindName(request));
      if (!table.HasSaidHello(session)) Refuse(KindName(request) + " of a stranger");
    }
    return key;
  }

  // Forgets the session; returns whose it was unless a newer one has replaced it.
  template <typename Key, typename Session>
  std::optional<Key> Dismiss(SessionTable<Key, Session>& table, Session* session) {
    const std::lock_guard lock(table_mutex_);
    const auto key = table.KeyOf(session);
    table.Remove(session);
    return key;
  }

  static void Record(std::map<std::string, Count>& counts,
                     const google::protobuf::Message& message) {
    Record(counts, KindName(message), message);
  }

  static void Record(std::map<std::string, Count>& counts, const std::string& kind,
                     const google::protobuf::Message& message) {
    Count& count = counts[kind];
    ++count.messages;
    count.bytes += static_cast<std::int64_t>(message.ByteSizeLong());
  }

  const RpcSecurity security_;
  std::mutex delivery_mutex_;  // before table_mutex_; held while a handler runs
  Handlers handlers_;
  mutable std::mutex table_mutex_;  // never held while a handler runs
  SessionTable<WorkerId, ExecutorSession> executors_;
  SessionTable<int, AgentSession> agents_;
  std::set<std::string> stream_names_;  // ever
  Traffic traffic_;
  Refusals refusals_;
  std::string address_;
  std::unique_ptr<grpc::Server> server_;  // last: destroyed first, and with it every session
};

ControlServer::ControlServer(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
ControlServer::~ControlServer() = default;

StatusOr<std::unique_ptr<ControlServer>> ControlServer::Start(const std::string& bind_address,
                                                              const RpcSecurity& security,
                                                              Handlers handlers) {
  auto impl = std::make_unique<Impl>(security, std::move(handlers));
  RC_RETURN_IF_ERROR(impl->Listen(bind_address));
  return std::unique_ptr<ControlServer>(new ControlServer(std::move(impl)));
}

const std::string& ControlServer::address() const { return impl_->address(); }

void ControlServer::Send(WorkerId worker, const CoordinatorMessage& message) {
  impl_->Send(worker, message);
}

void ControlServer::Send(int agent, const StartExecutor& command) { impl_->Send(agent, command); }

void ControlServer::Close(WorkerId worker) { impl_->Close(worker); }

ControlServer::Traffic ControlServer::traffic() const { return impl_->traffic(); }

ControlServer::Refusals ControlServer::refusals() const { return impl_->refusals(); }

}  // namespace recycle
