// The embedded Store: one SQLite file. Write-ahead log, synchronous=FULL: a write that returned
// survives a crash of the process and of the machine.
//
//   RC_ASSIGN_OR_RETURN(auto store, SqliteStore::Open(run_dir + "/store.sqlite"));
//
// Thread-safe; several processes may open one file (a local one: SQLite's log needs shared memory).
// Leases go by the machine's monotonic clock; changes are looked for, every few milliseconds.
#ifndef RECYCLE_STORE_SQLITE_STORE_H_
#define RECYCLE_STORE_SQLITE_STORE_H_

#include <memory>
#include <mutex>
#include <optional>
#include <string>

#include "recycle/base/status.h"
#include "recycle/store/store.h"

struct sqlite3;

namespace recycle {

class SqliteStore : public Store {
 public:
  // Opens or creates the file. Errors name the path: kUnavailable if it cannot be opened or
  // written, kDataLoss if it is no database.
  static StatusOr<std::unique_ptr<SqliteStore>> Open(const std::string& path);
  ~SqliteStore() override;
  SqliteStore(const SqliteStore&) = delete;
  SqliteStore& operator=(const SqliteStore&) = delete;

  StatusOr<std::optional<Entry>> Get(const std::string& key) override;
  Status CompareAndSet(const Write& write) override;
  StatusOr<Lease> Grant(Duration ttl) override;
  Status KeepAlive(Lease lease) override;
  Status Revoke(Lease lease) override;
  Status AwaitChange(const std::string& key, std::int64_t version, Duration timeout) override;

 private:
  SqliteStore(std::string path, sqlite3* database);

  StatusOr<std::optional<Entry>> GetLocked(const std::string& key);
  // An entry whose lease is over is not there.
  Status RemoveExpired(const std::string& key);
  // kAborted if it has another one.
  Status ExpectVersion(const std::string& key, std::int64_t version);
  Status Error(const std::string& what) const;

  const std::string path_;
  std::mutex mutex_;
  sqlite3* const database_;
};

}  // namespace recycle

#endif  // RECYCLE_STORE_SQLITE_STORE_H_
