// The values inside protocol messages <-> protobuf: workers, ledgers of an iteration, the rest of
// an iteration. convert.h has the messages; nobody else needs this.
//
// Reading checks what can be checked without knowing the job: ids are at least 0, enums are ones
// that this version knows, lists have no more entries than they can. Error: kInvalidArgument naming
// the field.
//
// Pure, thread-safe.
#ifndef RECYCLE_RPC_WIRE_VALUES_H_
#define RECYCLE_RPC_WIRE_VALUES_H_

#include <fmt/format.h>

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/protocol/messages.h"
#include "recycle_control.pb.h"

namespace recycle {

v1::Worker ToProto(WorkerId worker);
v1::MicroBatch ToProto(MicroBatch micro_batch);
v1::Endpoints ToProto(const Endpoints& endpoints);
v1::IterationLedger ToProto(const IterationLedger& ledger);
v1::OpenIteration ToProto(const OpenIteration& open);
v1::Verdict ToProto(const Verdict& verdict);
v1::Quantum ToProto(const Quantum& quantum);

Status AtLeastZero(std::string_view field, std::int64_t value);
// From 0, and so far from the end of the numbers that whoever counts on does not get there.
Status CheckIteration(std::string_view field, std::int32_t value);
// From 0, and no longer than a plan's costs may be.
Status CheckDuration(std::string_view field, std::int64_t nanoseconds);
StatusOr<Generation> ReadGeneration(std::int64_t value);
// `present`: whether the message has the field at all.
StatusOr<WorkerId> ReadWorker(std::string_view field, bool present, const v1::Worker& proto);
StatusOr<std::vector<WorkerId>> ReadWorkers(
    std::string_view field, const google::protobuf::RepeatedPtrField<v1::Worker>& protos);
StatusOr<MicroBatch> ReadMicroBatch(const v1::MicroBatch& proto);
Endpoints ReadEndpoints(const v1::Endpoints& proto);
StatusOr<IterationLedger> ReadIterationLedger(const v1::IterationLedger& proto);
StatusOr<OpenIteration> ReadOpenIteration(const v1::OpenIteration& proto);
StatusOr<Verdict> ReadVerdict(const v1::Verdict& proto);
StatusOr<Quantum> ReadQuantum(const v1::Quantum& proto);
StatusOr<std::shared_ptr<const Plan>> ReadPlan(const std::string& json);

// All of `protos`, as `read` reads one. Error: the first that it has.
template <typename Value, typename Proto>
StatusOr<std::vector<Value>> ReadEach(const google::protobuf::RepeatedPtrField<Proto>& protos,
                                      StatusOr<Value> (*read)(const Proto&)) {
  std::vector<Value> values;
  values.reserve(static_cast<std::size_t>(protos.size()));
  for (const Proto& proto : protos) {
    RC_ASSIGN_OR_RETURN(Value value, read(proto));
    values.push_back(std::move(value));
  }
  return values;
}

// Iterations that are open at once: never more, and each once.
inline constexpr std::size_t kMaxOpenIterations = 3;
template <typename Entry>
Status CheckAscending(std::string_view field, const std::vector<Entry>& entries) {
  if (entries.size() > kMaxOpenIterations) {
    return absl::InvalidArgumentError(fmt::format("control message: {} has {} entries; at most {}",
                                                  field, entries.size(), kMaxOpenIterations));
  }
  for (std::size_t i = 1; i < entries.size(); ++i) {
    if (entries[i - 1].iteration < entries[i].iteration) continue;
    return absl::InvalidArgumentError(
        fmt::format("control message: {} has iteration {} after {}; they must ascend", field,
                    entries[i].iteration, entries[i - 1].iteration));
  }
  return OkStatus();
}

}  // namespace recycle

#endif  // RECYCLE_RPC_WIRE_VALUES_H_
