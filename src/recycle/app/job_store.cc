#include "recycle/app/job_store.h"

#include <fmt/format.h>

#include <string_view>

#include "recycle/rpc/etcd_store.h"
#include "recycle/store/sqlite_store.h"

namespace recycle {
namespace {

constexpr std::string_view kEtcd = "etcd://";

}  // namespace

Status CheckStoreName(const std::string& name) {
  if (!name.starts_with(kEtcd)) {
    return absl::InvalidArgumentError(fmt::format("'{}' does not begin with {}", name, kEtcd));
  }
  return EtcdStore::Open(name.substr(kEtcd.size()), "").status();
}

Status ProbeStore(const JobConfig& config, const RunFolder& folder) {
  if (!config.resilience.store.starts_with(kEtcd)) return OkStatus();
  RC_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore(config, folder));
  return store->Get("term").status();
}

StatusOr<std::unique_ptr<Store>> OpenStore(const JobConfig& config, const RunFolder& folder) {
  const std::string& name = config.resilience.store;
  if (name.starts_with(kEtcd)) return EtcdStore::Open(name.substr(kEtcd.size()), folder.root());
  return SqliteStore::Open(folder.Store());
}

}  // namespace recycle
