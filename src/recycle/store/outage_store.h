// A Store that is out of order while somebody says so, for fault injection: then every call fails
// at once with kUnavailable and nothing is written.
//
//   OutageStore store(*SqliteStore::Open(path), [&] { return clock.Now() < over; });
//
// Thread-safe as the store and `is_out` are.
#ifndef RECYCLE_STORE_OUTAGE_STORE_H_
#define RECYCLE_STORE_OUTAGE_STORE_H_

#include <functional>
#include <memory>
#include <optional>
#include <string>

#include "recycle/base/status.h"
#include "recycle/store/store.h"

namespace recycle {

class OutageStore : public Store {
 public:
  OutageStore(std::unique_ptr<Store> store, std::function<bool()> is_out);

  StatusOr<std::optional<Entry>> Get(const std::string& key) override;
  Status CompareAndSet(const Write& write) override;
  StatusOr<Lease> Grant(Duration ttl) override;
  Status KeepAlive(Lease lease) override;
  Status Revoke(Lease lease) override;
  Status AwaitChange(const std::string& key, std::int64_t version, Duration timeout) override;

 private:
  Status InOrder() const;

  const std::unique_ptr<Store> store_;
  const std::function<bool()> is_out_;
};

}  // namespace recycle

#endif  // RECYCLE_STORE_OUTAGE_STORE_H_
