// What the store holds, as text: the membership record and how the job ended.
//
//   store value = ToJson(record);   GenerationRecord record = RecordFromJson(value).value();
//
// Pure, thread-safe.
#ifndef RECYCLE_APP_RECORD_JSON_H_
#define RECYCLE_APP_RECORD_JSON_H_

#include <string>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/coordinator/events.h"

namespace recycle {

// `now`: times of the record are kept as how long ago they were.
std::string ToJson(const GenerationRecord& record, TimePoint now);
// Error: kDataLoss for a text that ToJson did not write.
StatusOr<GenerationRecord> RecordFromJson(const std::string& text, TimePoint now);

std::string ToJson(const EndJob& end);
// Error as above.
StatusOr<EndJob> EndFromJson(const std::string& text);

}  // namespace recycle

#endif  // RECYCLE_APP_RECORD_JSON_H_
