#include "recycle/store/sqlite_store.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <algorithm>
#include <chrono>
#include <thread>
#include <utility>

namespace recycle {
namespace {

// How long a call waits while another process writes.
constexpr int kBusyTimeoutMs = 5'000;
constexpr std::chrono::milliseconds kLookInterval{10};

// By the monotonic clock, which begins anew with the machine: a lease of before then may claim to
// last for longer than it was ever granted for, and is over.
std::int64_t NowNs() { return SystemClock().Now().time_since_epoch().count(); }

StatusCode CodeOf(int sqlite_code) {
  const bool damaged = sqlite_code == SQLITE_NOTADB || sqlite_code == SQLITE_CORRUPT;
  return damaged ? StatusCode::kDataLoss : StatusCode::kUnavailable;
}

Status MakeError(const std::string& path, const std::string& what, sqlite3* database) {
  const int code = database == nullptr ? SQLITE_NOMEM : sqlite3_errcode(database);
  const char* text = database == nullptr ? sqlite3_errstr(code) : sqlite3_errmsg(database);
  return {CodeOf(code), fmt::format("store {}: cannot {}: {}", path, what, text)};
}

// A prepared statement that is finalized at the end of its scope.
class Statement {
 public:
  Statement(sqlite3* database, const char* sql) {
    sqlite3_prepare_v2(database, sql, -1, &statement_, nullptr);
  }
  ~Statement() { sqlite3_finalize(statement_); }
  Statement(const Statement&) = delete;
  Statement& operator=(const Statement&) = delete;

  void Bind(int index, const std::string& text) {
    sqlite3_bind_text(statement_, index, text.data(), static_cast<int>(text.size()), SQLITE_STATIC);
  }
  void Bind(int index, std::int64_t number) { sqlite3_bind_int64(statement_, index, number); }
  // SQLITE_ROW, SQLITE_DONE or an error; a statement that could not be prepared is an error.
  int Step() { return sqlite3_step(statement_); }
  std::string Text(int column) {
    const auto* bytes = reinterpret_cast<const char*>(sqlite3_column_text(statement_, column));
    return {bytes, static_cast<std::size_t>(sqlite3_column_bytes(statement_, column))};
  }
  std::int64_t Number(int column) { return sqlite3_column_int64(statement_, column); }

