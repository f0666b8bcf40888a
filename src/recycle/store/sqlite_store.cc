#include "recycle/store/sqlite_store.h"

#include <fmt/format.h>
#include <sqlite3.h>

#include <utility>

namespace recycle {
namespace {

// How long a call waits while another process writes.
constexpr int kBusyTimeoutMs = 5'000;

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
      " key TEXT PRIMARY KEY, value BLOB NOT NULL, version INTEGER NOT NULL) WITHOUT ROWID;";
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
  Statement select(database_, "SELECT value, version FROM entries WHERE key = ?1");
  select.Bind(1, key);
  const int result = select.Step();
  if (result == SQLITE_DONE) return std::optional<Entry>();
  if (result != SQLITE_ROW) return Error("read " + key);
  return std::optional<Entry>(Entry{.value = select.Text(0), .version = select.Number(1)});
}

Status SqliteStore::CompareAndSet(const Write& write) {
  const std::lock_guard lock(mutex_);
  // One statement, hence one transaction: nobody can write between the comparison and the setting.
  static constexpr char kInsert[] =
      "INSERT INTO entries (key, value, version) SELECT ?1, ?2, ?3 + 1 WHERE"
      " (?4 = '' OR EXISTS (SELECT 1 FROM entries WHERE key = ?4 AND version = ?5))"
      " ON CONFLICT (key) DO NOTHING";
  static constexpr char kUpdate[] =
      "UPDATE entries SET value = ?2, version = ?3 + 1 WHERE key = ?1 AND version = ?3 AND"
      " (?4 = '' OR EXISTS (SELECT 1 FROM entries WHERE key = ?4 AND version = ?5))";
  const Guard guard = write.guard.value_or(Guard());
  Statement statement(database_, write.expected_version == 0 ? kInsert : kUpdate);
  statement.Bind(1, write.key);
  statement.Bind(2, write.value);
  statement.Bind(3, write.expected_version);
  statement.Bind(4, guard.key);
  statement.Bind(5, guard.version);
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

Status SqliteStore::Error(const std::string& what) const {
  return MakeError(path_, what, database_);
}

}  // namespace recycle
