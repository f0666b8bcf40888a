#include "recycle/rpc/etcd_store.h"

#include <fmt/format.h>
#include <grpcpp/grpcpp.h>

#include <algorithm>
#include <functional>
#include <mutex>
#include <sstream>
#include <thread>
#include <utility>
#include <vector>

#include "etcd/etcd_store.grpc.pb.h"
#include "recycle/rpc/channel.h"
#include "recycle/rpc/credentials.h"
#include "recycle/rpc/numeric_address.h"

namespace recycle {
namespace {

namespace etcd = etcdserverpb;

constexpr std::chrono::milliseconds kRetry{20};
// An endpoint that does not answer within this time is left for another one.
constexpr std::chrono::milliseconds kAttempt{500};

// "a:1,b:2" -> gRPC's targets.
StatusOr<std::vector<std::string>> TargetsOf(const std::string& endpoints) {
  std::istringstream words(endpoints);
  std::vector<std::string> targets;
  for (std::string endpoint; std::getline(words, endpoint, ',');) {
    RC_ASSIGN_OR_RETURN(targets.emplace_back(), GrpcTarget(endpoint));
  }
  if (!targets.empty()) return targets;
  return absl::InvalidArgumentError("etcd needs an endpoint, e.g. etcd://127.0.0.1:2379");
}

bool IsTransient(const grpc::Status& status) {
  return status.error_code() == grpc::StatusCode::UNAVAILABLE ||
         status.error_code() == grpc::StatusCode::DEADLINE_EXCEEDED ||
         status.error_code() == grpc::StatusCode::UNKNOWN;
}

// A channel to one endpoint.
struct Connection {
  Connection(const std::string& target, const std::optional<TlsTexts>& tls) {
    grpc::ChannelArguments arguments;
    arguments.SetInt(GRPC_ARG_ENABLE_HTTP_PROXY, 0);
    arguments.SetInt(GRPC_ARG_SERVICE_CONFIG_DISABLE_RESOLUTION, 1);
    arguments.SetInt(GRPC_ARG_USE_LOCAL_SUBCHANNEL_POOL, 1);
    const auto channel = grpc::CreateCustomChannel(target, ClientCredentials(tls), arguments);
    kv = etcd::KV::NewStub(channel);
    lease = etcd::Lease::NewStub(channel);
    watch = etcd::Watch::NewStub(channel);
  }
  std::unique_ptr<etcd::KV::Stub> kv;
  std::unique_ptr<etcd::Lease::Stub> lease;
  std::unique_ptr<etcd::Watch::Stub> watch;
};

}  // namespace

class EtcdStore::Impl {
 public:
  Impl(const std::string& endpoints, std::vector<std::string> targets, std::string prefix,
       const std::optional<TlsTexts>& tls)
      : endpoints_(endpoints),
        prefix_(std::move(prefix)),
        targets_(std::move(targets)),
        tls_(tls) {}

  std::string KeyOf(const std::string& key) const { return prefix_ + key; }

  // One call, until it is answered or kPatience is over.
  grpc::Status Try(const std::function<grpc::Status(Connection&, grpc::ClientContext&)>& call) {
    const TimePoint deadline = SystemClock().Now() + kPatience;
    for (;;) {
      const std::shared_ptr<Connection> connection = Current();
      grpc::ClientContext context;
      context.set_wait_for_ready(true);
      context.set_deadline(DeadlineAfter(kAttempt));
      const grpc::Status status = call(*connection, context);
      if (status.ok() || !IsTransient(status)) return status;
      Leave(connection);
      if (SystemClock().Now() >= deadline) return status;
      std::this_thread::sleep_for(kRetry);
    }
  }

  std::shared_ptr<Connection> Current() {
    const std::lock_guard lock(mutex_);
    if (connection_ == nullptr) {
      connection_ = std::make_shared<Connection>(targets_[next_target_ % targets_.size()], tls_);
    }
    return connection_;
  }
  // The next one is to another endpoint.
  void Leave(const std::shared_ptr<Connection>& connection) {
    const std::lock_guard lock(mutex_);
    if (connection_ != connection) return;
    connection_ = nullptr;
    ++next_target_;
  }

  Status Error(const grpc::Status& status, const std::string& what) const {
    const std::string text =
        fmt::format("etcd at {}: cannot {}: {}", endpoints_, what, status.error_message());
    if (status.error_code() == grpc::StatusCode::NOT_FOUND) return absl::NotFoundError(text);
    return absl::UnavailableError(text);
  }

  StatusOr<etcd::RangeResponse> Range(const std::string& key) {
    etcd::RangeRequest request;
    request.set_key(KeyOf(key));
    etcd::RangeResponse response;
    const grpc::Status status = Try([&](Connection& connection, grpc::ClientContext& context) {
      return connection.kv->Range(&context, request, &response);
    });
    if (!status.ok()) return Error(status, "read " + key);
    return response;
  }

  void AddCompare(const std::string& key, std::int64_t version, etcd::TxnRequest& request) const {
    etcd::Compare& compare = *request.add_compare();
    compare.set_result(etcd::Compare::EQUAL);
    compare.set_target(etcd::Compare::VERSION);
    compare.set_key(KeyOf(key));
    compare.set_version(version);
  }

