// The Store of a cluster: etcd 3.4 or later over gRPC.
//
//   RC_ASSIGN_OR_RETURN(auto store, EtcdStore::Open("127.0.0.1:2379,127.0.0.1:22379", "job 7",
//   tls));
//
// Every call is tried again, at whichever endpoint answers, until kPatience is over: an etcd that
// elects a leader of its own meanwhile is not noticed. A write that failed may have been made, and
// one that lost may have lost to an earlier attempt of its own.
//
// Thread-safe.
#ifndef RECYCLE_RPC_ETCD_STORE_H_
#define RECYCLE_RPC_ETCD_STORE_H_

#include <chrono>
#include <memory>
#include <optional>
#include <string>

#include "recycle/base/status.h"
#include "recycle/rpc/rpc_security.h"
#include "recycle/store/store.h"

namespace recycle {

class EtcdStore : public Store {
 public:
  static constexpr std::chrono::milliseconds kPatience{2000};

  // `endpoints`: numeric addresses with ports, separated by commas. `job`: names the job, so that
  // several can share a cluster. `tls`: absent for an etcd in the clear; its certificate is for an
  // etcd that asks its clients for one. Connects with the first call. Error: kInvalidArgument for
  // an endpoint of another form.
  static StatusOr<std::unique_ptr<EtcdStore>> Open(const std::string& endpoints,
                                                   const std::string& job,
                                                   const std::optional<TlsTexts>& tls);
  ~EtcdStore() override;

  // Errors of all: kUnavailable if no endpoint answers.
  StatusOr<std::optional<Entry>> Get(const std::string& key) override;
  Status CompareAndSet(const Write& write) override;
  StatusOr<Lease> Grant(Duration ttl) override;  // in whole seconds, rounded up
  Status KeepAlive(Lease lease) override;
  Status Revoke(Lease lease) override;
  Status AwaitChange(const std::string& key, std::int64_t version, Duration timeout) override;

 private:
  class Impl;
  explicit EtcdStore(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace recycle

#endif  // RECYCLE_RPC_ETCD_STORE_H_