 private:
  sqlite3_stmt* statement_ = nullptr;
};

}  // namespace

SqliteStore::SqliteStore(std::string path, sqlite3* database)
    : path_(std::move(path)), database_(database) {}

SqliteStore::~SqliteStore() { sqlite3_close(database_); }

StatusOr<std::unique_ptr<SqliteStore>> SqliteStore::Open(const std::string& path) {
  sqlite3* database = nullptr;
  const int flags = SQLITE_OPEN_READWRITE | SQLITE_OPEN_CREATE | SQLITE_OPEN_FULLMUTEX;
  if (sqlite3_open_v2(path.c_str(), &database, flags, nullptr) != SQLITE_OK) {
    const Status error = MakeError(path, "open it", database);
    sqlite3_close(database);
    return error;
  }
  sqlite3_busy_timeout(database, kBusyTimeoutMs);
  static constexpr char kSetUp[] =
      "PRAGMA journal_mode = WAL;"
      "PRAGMA synchronous = FULL;"
      "CREATE TABLE IF NOT EXISTS entries ("
      " key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL,"
      " lease INTEGER NOT NULL) WITHOUT ROWID;"
      "CREATE TABLE IF NOT EXISTS leases ("
      " id INTEGER PRIMARY KEY AUTOINCREMENT, ttl INTEGER NOT NULL, expires INTEGER NOT NULL);";
  if (sqlite3_exec(database, kSetUp, nullptr, nullptr, nullptr) != SQLITE_OK) {
    const Status error = MakeError(path, "set it up", database);
    sqlite3_close(database);
    return error;
  }
  return std::unique_ptr<SqliteStore>(new SqliteStore(path, database));
}

StatusOr<std::optional<Store::Entry>> SqliteStore::Get(const std::string& key) {
  const std::lock_guard lock(mutex_);
  return GetLocked(key);
}

StatusOr<std::optional<Store::Entry>> SqliteStore::GetLocked(const std::string& key) {
  Statement select(
      database_,
      "SELECT value, version FROM entries WHERE key = ?1 AND (lease = 0 OR EXISTS"
      " (SELECT 1 FROM leases WHERE id = lease AND expires > ?2 AND expires <= ?2 + ttl))");
  select.Bind(1, key);
  select.Bind(2, NowNs());
  const int result = select.Step();
  if (result == SQLITE_DONE) return std::optional<Entry>();
  if (result != SQLITE_ROW) return Error("read " + key);
  return std::optional<Entry>(Entry{.value = select.Text(0), .version = select.Number(1)});
}

Status SqliteStore::CompareAndSet(const Write& write) {
  const std::lock_guard lock(mutex_);
  // One statement, hence one transaction: nobody can write between the comparison and the setting.
  static constexpr char kInsert[] =
      "INSERT INTO entries (key, value, version, lease) SELECT ?1, ?2, ?3 + 1, ?6 WHERE"
      " (?4 = '' OR EXISTS (SELECT 1 FROM entries WHERE key = ?4 AND version = ?5))"
      " ON CONFLICT (key) DO NOTHING";
  static constexpr char kUpdate[] =
      "UPDATE entries SET value = ?2, version = ?3 + 1, lease = ?6 WHERE key = ?1 AND version = ?3 "
      "AND"
      " (?4 = '' OR EXISTS (SELECT 1 FROM entries WHERE key = ?4 AND version = ?5))";
  const Guard guard = write.guard.value_or(Guard());
  RC_RETURN_IF_ERROR(RemoveExpired(write.key));
  Statement statement(database_, write.expected_version == 0 ? kInsert : kUpdate);
  statement.Bind(1, write.key);
  statement.Bind(2, write.value);
  statement.Bind(3, write.expected_version);
  statement.Bind(4, guard.key);
  statement.Bind(5, guard.version);
  statement.Bind(6, write.lease);
  if (statement.Step() != SQLITE_DONE) return Error("write " + write.key);
  if (sqlite3_changes(database_) == 1) return OkStatus();
  RC_RETURN_IF_ERROR(ExpectVersion(write.key, write.expected_version));
  return ExpectVersion(guard.key, guard.version);
}

Status SqliteStore::ExpectVersion(const std::string& key, std::int64_t version) {
  RC_ASSIGN_OR_RETURN(const std::optional<Entry> there, GetLocked(key));
  const std::int64_t found = there ? there->version : 0;
  if (found == version) return OkStatus();
  return absl::AbortedError(
      fmt::format("store {}: {} is at version {}, not {}: somebody else has written it", path_, key,
                  found, version));
}

Status SqliteStore::RemoveExpired(const std::string& key) {
  Statement look(database_, "SELECT lease FROM entries WHERE key = ?1 AND lease != 0");
  look.Bind(1, key);
  if (look.Step() != SQLITE_ROW) return OkStatus();
  Statement remove(
      database_,
      "DELETE FROM entries WHERE key = ?1 AND lease != 0 AND NOT EXISTS"
      " (SELECT 1 FROM leases WHERE id = lease AND expires > ?2 AND expires <= ?2 + ttl)");
  remove.Bind(1, key);
  remove.Bind(2, NowNs());
  return remove.Step() == SQLITE_DONE ? OkStatus() : Error("remove " + key);
}

StatusOr<Store::Lease> SqliteStore::Grant(Duration ttl) {
  const std::lock_guard lock(mutex_);
  Statement insert(database_, "INSERT INTO leases (ttl, expires) VALUES (?1, ?2)");
  insert.Bind(1, ttl.count());
  insert.Bind(2, NowNs() + ttl.count());
  if (insert.Step() != SQLITE_DONE) return Error("grant a lease");
  return sqlite3_last_insert_rowid(database_);
}

Status SqliteStore::KeepAlive(Lease lease) {
  const std::lock_guard lock(mutex_);
  Statement update(database_,
                   "UPDATE leases SET expires = ?2 + ttl WHERE id = ?1 AND expires > ?2 AND "
                   "expires <= ?2 + ttl");
  update.Bind(1, lease);
  update.Bind(2, NowNs());
  if (update.Step() != SQLITE_DONE) return Error("keep a lease alive");
  if (sqlite3_changes(database_) == 1) return OkStatus();
  return absl::NotFoundError(fmt::format("store {}: lease {} is over", path_, lease));
}

Status SqliteStore::Revoke(Lease lease) {
  const std::lock_guard lock(mutex_);
  Statement remove(database_, "DELETE FROM leases WHERE id = ?1");
  remove.Bind(1, lease);
  return remove.Step() == SQLITE_DONE ? OkStatus() : Error("revoke a lease");
}

Status SqliteStore::AwaitChange(const std::string& key, std::int64_t version, Duration timeout) {
  const TimePoint deadline = SystemClock().Now() + timeout;
  for (;;) {
    RC_ASSIGN_OR_RETURN(const std::optional<Entry> entry, Get(key));
    if ((entry ? entry->version : 0) != version) return OkStatus();
    const Duration left = deadline - SystemClock().Now();
    if (left <= Duration::zero()) return OkStatus();
    std::this_thread::sleep_for(std::min<Duration>(left, kLookInterval));
  }
}

Status SqliteStore::Error(const std::string& what) const {
  return MakeError(path_, what, database_);
}

}  // namespace recycle
