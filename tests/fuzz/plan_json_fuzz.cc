// Any text at all goes through the reader of plan files and everything that judges plans: an error
// is fine, a crash is not, and what is accepted must survive being written and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "recycle/base/check.h"
#include "recycle/plan/pictures.h"
#include "recycle/plan/plan_json.h"
#include "recycle/plan/report.h"

namespace recycle {
namespace {

// A short text can ask for a big plan; judging those is slow, not wrong.
constexpr std::int64_t kMaxMicroBatches = 100'000;

void JudgePlan(std::string_view text) {
  const StatusOr<Plan> plan = PlanFromJson(text);
  if (!plan.ok()) return;
  const StatusOr<Plan> again = PlanFromJson(PlanToJson(*plan));
  RC_CHECK(again.ok() && *again == *plan) << PlanToJson(*plan);
  const std::int64_t micro_batches =
      std::int64_t{plan->parallel.data} * plan->parallel.num_stages() * plan->micro_batches;
  if (micro_batches > kMaxMicroBatches) return;
  const CheckReport report = CheckPlan(*plan);
  RC_CHECK(!report.violations.empty() || report.figures.has_value())
      << "legal but not timed: " << (report.errors.empty() ? "" : report.errors[0]);
  if (plan->workers.size() <= 16) PlanToGrid(*plan, report.violations);
}

}  // namespace
}  // namespace recycle

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  recycle::JudgePlan({reinterpret_cast<const char*>(data), size});
  return 0;
}
