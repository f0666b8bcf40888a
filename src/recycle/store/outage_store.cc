#include "recycle/store/outage_store.h"

#include <utility>

namespace recycle {

OutageStore::OutageStore(std::unique_ptr<Store> store, std::function<bool()> is_out)
    : store_(std::move(store)), is_out_(std::move(is_out)) {}

Status OutageStore::InOrder() const {
  return is_out_() ? absl::UnavailableError("the store is stopped by an injected fault")
                   : OkStatus();
}

StatusOr<std::optional<Store::Entry>> OutageStore::Get(const std::string& key) {
  RC_RETURN_IF_ERROR(InOrder());
  return store_->Get(key);
}

Status OutageStore::CompareAndSet(const Write& write) {
  RC_RETURN_IF_ERROR(InOrder());
  return store_->CompareAndSet(write);
}

StatusOr<Store::Lease> OutageStore::Grant(Duration ttl) {
  RC_RETURN_IF_ERROR(InOrder());
  return store_->Grant(ttl);
}

Status OutageStore::KeepAlive(Lease lease) {
  RC_RETURN_IF_ERROR(InOrder());
  return store_->KeepAlive(lease);
}

Status OutageStore::Revoke(Lease lease) {
  RC_RETURN_IF_ERROR(InOrder());
  return store_->Revoke(lease);
}

Status OutageStore::AwaitChange(const std::string& key, std::int64_t version, Duration timeout) {
  RC_RETURN_IF_ERROR(InOrder());
  return store_->AwaitChange(key, version, timeout);
}

}  // namespace recycle
