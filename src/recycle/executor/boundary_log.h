// What this worker has sent, in both directions, of the iterations that are not closed: a receiver
// that lost it, or a new one, gets it from here once more. Payloads are shared with the links, not
// copied. What does not fit into the memory allowed is written to a file without a name (it is gone
// with the process); if that cannot be written, it stays in memory after all.
//
//   BoundaryLog log(options.log_bytes, options.log_folder);
//   log.Keep(key, payload);                                  // at the end of an F or I
//   RC_ASSIGN_OR_RETURN(SharedBytes payload, log.Find(key));  // to send it again
//   log.DropBefore(iteration);                                // closed
//
// Belongs to the training thread.
// Source: rule a of docs/RECOVERY.md (retention is per iteration, not per receiver).
#ifndef RECYCLE_EXECUTOR_BOUNDARY_LOG_H_
#define RECYCLE_EXECUTOR_BOUNDARY_LOG_H_

#include <cstddef>
#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/comm/frame.h"

namespace recycle {

class BoundaryLog {
 public:
  // `folder` is for the file; empty = the system's folder for temporary files.
  BoundaryLog(std::int64_t memory_bytes, const std::string& folder);
  ~BoundaryLog();
  BoundaryLog(const BoundaryLog&) = delete;
  BoundaryLog& operator=(const BoundaryLog&) = delete;

  // A key that is here already stays as it is: what is made again has the same bits.
  void Keep(const FrameKey& key, SharedBytes payload);

  // Errors: kNotFound; kDataLoss if the file cannot be read.
  StatusOr<SharedBytes> Find(const FrameKey& key) const;

  std::vector<FrameKey> keys() const;  // ascending
  void DropBefore(int iteration);
  void DropFrom(int iteration);  // that one and later ones
  void Clear();

  std::int64_t bytes_in_memory() const { return bytes_in_memory_; }
  std::int64_t bytes_in_file() const { return bytes_in_file_; }

 private:
  struct Entry {
    SharedBytes payload;  // null = in the file
    std::int64_t offset = 0;
    std::size_t size = 0;
  };

  bool OpenFile();
  bool WriteToFile(Entry& entry);
  void GiveUpFile(int error);
  void Drop(const Entry& entry);

  const std::int64_t memory_bytes_;
  const std::string folder_;
  int file_ = -1;
  bool file_failed_ = false;
  std::int64_t file_end_ = 0;
  std::multimap<std::size_t, std::int64_t> holes_;  // size -> offset, in the file
  std::int64_t bytes_in_memory_ = 0;
  std::int64_t bytes_in_file_ = 0;
  std::map<FrameKey, Entry> entries_;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_BOUNDARY_LOG_H_
