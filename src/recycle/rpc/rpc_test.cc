// The control plane over loopback: real server, real clients, one client in a process of its own.
#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <google/protobuf/util/message_differencer.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>
#include <sys/prctl.h>
#include <sys/socket.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <condition_variable>
#include <csignal>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "recycle/rpc/agent_client.h"
#include "recycle/rpc/channel.h"
#include "recycle/rpc/control_client.h"
#include "recycle/rpc/control_server.h"
#include "recycle/rpc/convert.h"
#include "recycle/rpc/credentials.h"
#include "recycle/rpc/status_client.h"
#include "recycle/testing/sample_messages.h"
#include "recycle_control.grpc.pb.h"

namespace recycle {
namespace {

using ::google::protobuf::util::MessageDifferencer;
using ::testing::HasSubstr;

constexpr std::chrono::seconds kPatience{20};
const RpcSecurity kOpen;  // security_test.cc has the rest

WorkerId At(int pipeline, int stage) { return {PipelineId(pipeline), StageId(stage)}; }

// What the server's handlers saw, in order. Thread-safe.
class Seen {
 public:
  void Add(std::string line) {
    const std::lock_guard lock(mutex_);
    lines_.push_back(std::move(line));
    changed_.notify_all();
  }
  void Keep(v1::ExecutorMessage message) {
    const std::string kind = KindName(message);
    const std::lock_guard lock(mutex_);
    messages_.push_back(std::move(message));
    lines_.push_back(kind);
    changed_.notify_all();
  }
  // Waits until `number` lines are there, or for kPatience.
  std::vector<std::string> WaitForLines(std::size_t number) {
    std::unique_lock lock(mutex_);
    changed_.wait_for(lock, kPatience, [&] { return lines_.size() >= number; });
    return lines_;
  }
  std::vector<v1::ExecutorMessage> messages() {
    const std::lock_guard lock(mutex_);
    return messages_;
  }

