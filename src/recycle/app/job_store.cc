#include "recycle/app/job_store.h"

#include <fmt/format.h>

#include <algorithm>
#include <optional>
#include <string_view>
#include <utility>

#include "recycle/app/job_security.h"
#include "recycle/app/store_outage.h"
#include "recycle/base/clock.h"
#include "recycle/rpc/etcd_store.h"
#include "recycle/store/outage_store.h"
#include "recycle/store/sqlite_store.h"

namespace recycle {
namespace {

constexpr std::string_view kEtcd = "etcd://";

}  // namespace

Status CheckStoreName(const std::string& name) {
  if (!name.starts_with(kEtcd)) {
    return absl::InvalidArgumentError(fmt::format("'{}' does not begin with {}", name, kEtcd));
  }
  return EtcdStore::Open(name.substr(kEtcd.size()), "", std::nullopt).status();
}

Status ProbeStore(const JobConfig& config, const RunFolder& folder) {
  if (!config.resilience.store.starts_with(kEtcd)) return OkStatus();
  RC_ASSIGN_OR_RETURN(const std::unique_ptr<Store> store, OpenStore(config, folder));
  return store->Get("term").status();
}

namespace {

StatusOr<std::unique_ptr<Store>> OpenNamed(const JobConfig& config, const RunFolder& folder) {
  const std::string& name = config.resilience.store;
  if (name.starts_with(kEtcd)) {
    RC_ASSIGN_OR_RETURN(const std::optional<TlsTexts> tls, LoadEtcdTls(config.security));
    return EtcdStore::Open(name.substr(kEtcd.size()), folder.root(), tls);
  }
  return SqliteStore::Open(folder.Store());
}

}  // namespace

StatusOr<std::unique_ptr<Store>> OpenStore(const JobConfig& config, const RunFolder& folder) {
  RC_ASSIGN_OR_RETURN(std::unique_ptr<Store> store, OpenNamed(config, folder));
  const bool may_stop =
      std::any_of(config.inject.begin(), config.inject.end(),
                  [](const Fault& fault) { return fault.target.kind == TargetKind::kStore; });
  if (!may_stop) return store;
  return std::make_unique<OutageStore>(
      std::move(store), [folder] { return IsStoreOut(folder, SystemClock().UnixSeconds()); });
}

}  // namespace recycle
