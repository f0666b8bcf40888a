// Whole files in and out, with the operating system's errors as Status.
//
//   RC_RETURN_IF_ERROR(WriteFileAtomically(path, text));
//
// A written file is the old one or the new one, never a part: a temporary file beside it, then a
// rename. What is no regular file (a device, a pipe, a link) keeps its name and is written in
// place. Not thread-safe per file; different files are independent.
#ifndef RECYCLE_BASE_FILE_H_
#define RECYCLE_BASE_FILE_H_

#include <string>
#include <string_view>

#include "recycle/base/status.h"

namespace recycle {

// A file that appears completely or not at all: a temporary one is written, then renamed. What is
// not committed is removed. Not thread-safe.
class AtomicFile {
 public:
  explicit AtomicFile(std::string path);
  ~AtomicFile();
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;

  void Append(std::string_view text);
  // Error, also of what was appended before: kResourceExhausted for a full disk, kPermissionDenied
  // otherwise, naming the path and the reason.
  Status Commit();

 private:
  std::string temporary() const { return in_place_ ? path_ : path_ + ".tmp"; }
  void WriteBuffer();

  const std::string path_;
  const bool in_place_;  // a rename would put a regular file where /dev/null was
  std::string buffer_;
  int file_;
  int error_ = 0;  // the first errno
  bool committed_ = false;
};

// The same in one go. Errors as AtomicFile::Commit.
Status WriteFileAtomically(const std::string& path, std::string_view text);

// The file's text. Error: kNotFound naming the path and the reason.
StatusOr<std::string> ReadWholeFile(const std::string& path);

}  // namespace recycle

#endif  // RECYCLE_BASE_FILE_H_
