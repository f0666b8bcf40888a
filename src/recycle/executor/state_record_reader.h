// The receiving end of a link over which a state's records come: puts them together from frames.
//
//   StateRecordReader reader(inbox);
//   RC_ASSIGN_OR_RETURN(const StateRecord record, reader.Take(num_parameters));
//
// Belongs to one thread.
#ifndef RECYCLE_EXECUTOR_STATE_RECORD_READER_H_
#define RECYCLE_EXECUTOR_STATE_RECORD_READER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/comm/inbox.h"
#include "recycle/executor/state_record.h"

namespace recycle {

struct StateRecord {
  StateRecordHeader header;
  std::vector<std::byte> bytes;
};

class StateRecordReader {
 public:
  // `inbox` must outlive the reader.
  explicit StateRecordReader(Inbox& inbox) : inbox_(inbox) {}

  // Blocks for the next record of a state of at most `num_parameters` parameters. Errors: the
  // inbox's interruption; kDataLoss: what came is none.
  StatusOr<StateRecord> Take(std::size_t num_parameters);

 private:
  StatusOr<std::vector<std::byte>> TakeFrame();
  StatusOr<std::vector<std::byte>> TakeBytes(std::uint64_t size);

  Inbox& inbox_;
  int next_frame_ = 0;
};

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_STATE_RECORD_READER_H_
