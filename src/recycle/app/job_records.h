// The job's facts in the store, written by the coordinator that leads: the newest generation's
// record and, once it is over in good order, how the job ended. Whoever leads next begins from
// them.
//
//   RC_ASSIGN_OR_RETURN(JobRecords records,
//                       JobRecords::TakeOver(*store, {"process 71", launch}, clock));
//   records.inherited();                       // the newest record, if there is one
//   Status stored = records.Put(record, now);  // kAborted: another coordinator leads
//
// Not thread-safe.
#ifndef RECYCLE_APP_JOB_RECORDS_H_
#define RECYCLE_APP_JOB_RECORDS_H_

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

#include "recycle/base/clock.h"
#include "recycle/base/status.h"
#include "recycle/coordinator/events.h"
#include "recycle/store/leadership.h"
#include "recycle/store/store.h"

namespace recycle {

class JobRecords {
 public:
  struct Leader {
    std::string id;      // for people
    std::string launch;  // names this start of the job: what earlier starts have left is over
    // There are others who would lead: it waits for its turn, and leads by a lease of this length.
    std::optional<Duration> lease = std::nullopt;
  };
  // Begins a term. `store` must outlive the object. Errors: the store's; kDataLoss: a record that
  // makes no sense.
  static StatusOr<JobRecords> TakeOver(Store& store, const Leader& leader, const Clock& clock);

  std::int64_t term() const { return leadership_.term(); }
  // Has no other coordinator led this launch before?
  bool is_first() const { return is_first_; }
  // Of an earlier coordinator of this launch.
  const std::optional<GenerationRecord>& inherited() const { return inherited_; }
  // Of any launch; 0: none.
  Generation last_generation() const { return last_generation_; }
  // The job is over: its workers may have left already.
  const std::optional<EndJob>& end() const { return end_; }

  // One attempt each. kAborted: this coordinator leads no longer; other errors: the store is out of
  // order, and the same may be put again.
  Status Put(const GenerationRecord& record, TimePoint now);
  Status Put(const EndJob& end);
  // Does it still lead? Errors as above.
  Status Prove() { return leadership_.Prove(); }

 private:
  JobRecords(Store& store, Leadership leadership, std::string launch)
      : store_(&store), leadership_(leadership), launch_(std::move(launch)) {}

  struct Found {
    std::string launch;
    std::string text;
  };
  // What stands under `key`, whose version is noted; nothing if nothing does.
  StatusOr<std::optional<Found>> Read(const std::string& key, std::int64_t& version);
  Status Write(const std::string& key, std::int64_t& version, const std::string& text);

  Store* store_;
  Leadership leadership_;
  std::string launch_;
  bool is_first_ = true;
  Generation last_generation_;
  std::optional<GenerationRecord> inherited_;
  std::optional<EndJob> end_;
  std::int64_t launch_version_ = 0;
  std::int64_t generation_version_ = 0;
  std::int64_t end_version_ = 0;
};

}  // namespace recycle

#endif  // RECYCLE_APP_JOB_RECORDS_H_
