// Any text at all goes through the reader of plan tables: an error is fine, a crash is not; what is
// accepted must survive being written and read again, and all its lines must expand to legal plans.
//
// A table carries a hash of its job, which mutations never hit; so the hash is made right first.
#include <cstddef>
#include <cstdint>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>

#include "recycle/base/check.h"
#include "recycle/base/sha256.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/validate.h"
#include "recycle/planner/plan_builder.h"
#include "recycle/planner/plan_table.h"

namespace recycle {
namespace {

// A short text can ask for a big job; running its recipes is slow, not wrong.
constexpr std::int64_t kMostSlots = 2'000;

// `text` with the hash of its own job, if it has a job that is small enough to run.
std::string WithItsHash(std::string_view text) {
  nlohmann::json document = nlohmann::json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!document.is_object() || !document.contains("job")) return std::string(text);
  const StatusOr<Plan> job = PlanFromJson(
      document.at("job").dump(-1, ' ', false, nlohmann::json::error_handler_t::replace));
  if (!job.ok()) return std::string(text);
  const std::int64_t slots = std::int64_t{job->parallel.data} * job->micro_batches *
                             std::int64_t{job->parallel.num_stages()};
  if (slots > kMostSlots) return "";
  PlanRequest request;
  request.parallel = job->parallel;
  request.micro_batches = job->micro_batches;
  request.costs = job->costs;
  request.options = job->options;
  request.failed = job->failed;
  request.slow = job->slow;
  Sha256 hash;
  hash.Update(PlanToJson(PlanWithoutWorkers(request)));
  document["job_hash"] = hash.HexDigest();
  return document.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

void JudgeTable(std::string_view text) {
  const StatusOr<PlanTable> raw = PlanTable::FromJson(text.substr(0, 100'000));
  const StatusOr<PlanTable> table = raw.ok() ? raw : PlanTable::FromJson(WithItsHash(text));
  if (!table.ok()) return;
  const StatusOr<PlanTable> again = PlanTable::FromJson(table->ToJson());
  RC_CHECK(again.ok() && again->ToJson() == table->ToJson()) << again.status();
  for (int failures = 0; failures <= table->max_failures(); ++failures) {
    const StatusOr<Plan> plan = table->ExpandCount(failures);
    RC_CHECK(plan.ok()) << plan.status();
    RC_CHECK(Validate(*plan).ok()) << Validate(*plan);
  }
}

}  // namespace
}  // namespace recycle

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  recycle::JudgeTable({reinterpret_cast<const char*>(data), size});
  return 0;
}
