// Files that survive a power cut: written under a temporary name, flushed to the device, renamed,
// and the folder flushed. At any moment the file under its own name is the old one, the new one or
// absent, never a part (users' report: Lightning-AI/pytorch-lightning#19970).
//
//   DurableFile file(path);
//   file.Append(std::as_bytes(std::span(values)));
//   RC_RETURN_IF_ERROR(file.Commit());
//
// Not thread-safe per file; different files are independent. The process has to ignore SIGXFSZ.
#ifndef RECYCLE_CHECKPOINT_DURABLE_FILE_H_
#define RECYCLE_CHECKPOINT_DURABLE_FILE_H_

#include <cstddef>
#include <functional>
#include <span>
#include <string>
#include <string_view>

#include "recycle/base/status.h"

namespace recycle {

class DurableFile {
 public:
  // Opens path + ".tmp"; an older one of that name is overwritten.
  explicit DurableFile(std::string path);
  // Removes what was not committed.
  ~DurableFile();
  DurableFile(const DurableFile&) = delete;
  DurableFile& operator=(const DurableFile&) = delete;

  // Errors are kept for Commit.
  void Append(std::span<const std::byte> bytes);

  // Flushes, calls `before_rename`, renames, flushes the folder. Error, also of what was appended
  // before: kResourceExhausted for a full disk, kPermissionDenied otherwise, naming path and
  // reason.
  Status Commit(const std::function<void()>& before_rename = [] {});

 private:
  std::string temporary() const { return path_ + ".tmp"; }

  const std::string path_;
  int file_;
  int error_ = 0;  // the first errno
  bool committed_ = false;
};

// The same in one go.
Status WriteFileDurably(const std::string& path, std::string_view text);

// Makes the entries of a folder durable: creations, renames and removals in it.
Status SyncFolder(const std::string& path);

// "'<path>' cannot be written: <reason>" with the code as for DurableFile::Commit.
Status WriteError(const std::string& path, int error);

}  // namespace recycle

#endif  // RECYCLE_CHECKPOINT_DURABLE_FILE_H_
