#include "recycle/app/job_records.h"

#include "recycle/app/record_json.h"

namespace recycle {
namespace {

constexpr char kLaunchKey[] = "launch";
constexpr char kGenerationKey[] = "generation";
constexpr char kEndKey[] = "end";

}  // namespace

StatusOr<JobRecords> JobRecords::TakeOver(Store& store, const Leader& leader, const Clock& clock) {
  RC_ASSIGN_OR_RETURN(const Leadership leadership,
                      leader.lease ? Leadership::Campaign(store, leader.id, *leader.lease)
                                   : Leadership::TakeOver(store, leader.id));
  JobRecords records(store, leadership, leader.launch);
  RC_ASSIGN_OR_RETURN(const auto last, records.Read(kLaunchKey, records.launch_version_));
  records.is_first_ = !last || last->launch != leader.launch;
  if (records.is_first_) RC_RETURN_IF_ERROR(records.Write(kLaunchKey, records.launch_version_, ""));
  RC_ASSIGN_OR_RETURN(const auto generation,
                      records.Read(kGenerationKey, records.generation_version_));
  if (generation) {
    RC_ASSIGN_OR_RETURN(GenerationRecord record, RecordFromJson(generation->text, clock.Now()));
    records.last_generation_ = record.generation;
    if (generation->launch == leader.launch) records.inherited_ = std::move(record);
  }
  RC_ASSIGN_OR_RETURN(const auto end, records.Read(kEndKey, records.end_version_));
  if (end && end->launch == leader.launch) {
    RC_ASSIGN_OR_RETURN(records.end_, EndFromJson(end->text));
  }
  return records;
}

StatusOr<std::optional<JobRecords::Found>> JobRecords::Read(const std::string& key,
                                                            std::int64_t& version) {
  RC_ASSIGN_OR_RETURN(const std::optional<Store::Entry> entry, store_->Get(key));
  if (!entry) return std::optional<Found>();
  version = entry->version;
  const std::size_t line = entry->value.find('\n');
  if (line == std::string::npos) {
    return absl::DataLossError("the store's entry '" + key + "' names no launch");
  }
  return std::optional<Found>({entry->value.substr(0, line), entry->value.substr(line + 1)});
}

Status JobRecords::Put(const GenerationRecord& record, TimePoint now) {
  return Write(kGenerationKey, generation_version_, ToJson(record, now));
}

Status JobRecords::Put(const EndJob& end) { return Write(kEndKey, end_version_, ToJson(end)); }

Status JobRecords::Write(const std::string& key, std::int64_t& version, const std::string& text) {
  const Status written = leadership_.Write(key, version, launch_ + "\n" + text);
  if (written.ok()) ++version;
  if (!absl::IsAborted(written)) return written;
  RC_RETURN_IF_ERROR(leadership_.Prove());
  // It leads, so an attempt before that seemed to fail was this one's own.
  ++version;
  return OkStatus();
}

}  // namespace recycle