 private:
  std::mutex mutex_;
  std::condition_variable changed_;
  std::vector<std::string> lines_;
  std::vector<v1::ExecutorMessage> messages_;
};

std::unique_ptr<ControlServer> StartServer(Seen& seen) {
  ControlServer::Handlers handlers;
  handlers.on_executor_message = [&](WorkerId /*worker*/, const ExecutorMessage& message) {
    seen.Keep(ToProto(message));
  };
  handlers.on_executor_closed = [&](WorkerId worker) { seen.Add("closed " + ToString(worker)); };
  handlers.on_agent_message = [&](int agent, const AgentMessage& message) {
    seen.Add("agent " + std::to_string(agent) + " " + ToProto(message).ShortDebugString());
  };
  handlers.on_agent_closed = [&](int agent) { seen.Add("closed agent " + std::to_string(agent)); };
  handlers.status_json = [] { return std::string("{\"phase\": \"training\"}"); };
  handlers.on_stop_wanted = [&] { seen.Add("stop wanted"); };
  handlers.on_drain_wanted = [&](WorkerId w) { seen.Add("drain wanted of " + ToString(w)); };
  return ControlServer::Start("127.0.0.1", kOpen, std::move(handlers)).value();
}

std::unique_ptr<ControlClient> Connect(const std::string& address) {
  return ControlClient::Connect(address, kOpen, kPatience).value();
}

// Paths of fields that are not set, at any depth: a field that conversion forgets shows up here.
void FindUnset(const google::protobuf::Message& message, std::vector<std::string>& unset) {
  const google::protobuf::Reflection& reflection = *message.GetReflection();
  for (int i = 0; i < message.GetDescriptor()->field_count(); ++i) {
    const google::protobuf::FieldDescriptor* field = message.GetDescriptor()->field(i);
    const auto* oneof = field->real_containing_oneof();
    const bool present = field->is_repeated() ? reflection.FieldSize(message, field) > 0
                                              : reflection.HasField(message, field);
    if (!present && oneof == nullptr) unset.push_back(field->full_name());
    if (!present || field->is_map() || field->message_type() == nullptr) continue;
    FindUnset(field->is_repeated() ? reflection.GetRepeatedMessage(message, field, 0)
                                   : reflection.GetMessage(message, field),
              unset);
  }
}

// Whether every field of every message is filled in (ids of the examples that are 0 excepted).
template <typename Message>
void ExpectNothingForgotten(const Message& message) {
  std::vector<std::string> unset;
  FindUnset(ToProto(message), unset);
  // The stream counts.
  std::erase_if(unset, [](const std::string& field) { return field.ends_with(".sequence"); });
  std::erase(unset, "recycle.v1.Worker.pipeline");
  std::erase(unset, "recycle.v1.Worker.stage");
  EXPECT_THAT(unset, ::testing::IsEmpty());
}

TEST(ControlPlane, CarriesEveryExecutorMessageUnchanged) {
  Seen seen;
  const auto server = StartServer(seen);
  const auto client = Connect(server->address());
  const std::vector<ExecutorMessage> messages = ExecutorMessages();
  ASSERT_EQ(messages.size(), std::variant_size_v<ExecutorMessage>);
  for (const ExecutorMessage& message : messages) client->Send(message);
  client->Close();
  EXPECT_EQ(seen.WaitForLines(messages.size() + 1).back(), "closed 1:2");
  const std::vector<v1::ExecutorMessage> arrived = seen.messages();
  ASSERT_EQ(arrived.size(), messages.size());
  for (std::size_t i = 0; i < messages.size(); ++i) {
    EXPECT_TRUE(MessageDifferencer::Equals(arrived[i], ToProto(messages[i])))
        << arrived[i].DebugString();
    ExpectNothingForgotten(messages[i]);
  }
  EXPECT_EQ(server->traffic().in.at("Heartbeat").messages, 1);
  EXPECT_GT(server->traffic().in.at("Ledger").bytes, 20);
}

TEST(ControlPlane, CarriesEveryCoordinatorMessageUnchanged) {
  Seen seen;
  const auto server = StartServer(seen);
  const auto client = Connect(server->address());
  client->Send(Hello{At(0, 0), 1, Generation(0), 0});
  seen.WaitForLines(1);
  const std::vector<CoordinatorMessage> messages = CoordinatorMessages();
  ASSERT_EQ(messages.size(), std::variant_size_v<CoordinatorMessage>);
  for (const CoordinatorMessage& message : messages) {
    server->Send(At(0, 0), message);
    server->Send(At(3, 3), message);  // nobody is there
  }
  server->Close(At(0, 0));
  for (const CoordinatorMessage& message : messages) {
    const StatusOr<CoordinatorMessage> arrived = client->Receive();
    ASSERT_TRUE(arrived.ok()) << arrived.status();
    EXPECT_TRUE(MessageDifferencer::Equals(ToProto(*arrived), ToProto(message)));
    ExpectNothingForgotten(message);
  }
  EXPECT_EQ(client->Receive().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(client->Receive().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(seen.WaitForLines(2).back(), "closed 0:0");
}

TEST(ControlPlane, CarriesAgentMessagesAndTellsOfTheAgentsEnd) {
  Seen seen;
  const auto server = StartServer(seen);
  const auto agent =
      AgentClient::Connect(server->address(), kOpen, {.agent = 2, .pid = 5}, kPatience).value();
  agent->Send(ExecutorExited{.worker = At(1, 1), .pid = 6, .wait_status = 9});
  agent->Send(Parked{.worker = At(1, 1), .deaths = 5});
  agent->Close();
  EXPECT_EQ(seen.WaitForLines(4),
            (std::vector<std::string>{
                "agent 2 hello { agent: 2 pid: 5 }",
                "agent 2 exited { worker { pipeline: 1 stage: 1 } pid: 6 wait_status: 9 }",
                "agent 2 parked { worker { pipeline: 1 stage: 1 } deaths: 5 }", "closed agent 2"}));
}

TEST(ControlPlane, ANewerStreamOfAWorkerReplacesTheOldOneSilently) {
  Seen seen;
  const auto server = StartServer(seen);
  const auto old_client = Connect(server->address());
  old_client->Send(Hello{At(0, 1), 1, Generation(0), 0});
  seen.WaitForLines(1);
  const auto new_client = Connect(server->address());
  new_client->Send(Hello{At(0, 1), 2, Generation(0), 0});
  seen.WaitForLines(2);
  EXPECT_EQ(old_client->Receive().status().code(), StatusCode::kUnavailable);
  old_client->Send(Resumed{Generation(1)});
  server->Send(At(0, 1), Ask{.nonce = 4});
  EXPECT_EQ(std::get<Ask>(new_client->Receive().value()).nonce, 4);
  new_client->Close();
  EXPECT_EQ(seen.WaitForLines(3), (std::vector<std::string>{"Hello", "Hello", "closed 0:1"}));
}

TEST(ControlPlane, AnswersStatusAndStopAndSaysWhenNobodyIsThere) {
  Seen seen;
  auto server = StartServer(seen);
  const std::string address = server->address();
  EXPECT_EQ(FetchStatus(address, kOpen, kPatience).value(), "{\"phase\": \"training\"}");
  EXPECT_TRUE(RequestStop(address, kOpen, kPatience).ok());
  EXPECT_EQ(seen.WaitForLines(1).back(), "stop wanted");
  EXPECT_TRUE(RequestDrain(address, kOpen, At(1, 0), kPatience).ok());
  EXPECT_EQ(seen.WaitForLines(2).back(), "drain wanted of 1:0");
  server.reset();
  const Status gone = FetchStatus(address, kOpen, std::chrono::milliseconds(300)).status();
  EXPECT_EQ(gone.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(gone.message()), HasSubstr(address));
}

TEST(ControlPlane, ListensOnAndConnectsToNumericAddressesOnly) {
  EXPECT_EQ(ControlServer::Start("localhost", kOpen, {}).status().code(),
            StatusCode::kInvalidArgument);
  EXPECT_EQ(ControlServer::Start("192.0.2.1", kOpen, {}).status().code(), StatusCode::kUnavailable);
  for (const char* address :
       {"localhost:1234", "127.0.0.1", "127.0.0.1:0", "127.0.0.1:99999", ""}) {
    EXPECT_EQ(ControlClient::Connect(address, kOpen, kPatience).status().code(),
              StatusCode::kInvalidArgument)
        << address;
  }
}

// Sends `bytes` as the first message of a control stream and returns when the server has ended it.
void SendBytes(const std::string& address, const std::string& bytes) {
  const auto channel = ConnectChannel(address, kOpen, kPatience).value();
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  NameStream(context);
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, "/recycle.v1.Control/Executor", &queue);
  void* tag = nullptr;
  bool ok = false;
  call->StartCall(nullptr);
  queue.Next(&tag, &ok);
  const grpc::Slice slice(bytes);
  call->Write(grpc::ByteBuffer(&slice, 1), nullptr);
  queue.Next(&tag, &ok);
  grpc::Status status;
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  queue.Shutdown();
  while (queue.Next(&tag, &ok)) {
  }
}

// What can be refused without knowing the job is.
TEST(ControlPlane, RefusesLedgersAndRemaindersThatCannotBe) {
  using Spoil = std::function<void(v1::ExecutorMessage&)>;
  const auto ledger = [](v1::ExecutorMessage& m) {
    return m.mutable_ledger()->mutable_iterations(0);
  };
  const std::vector<Spoil> ledgers = {
      [&](auto& m) { ledger(m)->set_iteration(-1); },
      [&](auto& m) { ledger(m)->mutable_progress(0)->set_last(v1::Progress::LAST_UNSPECIFIED); },
      [&](auto& m) { *ledger(m)->add_progress() = ledger(m)->progress(0); },
      [&](auto& m) { ledger(m)->mutable_progress(0)->mutable_micro_batch()->set_index(-2); },
      [&](auto& m) { ledger(m)->mutable_inbox(0)->set_stage(-1); },
      [&](auto& m) { ledger(m)->mutable_log(0)->clear_kind(); },
      [&](auto& m) { *m.mutable_ledger()->add_iterations() = *ledger(m); },
      [&](auto& m) { m.mutable_ledger()->set_undo(0, -1); },
  };
  for (const Spoil& spoil : ledgers) {
    v1::ExecutorMessage message = ToProto(ExecutorMessages()[4]);
    ASSERT_TRUE(FromProto(message).ok());
    spoil(message);
    EXPECT_EQ(FromProto(message).status().code(), StatusCode::kInvalidArgument)
        << message.ShortDebugString();
  }
  using SpoilResume = std::function<void(v1::Resume&)>;
  const std::vector<SpoilResume> resumes = {
      [](auto& m) { m.mutable_open(0)->clear_rest_json(); },
      [](auto& m) { m.mutable_open(0)->mutable_resends(0)->clear_to(); },
      [](auto& m) { m.mutable_open(0)->mutable_resends(0)->clear_tensor(); },
      [](auto& m) { m.mutable_open(0)->mutable_hand_overs(0)->clear_part(); },
      [](auto& m) { m.mutable_open(0)->mutable_hand_overs(0)->clear_from(); },
      [](auto& m) { *m.add_open() = m.open(0); },
      [](auto& m) { m.set_next_iteration(-1); },
  };
  for (const SpoilResume& spoil : resumes) {
    v1::CoordinatorMessage message = ToProto(CoordinatorMessages()[1]);
    ASSERT_TRUE(FromProto(message).ok());
    spoil(*message.mutable_resume());
    EXPECT_EQ(FromProto(message).status().code(), StatusCode::kInvalidArgument)
        << message.ShortDebugString();
  }
}

TEST(ControlPlane, RefusesGarbageAndGoesOnServing) {
  Seen seen;
  const auto server = StartServer(seen);
  SendBytes(server->address(), "\xff\xff\xff garbage");
  SendBytes(server->address(), "");  // parses: out of turn
  v1::ExecutorMessage message;
  message.set_sequence(1);
  SendBytes(server->address(), message.SerializeAsString());  // no kind
  message.mutable_hello();                                    // no worker
  SendBytes(server->address(), message.SerializeAsString());
  message.mutable_hello()->mutable_worker()->set_stage(-1);
  SendBytes(server->address(), message.SerializeAsString());
  message = ToProto(ExecutorMessage(StillHere{.nonce = 1}));  // no hello
  message.set_sequence(1);
  SendBytes(server->address(), message.SerializeAsString());
  EXPECT_EQ(server->refusals().count, 5);

  const int raw = socket(AF_INET, SOCK_STREAM, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(std::stoi(server->address().substr(server->address().find(':') + 1)));
  inet_pton(AF_INET, "127.0.0.1", &to.sin_addr);
  ASSERT_EQ(connect(raw, reinterpret_cast<sockaddr*>(&to), sizeof(to)), 0);
  ASSERT_GT(write(raw, "GET / HTTP/1.1\r\n\r\n", 18), 0);
  close(raw);

  const auto client = Connect(server->address());
  client->Send(Hello{At(0, 0), 1, Generation(0), 0});
  EXPECT_EQ(seen.WaitForLines(1), std::vector<std::string>{"Hello"});
}

// A child forked before gRPC exists in this process; it becomes a client when told an address.
class ClientProcess : public ::testing::Environment {
 public:
  void SetUp() override {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    pid_ = fork();
    if (pid_ == 0) {
      prctl(PR_SET_PDEATHSIG, SIGKILL);
      close(ends[1]);
      Run(ends[0]);
    }
    close(ends[0]);
    address_to_child_ = ends[1];
  }
  void TearDown() override {
    close(address_to_child_);
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  void Start(const std::string& address) const {
    ASSERT_EQ(write(address_to_child_, address.data(), address.size()),
              static_cast<ssize_t>(address.size()));
  }
  void Kill() const { kill(pid_, SIGKILL); }

 private:
  [[noreturn]] static void Run(int address_from_parent) {
    char address[64] = {};
    if (read(address_from_parent, address, sizeof(address) - 1) <= 0) _exit(0);
    const auto client = ControlClient::Connect(address, kOpen, kPatience);
    if (!client.ok()) _exit(1);
    (*client)->Send(Hello{At(2, 1), getpid(), Generation(0), 0});
    for (;;) pause();
  }

  pid_t pid_ = -1;
  int address_to_child_ = -1;
};

const ClientProcess& client_process =
    static_cast<ClientProcess&>(*::testing::AddGlobalTestEnvironment(new ClientProcess));

TEST(ControlPlane, SeesAKilledClientAtOnce) {
  Seen seen;
  const auto server = StartServer(seen);
  client_process.Start(server->address());
  ASSERT_EQ(seen.WaitForLines(1), std::vector<std::string>{"Hello"});
  const auto killed = std::chrono::steady_clock::now();
  client_process.Kill();
  EXPECT_EQ(seen.WaitForLines(2).back(), "closed 2:1");
  const auto took = std::chrono::steady_clock::now() - killed;
  EXPECT_LT(took, std::chrono::seconds(1));
  std::printf("killed -> noticed: %.2f ms\n", ToMilliseconds(took));
}

TEST(ControlPlane, EndsAtOnceWithStreamsOpen) {
  Seen seen;
  auto server = StartServer(seen);
  const auto client = Connect(server->address());
  client->Send(Hello{At(0, 0), 1, Generation(0), 0});
  const auto agent =
      AgentClient::Connect(server->address(), kOpen, {.agent = 0, .pid = 5}, kPatience).value();
  seen.WaitForLines(2);
  server.reset();
  EXPECT_EQ(client->Receive().status().code(), StatusCode::kUnavailable);
  EXPECT_EQ(seen.WaitForLines(2).size(), 2U) << "no handler is called at the end";
}

}  // namespace
}  // namespace recycle
