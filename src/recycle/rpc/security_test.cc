// Who may talk to a coordinator, and what it does not listen to: tokens, TLS, recordings, messages
// that are too large, over loopback with a real server.
#include <gmock/gmock.h>
#include <grpcpp/generic/generic_stub.h>
#include <gtest/gtest.h>

#include <atomic>
#include <chrono>
#include <string>
#include <vector>

#include "recycle/rpc/agent_client.h"
#include "recycle/rpc/channel.h"
#include "recycle/rpc/control_client.h"
#include "recycle/rpc/control_server.h"
#include "recycle/rpc/convert.h"
#include "recycle/rpc/credentials.h"
#include "recycle/rpc/status_client.h"
#include "recycle/testing/certificates.h"
#include "recycle/testing/sample_messages.h"
#include "recycle_control.grpc.pb.h"

namespace recycle {
namespace {

using ::testing::AnyOf;
using ::testing::HasSubstr;
using ::testing::Not;

constexpr std::chrono::seconds kEnough{20};
// For what is expected to fail.
constexpr std::chrono::milliseconds kShort{500};
constexpr char kLoopback[] = "127.0.0.1";
const std::string kToken(43, 'a');

// A server that counts what reaches its handlers.
struct Server {
  explicit Server(const RpcSecurity& security) {
    ControlServer::Handlers handlers;
    handlers.on_executor_message = [this](WorkerId, const ExecutorMessage&) { ++heard; };
    handlers.on_agent_message = [this](int, const AgentMessage&) { ++heard; };
    handlers.status_json = [this] {
      ++heard;
      return std::string("{}");
    };
    handlers.on_stop_wanted = [this] { ++heard; };
    handlers.on_drain_wanted = [this](WorkerId) { ++heard; };
    server = ControlServer::Start(kLoopback, security, std::move(handlers)).value();
  }
  const std::string& address() const { return server->address(); }

