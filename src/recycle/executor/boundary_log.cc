#include "recycle/executor/boundary_log.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <filesystem>
#include <utility>

#include "recycle/base/log.h"

namespace recycle {
namespace {

std::string FolderFor(const std::string& folder) {
  return folder.empty() ? std::filesystem::temp_directory_path().string() : folder;
}

// Moves all bytes by `call(offset, rest)`, which is pread or pwrite. Returns an errno, or 0.
template <typename Call>
int MoveAll(std::size_t size, const Call& call) {
  for (std::size_t done = 0; done < size;) {
    const ssize_t moved = call(done, size - done);
    if (moved < 0 && errno == EINTR) continue;
    if (moved <= 0) return moved < 0 ? errno : EIO;
    done += static_cast<std::size_t>(moved);
  }
  return 0;
}

}  // namespace

BoundaryLog::BoundaryLog(std::int64_t memory_bytes, const std::string& folder)
    : memory_bytes_(memory_bytes), folder_(FolderFor(folder)) {}

BoundaryLog::~BoundaryLog() {
  if (file_ >= 0) close(file_);
}

void BoundaryLog::Keep(const FrameKey& key, SharedBytes payload) {
  const auto [place, is_new] = entries_.try_emplace(key);
  if (!is_new) return;
  Entry& entry = place->second;
  entry.payload = std::move(payload);
  entry.size = entry.payload->size();
  const auto size = static_cast<std::int64_t>(entry.size);
  if (bytes_in_memory_ + size > memory_bytes_ && WriteToFile(entry)) {
    bytes_in_file_ += size;
  } else {
    bytes_in_memory_ += size;
  }
}

bool BoundaryLog::OpenFile() {
  if (file_failed_) return false;
  if (file_ >= 0) return true;
  std::string path = folder_ + "/boundary-log-XXXXXX";
  file_ = mkostemp(path.data(), O_CLOEXEC);
  if (file_ < 0) {
    GiveUpFile(errno);
    return false;
  }
  unlink(path.c_str());
  return true;
}

bool BoundaryLog::WriteToFile(Entry& entry) {
  if (!OpenFile()) return false;
  const auto hole = holes_.find(entry.size);
  entry.offset = hole == holes_.end() ? file_end_ : hole->second;
  const int error = MoveAll(entry.size, [&](std::size_t done, std::size_t rest) {
    return pwrite(file_, entry.payload->data() + done, rest,
                  entry.offset + static_cast<off_t>(done));
  });
  if (error != 0) {
    GiveUpFile(error);
    return false;
  }
  if (hole == holes_.end()) {
    file_end_ += static_cast<std::int64_t>(entry.size);
  } else {
    holes_.erase(hole);
  }
  entry.payload = nullptr;
  return true;
}

// What is in the file stays readable; the rest is kept in memory from here on.
void BoundaryLog::GiveUpFile(int error) {
  file_failed_ = true;
  LogWarning("the boundary log stays in memory beyond resilience.log_bytes = {}: {}: {}",
             memory_bytes_, folder_, std::strerror(error));
}

StatusOr<SharedBytes> BoundaryLog::Find(const FrameKey& key) const {
  const auto found = entries_.find(key);
  if (found == entries_.end()) {
    return absl::NotFoundError(fmt::format("the {} is not in the boundary log", ToString(key)));
  }
  const Entry& entry = found->second;
  if (entry.payload != nullptr) return entry.payload;
  auto bytes = std::make_shared<std::vector<std::byte>>(entry.size);
  const int error = MoveAll(entry.size, [&](std::size_t done, std::size_t rest) {
    return pread(file_, bytes->data() + done, rest, entry.offset + static_cast<off_t>(done));
  });
  if (error != 0) {
    return absl::DataLossError(fmt::format("the {} cannot be read back from the boundary log: {}",
                                           ToString(key), std::strerror(error)));
  }
  return SharedBytes(std::move(bytes));
}

std::vector<FrameKey> BoundaryLog::keys() const {
  std::vector<FrameKey> keys;
  keys.reserve(entries_.size());
  for (const auto& [key, entry] : entries_) keys.push_back(key);
  return keys;
}

void BoundaryLog::Drop(const Entry& entry) {
  const auto size = static_cast<std::int64_t>(entry.size);
  if (entry.payload != nullptr) {
    bytes_in_memory_ -= size;
  } else {
    bytes_in_file_ -= size;
    holes_.emplace(entry.size, entry.offset);
  }
}

// Keys are ordered by iteration first.
void BoundaryLog::DropBefore(int iteration) {
  while (!entries_.empty() && entries_.begin()->first.iteration < iteration) {
    Drop(entries_.begin()->second);
    entries_.erase(entries_.begin());
  }
}

void BoundaryLog::DropFrom(int iteration) {
  const auto first = std::find_if(entries_.begin(), entries_.end(), [iteration](const auto& entry) {
    return entry.first.iteration >= iteration;
  });
  for (auto entry = first; entry != entries_.end(); entry = entries_.erase(entry)) {
    Drop(entry->second);
  }
}

void BoundaryLog::Clear() {
  for (const auto& [key, entry] : entries_) Drop(entry);
  entries_.clear();
}

}  // namespace recycle
