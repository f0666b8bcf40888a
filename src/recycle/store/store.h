// Durable key-value storage for the coordinator's few facts (term, job's end, generation record):
// every write is a compare-and-set, so that a coordinator that was frozen and wakes up loses
// instead of overwriting. An entry may hang on a lease, which whoever wrote it keeps alive: it
// vanishes with its writer.
//
//   StatusOr<std::optional<Store::Entry>> entry = store.Get("generation");
//   Status stored = store.CompareAndSet({.key = "generation", .expected_version = 3, .value =
//   json});
//
// Implementations are thread-safe.
#ifndef RECYCLE_STORE_STORE_H_
#define RECYCLE_STORE_STORE_H_

#include <cstdint>
#include <optional>
#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"

namespace recycle {

class Store {
 public:
  struct Entry {
    std::string value;
    std::int64_t version = 0;  // number of writes of this key so far, from 1
  };

  // Granted for some time, which begins anew with each KeepAlive.
  using Lease = std::int64_t;

  // Another key that has to be at this version for a write to happen.
  struct Guard {
    std::string key;
    std::int64_t version = 0;
  };
  struct Write {
    std::string key;
    std::int64_t expected_version = 0;  // 0 = never written
    std::string value;
    std::optional<Guard> guard = std::nullopt;
    Lease lease = 0;  // the entry vanishes with it; 0: it stays
  };

  virtual ~Store() = default;

  // The key's newest value, or nothing if it was never written.
  virtual StatusOr<std::optional<Entry>> Get(const std::string& key) = 0;

  // Writes `value` as version expected_version + 1 if the key's version is `expected_version` and
  // the guard holds, in one step, and returns once it is durable. Errors: kAborted if another
  // version is there (the message names both) or the guard does not hold; anything else: the store
  // itself failed, and whether the value was written is not known.
  virtual Status CompareAndSet(const Write& write) = 0;

  // A lease for `ttl`, or a little longer. Errors: the store's, as with the next two.
  virtual StatusOr<Lease> Grant(Duration ttl) = 0;
  // kNotFound: the lease is over.
  virtual Status KeepAlive(Lease lease) = 0;
  // Ends the lease at once; no error if it is over already.
  virtual Status Revoke(Lease lease) = 0;

  // Waits until `key` is not at `version` any more (0 = it is not there), at most for `timeout`.
  // Errors: the store's.
  virtual Status AwaitChange(const std::string& key, std::int64_t version, Duration timeout) = 0;
};

}  // namespace recycle

#endif  // RECYCLE_STORE_STORE_H_
