#include "recycle/store/leadership.h"

#include <fmt/format.h>

#include <chrono>
#include <optional>
#include <thread>

namespace recycle {
namespace {

// Its version is the term, its value whose term it is.
constexpr char kTermKey[] = "term";
// Hangs on the leader's lease.
constexpr char kLeaderKey[] = "leader";
// A store that is out of order is asked again so often.
constexpr std::chrono::milliseconds kRetry{50};

}  // namespace

StatusOr<Leadership> Leadership::TakeOver(Store& store, const std::string& id) {
  for (;;) {
    RC_ASSIGN_OR_RETURN(const std::optional<Store::Entry> last, store.Get(kTermKey));
    const std::int64_t version = last ? last->version : 0;
    const Status taken =
        store.CompareAndSet({.key = kTermKey, .expected_version = version, .value = id});
    if (taken.ok()) return Leadership(store, version + 1);
    if (!absl::IsAborted(taken)) return taken;  // else another one was faster: after it
  }
}

StatusOr<Leadership> Leadership::Campaign(Store& store, const std::string& id, Duration ttl) {
  const Clock& clock = SystemClock();
  TimePoint kept_alive = clock.Now();
  RC_ASSIGN_OR_RETURN(Store::Lease lease, store.Grant(ttl));
  for (;;) {
    // The store was there before: whatever is wrong with it now passes.
    store.CompareAndSet({.key = kLeaderKey, .value = id, .lease = lease}).IgnoreError();
    const StatusOr<std::optional<Store::Entry>> leader = store.Get(kLeaderKey);
    if (!leader.ok() || !*leader) {
      std::this_thread::sleep_for(kRetry);
    } else if ((*leader)->value == id) {
      StatusOr<Leadership> leadership = TakeOver(store, id);
      if (leadership.ok()) {
        leadership->lease_ = lease;
        leadership->ttl_ = ttl;
        leadership->kept_alive_ = kept_alive;
        return leadership;
      }
    } else {
      store.AwaitChange(kLeaderKey, (*leader)->version, ttl / 3).IgnoreError();
    }
    const TimePoint asked = clock.Now();
    const Status alive = store.KeepAlive(lease);
    if (alive.ok()) kept_alive = asked;
    if (!absl::IsNotFound(alive)) continue;
    const StatusOr<Store::Lease> next = store.Grant(ttl);
    if (!next.ok()) continue;
    lease = *next;
    kept_alive = asked;
  }
}

Status Leadership::Write(const std::string& key, std::int64_t expected_version,
                         const std::string& value) {
  return store_->CompareAndSet({.key = key,
                                .expected_version = expected_version,
                                .value = value,
                                .guard = Store::Guard{kTermKey, term_}});
}

Status Leadership::Prove() {
  if (lease_ != 0) {
    const TimePoint asked = SystemClock().Now();
    const Status alive = store_->KeepAlive(lease_);
    if (alive.ok()) kept_alive_ = asked;
    if (absl::IsNotFound(alive) || SystemClock().Now() >= kept_alive_ + ttl_) {
      return absl::AbortedError(fmt::format("the lease of term {} is over", term_));
    }
    RC_RETURN_IF_ERROR(alive);
  }
  RC_ASSIGN_OR_RETURN(const std::optional<Store::Entry> newest, store_->Get(kTermKey));
  if (newest && newest->version == term_) return OkStatus();
  return absl::AbortedError(fmt::format("the term {} is over: {} leads since term {}", term_,
                                        newest ? newest->value : "nobody",
                                        newest ? newest->version : 0));
}

}  // namespace recycle
