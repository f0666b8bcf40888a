// The plan table: plans for every number of failures 0..N, before any of them happens.
//
// A schedule for failures needs only the largest number of failures of a stage, f_max: virtual
// pipelines run one template for all sets with the same f_max. So the table of a job of 32 x 64
// workers and up to 512 failures has nine templates, each stored as the recipe that makes it again
// (a policy and a surrogate, below 100 bytes); orders are regenerated bit for bit on every machine.
//
//   StatusOr<PlanTable> table = PlanTable::Make(request, 512);
//   TableLine line = table->Line(20);              // period, bound, ... of 20 failures
//   StatusOr<Plan> plan = table->ExpandCount(20);  // or Expand(failed) for any failure set
//
// Needs one stage per worker. Immutable; safe to share between threads.
#ifndef RECYCLE_PLANNER_PLAN_TABLE_H_
#define RECYCLE_PLANNER_PLAN_TABLE_H_

#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/planner/flat_job.h"
#include "recycle/planner/planner.h"
#include "recycle/planner/virtual_pipelines.h"

namespace recycle {

// What the table says about one number of failures.
struct TableLine {
  int failures = 0;
  std::vector<int> per_stage;  // placement *last*
  Ticks period = 0;            // of the template; the expanded plan's is never longer
  Ticks makespan = 0;
  Ticks lower_bound = 0;      // for per_stage
  int template_failures = 0;  // f_max of the template used
};

class PlanTable {
 public:
  // A template: one pipeline's schedule for up to `failures` failures per stage.
  struct Entry {
    int failures = 0;
    int micro_batches = 0;
    Recipe recipe;
    Ticks period = 0;
    Ticks makespan = 0;
  };

  // Plans 0..max_failures failures of `request` (whose failed and slow must be empty, whose method
  // must be adaptive and whose workers have one stage each: kInvalidArgument). Errors as MakePlan.
  static StatusOr<PlanTable> Make(const PlanRequest& request, int max_failures);

  // A JSON document, "format": "recycle-plan-table/1", with a hash of the job. Reading is strict;
  // errors are kInvalidArgument.
  std::string ToJson() const;
  static StatusOr<PlanTable> FromJson(std::string_view json);
  static StatusOr<PlanTable> ReadFile(const std::string& path);
  Status WriteFile(const std::string& path) const;

  int max_failures() const { return max_failures_; }
  const std::vector<Entry>& entries() const { return entries_; }
  // The job: costs, options and sizes, without failures.
  const PlanRequest& request() const { return request_; }
  // 64 hexadecimal digits over everything a plan depends on.
  std::string JobHash() const;

  // The entry for failures per stage of at most `most`: the one with the least period among those
  // for that many or more (a plan for more failures is legal for fewer). nullptr if the table has
  // none.
  const Entry* Find(int most) const;

  // `failures` is at most max_failures().
  TableLine Line(int failures) const;

  // The plan for a failure set. Errors: kInvalidArgument for places that do not exist,
  // kFailedPrecondition for a stage without a live worker, kOutOfRange if a stage has more failures
  // than the table was made for.
  StatusOr<Plan> Expand(const std::vector<WorkerId>& failed) const;
  // The plan for a number of failures, placement *last*.
  StatusOr<Plan> ExpandCount(int failures) const;

  // Calls work(0), ..., work(count - 1), in any order, on as many threads as it likes.
  using ParallelFor = std::function<void(int count, const std::function<void(int)>& work)>;

  // Builds, checks and times the plan of every line in memory (as orders, the compact form of a
  // plan): the proof that the table is right. Error: kInternal about the first line whose plan is
  // illegal or slower than stated.
  Status CheckAllLines(const ParallelFor& parallel_for) const;

 private:
  PlanTable(PlanRequest request, int max_failures)
      : request_(std::move(request)), max_failures_(max_failures) {}
  std::string JobText() const;
  StatusOr<const Entry*> EntryFor(const FlatJob& job) const;
  Status CheckLine(int failures) const;
  // Runs every recipe again; error if one does not give the period the entry states.
  Status RegenerateOrders();

  PlanRequest request_;
  int max_failures_ = 0;
  FlatJob job_;                 // fault-free
  std::vector<Entry> entries_;  // ascending by failures, 0, 1, ...
  std::vector<Order> orders_;   // of the single pipelines, by entry
};

}  // namespace recycle

#endif  // RECYCLE_PLANNER_PLAN_TABLE_H_