  Status CompareAndSet(const Write& write) {
    etcd::TxnRequest request;
    AddCompare(write.key, write.expected_version, request);
    if (write.guard) AddCompare(write.guard->key, write.guard->version, request);
    etcd::PutRequest& put = *request.add_success()->mutable_request_put();
    put.set_key(KeyOf(write.key));
    put.set_value(write.value);
    put.set_lease(write.lease);
    request.add_failure()->mutable_request_range()->set_key(KeyOf(write.key));
    etcd::TxnResponse response;
    int attempts = 0;
    const grpc::Status status = Try([&](Connection& connection, grpc::ClientContext& context) {
      ++attempts;
      return connection.kv->Txn(&context, request, &response);
    });
    if (!status.ok()) return Error(status, "write " + write.key);
    if (response.succeeded()) return OkStatus();
    const auto& found = response.responses(0).response_range().kvs();
    const std::int64_t version = found.empty() ? 0 : found[0].version();
    // An earlier attempt was carried out, and its answer got lost.
    const bool is_own =
        attempts > 1 && version == write.expected_version + 1 && found[0].value() == write.value;
    if (is_own) return OkStatus();
    const std::string guard = write.guard ? " or " + write.guard->key + " has changed" : "";
    return absl::AbortedError(
        fmt::format("etcd at {}: {} is at version {}, not {}: somebody else has written it{}",
                    endpoints_, write.key, version, write.expected_version, guard));
  }

  StatusOr<Lease> Grant(Duration ttl) {
    etcd::LeaseGrantRequest request;
    request.set_ttl(std::chrono::ceil<std::chrono::seconds>(ttl).count());
    etcd::LeaseGrantResponse response;
    const grpc::Status status = Try([&](Connection& connection, grpc::ClientContext& context) {
      return connection.lease->LeaseGrant(&context, request, &response);
    });
    if (!status.ok()) return Error(status, "grant a lease");
    return response.id();
  }

  Status KeepAlive(Lease lease) {
    etcd::LeaseKeepAliveRequest request;
    request.set_id(lease);
    etcd::LeaseKeepAliveResponse response;
    const grpc::Status status = Try([&](Connection& connection, grpc::ClientContext& context) {
      const auto stream = connection.lease->LeaseKeepAlive(&context);
      const bool answered = stream->Write(request) && stream->Read(&response);
      if (answered) context.TryCancel();
      const grpc::Status end = stream->Finish();
      return answered ? grpc::Status::OK : end;
    });
    if (!status.ok()) return Error(status, "keep a lease alive");
    if (response.ttl() > 0) return OkStatus();
    return absl::NotFoundError(fmt::format("etcd at {}: lease {} is over", endpoints_, lease));
  }

  Status Revoke(Lease lease) {
    etcd::LeaseRevokeRequest request;
    request.set_id(lease);
    etcd::LeaseRevokeResponse response;
    const grpc::Status status = Try([&](Connection& connection, grpc::ClientContext& context) {
      return connection.lease->LeaseRevoke(&context, request, &response);
    });
    if (status.ok() || status.error_code() == grpc::StatusCode::NOT_FOUND) return OkStatus();
    return Error(status, "revoke a lease");
  }

  Status AwaitChange(const std::string& key, std::int64_t version, Duration timeout) {
    RC_ASSIGN_OR_RETURN(const etcd::RangeResponse now, Range(key));
    if ((now.kvs().empty() ? 0 : now.kvs(0).version()) != version) return OkStatus();
    grpc::ClientContext context;
    context.set_deadline(DeadlineAfter(timeout));
    const std::shared_ptr<Connection> connection = Current();
    const auto stream = connection->watch->Watch(&context);
    etcd::WatchRequest request;
    request.mutable_create_request()->set_key(KeyOf(key));
    request.mutable_create_request()->set_start_revision(now.header().revision() + 1);
    etcd::WatchResponse response;
    if (stream->Write(request)) {
      while (stream->Read(&response) && response.events().empty() && !response.canceled()) {
      }
    }
    context.TryCancel();
    stream->Finish();  // the time is over, the key has changed, or the next look finds an error
    return OkStatus();
  }

 private:
  const std::string endpoints_;
  const std::string prefix_;
  const std::vector<std::string> targets_;
  const std::optional<TlsTexts> tls_;
  std::mutex mutex_;
  std::shared_ptr<Connection> connection_;
  std::size_t next_target_ = 0;
};

EtcdStore::EtcdStore(std::unique_ptr<Impl> impl) : impl_(std::move(impl)) {}
EtcdStore::~EtcdStore() = default;

StatusOr<std::unique_ptr<EtcdStore>> EtcdStore::Open(const std::string& endpoints,
                                                     const std::string& job,
                                                     const std::optional<TlsTexts>& tls) {
  RC_ASSIGN_OR_RETURN(std::vector<std::string> targets, TargetsOf(endpoints));
  return std::unique_ptr<EtcdStore>(new EtcdStore(
      std::make_unique<Impl>(endpoints, std::move(targets), "recycle/" + job + "/", tls)));
}

StatusOr<std::optional<Store::Entry>> EtcdStore::Get(const std::string& key) {
  RC_ASSIGN_OR_RETURN(const etcd::RangeResponse found, impl_->Range(key));
  if (found.kvs().empty()) return std::optional<Entry>();
  return std::optional<Entry>(
      Entry{.value = found.kvs(0).value(), .version = found.kvs(0).version()});
}

Status EtcdStore::CompareAndSet(const Write& write) { return impl_->CompareAndSet(write); }
StatusOr<Store::Lease> EtcdStore::Grant(Duration ttl) { return impl_->Grant(ttl); }
Status EtcdStore::KeepAlive(Lease lease) { return impl_->KeepAlive(lease); }
Status EtcdStore::Revoke(Lease lease) { return impl_->Revoke(lease); }
Status EtcdStore::AwaitChange(const std::string& key, std::int64_t version, Duration timeout) {
  return impl_->AwaitChange(key, version, timeout);
}

}  // namespace recycle
