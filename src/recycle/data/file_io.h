// Whole files in and out, with the operating system's errors as Status. Internal to data.
#ifndef RECYCLE_DATA_FILE_IO_H_
#define RECYCLE_DATA_FILE_IO_H_

#include <string>
#include <string_view>

#include "recycle/base/status.h"

namespace recycle {

// The status of the last failed system call: "opening PATH: No such file or directory".
Status ErrnoStatus(std::string_view doing, const std::string& path);

// All that is left to read from `fd`, which `name` names in errors.
StatusOr<std::string> ReadAll(int fd, const std::string& name);
StatusOr<std::string> ReadFile(const std::string& path);
// Creates or replaces `path`. After an error the file may be partial.
Status WriteFile(const std::string& path, std::string_view content);

}  // namespace recycle

#endif  // RECYCLE_DATA_FILE_IO_H_