  std::atomic<int> heard = 0;
  std::unique_ptr<ControlServer> server;
};

// Calls `method` of the service with nothing to say, showing `token`; how it ends.
grpc::Status Call(const std::string& address, const std::string& method, const std::string& token) {
  const auto channel = ConnectChannel(address, {}, kEnough).value();
  grpc::GenericStub stub(channel);
  grpc::ClientContext context;
  ShowToken({.token = token}, context);
  NameStream(context);
  context.set_deadline(DeadlineAfter(kEnough));
  grpc::CompletionQueue queue;
  const auto call = stub.PrepareCall(&context, "/recycle.v1.Control/" + method, &queue);
  grpc::Status status;
  call->StartCall(nullptr);
  void* tag = nullptr;
  bool ok = false;
  queue.Next(&tag, &ok);
  const grpc::Slice nothing;
  call->WriteLast(grpc::ByteBuffer(&nothing, 1), {}, nullptr);
  queue.Next(&tag, &ok);
  call->Finish(&status, nullptr);
  queue.Next(&tag, &ok);
  return status;
}

// The service's own description: a call that is added and forgets to ask shows up here.
TEST(ControlSecurity, EveryCallAsksForTheTokenAndCountsWhoHasNone) {
  const Server server({.token = kToken});
  const auto* const service = v1::StatusRequest::descriptor()->file()->service(0);
  const std::vector<std::string> wrong = {"", kToken + "a", kToken.substr(1),
                                          std::string(kToken.size(), 'b')};
  int refused = 0;
  for (int i = 0; i < service->method_count(); ++i) {
    for (const std::string& token : wrong) {
      const grpc::Status status = Call(server.address(), service->method(i)->name(), token);
      EXPECT_EQ(status.error_code(), grpc::StatusCode::UNAUTHENTICATED)
          << service->method(i)->name() << ": " << status.error_message();
      EXPECT_EQ(server.server->refusals().count, ++refused);
    }
  }
  EXPECT_GE(refused, 20);
  EXPECT_EQ(server.heard, 0);
  EXPECT_THAT(server.server->refusals().last, HasSubstr("from ipv4:127.0.0.1"));
  EXPECT_THAT(server.server->refusals().last, Not(AnyOf(HasSubstr("aaa"), HasSubstr("bbb"))));
}

TEST(ControlSecurity, ClientsPassWithTheTokenAndAreToldWhenItIsWrong) {
  const Server server({.token = kToken});
  const RpcSecurity right{.token = kToken};
  const RpcSecurity wrong{.token = "x" + kToken.substr(1)};
  EXPECT_TRUE(FetchStatus(server.address(), right, kEnough).ok());
  const Status refused = FetchStatus(server.address(), wrong, kEnough).status();
  EXPECT_EQ(refused.code(), StatusCode::kUnauthenticated);
  EXPECT_THAT(std::string(refused.message()), HasSubstr("the token is not the one of this job"));
  EXPECT_EQ(RequestDrain(server.address(), {}, WorkerAt(0, 0), kEnough).code(),
            StatusCode::kUnauthenticated);

  const auto stranger = ControlClient::Connect(server.address(), wrong, kEnough).value();
  stranger->Send(Hello{WorkerAt(0, 0), 1, Generation(0), 0});
  EXPECT_EQ(stranger->Receive().status().code(), StatusCode::kUnauthenticated);
  const auto agent =
      AgentClient::Connect(server.address(), {}, {.agent = 0, .pid = 5}, kEnough).value();
  EXPECT_EQ(agent->Serve([](const StartExecutor&) {}).code(), StatusCode::kUnauthenticated);
  EXPECT_EQ(server.heard, 1);

  const auto client = ControlClient::Connect(server.address(), right, kEnough).value();
  client->Send(Hello{WorkerAt(0, 0), 1, Generation(0), 0});
  client->Close();
  EXPECT_EQ(server.heard, 2);
}

RpcSecurity Tls(const TestAuthority& authority, const std::string& address, bool mutual = false) {
  const TestAuthority::Signed own = authority.Sign(address);
  return {.token = kToken,
          .tls = TlsTexts{.ca = authority.pem(), .certificate = own.certificate, .key = own.key},
          .mutual_tls = mutual};
}

TEST(ControlSecurity, TlsLetsInWhoTrustsTheCertificate) {
  const TestAuthority authority;
  const Server server(Tls(authority, kLoopback));
  const RpcSecurity client{.token = kToken, .tls = TlsTexts{.ca = authority.pem()}};
  EXPECT_TRUE(FetchStatus(server.address(), client, kEnough).ok());

  const TestAuthority other;
  const RpcSecurity distrustful{.token = kToken, .tls = TlsTexts{.ca = other.pem()}};
  const Status distrust = FetchStatus(server.address(), distrustful, kShort).status();
  EXPECT_EQ(distrust.code(), StatusCode::kUnavailable);
  EXPECT_THAT(std::string(distrust.message()), HasSubstr("certificate"));
  EXPECT_EQ(FetchStatus(server.address(), {.token = kToken}, kShort).status().code(),
            StatusCode::kUnavailable)
      << "in the clear";

  const Server elsewhere(Tls(authority, "192.0.2.1"));
  EXPECT_EQ(FetchStatus(elsewhere.address(), client, kShort).status().code(),
            StatusCode::kUnavailable)
      << "its certificate is for another address";
}

TEST(ControlSecurity, MutualTlsAsksTheCallerForACertificateToo) {
  const TestAuthority authority;
  const RpcSecurity both = Tls(authority, kLoopback, /*mutual=*/true);
  const Server server(both);
  EXPECT_TRUE(FetchStatus(server.address(), both, kEnough).ok());
  RpcSecurity without = both;
  without.tls = TlsTexts{.ca = authority.pem()};
  EXPECT_EQ(FetchStatus(server.address(), without, kShort).status().code(),
            StatusCode::kUnavailable);
  RpcSecurity foreign = Tls(TestAuthority(), kLoopback);
  foreign.tls->ca = authority.pem();
  EXPECT_EQ(FetchStatus(server.address(), foreign, kShort).status().code(),
            StatusCode::kUnavailable);
  EXPECT_EQ(server.heard, 1);
}

// A stream written by hand; how the server ends it.
grpc::Status Speak(const std::string& address, const std::string& name,
                   const std::vector<v1::ExecutorMessage>& messages) {
  grpc::ChannelArguments arguments;
  arguments.SetMaxSendMessageSize(-1);
  const auto channel =
      grpc::CreateCustomChannel("ipv4:" + address, grpc::InsecureChannelCredentials(), arguments);
  const auto stub = v1::Control::NewStub(channel);
  grpc::ClientContext context;
  if (!name.empty()) context.AddMetadata("recycle-stream-bin", name);
  context.set_deadline(DeadlineAfter(kEnough));
  const auto stream = stub->Executor(&context);
  for (const v1::ExecutorMessage& message : messages) stream->Write(message);
  stream->WritesDone();
  v1::CoordinatorMessage reply;
  while (stream->Read(&reply)) {
  }
  return stream->Finish();
}

v1::ExecutorMessage Numbered(const ExecutorMessage& message, std::int64_t sequence) {
  v1::ExecutorMessage proto = ToProto(message);
  proto.set_sequence(sequence);
  return proto;
}

TEST(ControlSecurity, RecordingsAreRefused) {
  const Server server({});
  const Hello hello{WorkerAt(0, 0), 1, Generation(0), 0};
  const auto first = Numbered(hello, 1);
  const auto second = Numbered(Heartbeat{.generation = Generation(1), .version = 0}, 2);
  EXPECT_TRUE(Speak(server.address(), "one", {first, second}).ok());
  EXPECT_EQ(server.heard, 2);
  EXPECT_EQ(Speak(server.address(), "one", {first, second}).error_code(),
            grpc::StatusCode::UNAUTHENTICATED)
      << "the whole stream again";
  EXPECT_EQ(Speak(server.address(), "", {first}).error_code(), grpc::StatusCode::UNAUTHENTICATED);
  EXPECT_EQ(server.heard, 2);
  EXPECT_EQ(Speak(server.address(), "two", {first, second, second}).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT)
      << "one message again";
  EXPECT_EQ(Speak(server.address(), "three", {first, first}).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(Speak(server.address(), "four", {second}).error_code(),
            grpc::StatusCode::INVALID_ARGUMENT);
  EXPECT_EQ(server.heard, 5);
  EXPECT_EQ(server.server->refusals().count, 5);
}

TEST(ControlSecurity, AMessageThatIsTooLargeEndsItsStreamAlone) {
  const Server server({});
  const auto hello = Numbered(Hello{WorkerAt(0, 0), 1, Generation(0), 0}, 1);
  const auto huge = Numbered(LastWords{.message = std::string(kMaxRequestBytes + 1, 'x')}, 2);
  EXPECT_FALSE(Speak(server.address(), "one", {hello, huge}).ok() && server.heard == 2);
  EXPECT_EQ(server.heard, 1);
  EXPECT_TRUE(Speak(server.address(), "two", {hello}).ok());
  EXPECT_EQ(server.heard, 2);
}

}  // namespace
}  // namespace recycle
