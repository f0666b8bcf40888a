// What `recycle plan` is asked: its options as given, and the request they make.
//
// Pure, but for reading the profile.
#ifndef RECYCLE_APP_PLAN_REQUEST_H_
#define RECYCLE_APP_PLAN_REQUEST_H_

#include <optional>
#include <string>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/plan/plan.h"
#include "recycle/planner/planner.h"

namespace recycle {

// The options as given; an empty text or absent value is an option that was not given.
struct PlanArguments {
  int dp = 0;
  int pp = 0;
  int microbatches = 0;
  int tp = 1;
  std::string failed;            // "1:2,0:3"
  std::optional<int> failures;   // so many, wherever they do least harm
  std::optional<int> normalize;  // spread `failed`; the value: extra failures per stage allowed
  std::string cost;              // "F=1,I=1,W=1,send=0,opt=0,allreduce=0,deferred=1"
  std::string profile;           // a file with costs, instead of `cost`
  std::string model;             // the entry of a file with layer profiles
  std::string memory_cap;        // absent: as the profile says, none without one
  std::string method = "adaptive";
  bool no_decouple = false;
  bool no_stagger = false;
  std::string slow;  // "1:2=1.5,0:0=2"
  std::optional<int> virtual_stages;
  std::string affinity;
  std::optional<double> time_limit_s;  // exact only
  std::string out;
  std::string trace;
  std::string html;
  bool text = false;
  bool json = false;
  std::optional<int> all_failures;  // the table for 0 to so many failures
  std::string out_dir;              // where the table goes
  bool materialize = false;         // build and check every plan of the table
  std::string table;                // a table file to expand a plan from
  std::string export_format;        // "torch-csv": print that instead of figures
  bool operator==(const PlanArguments&) const = default;
};

// `status` with "option: " before its message.
Status Named(const std::string& option, const Status& status);

// "1:2,0:3" as places of a job of `parallel`. `option` is named in messages. Error:
// kInvalidArgument for a text that is no place, a place out of range or named twice.
StatusOr<std::vector<WorkerId>> ParsePlaces(const std::string& option, const std::string& text,
                                            const Parallelism& parallel);

// "1:2=1.5,0:0=2" as stragglers. Error: kInvalidArgument as above, or for a factor that is not
// above 0.
StatusOr<std::vector<SlowWorker>> ParseSlowWorkers(const std::string& text,
                                                   const Parallelism& parallel);

// `failures` are at most DP * PP - PP, so that every stage can keep a worker. Error:
// kInvalidArgument.
Status CheckFailureCount(const std::string& option, int failures, const Parallelism& parallel);

// What the planner is asked, without `failures`, `normalize` and the table. Error:
// kInvalidArgument, one sentence naming option, value, rule and nearest valid choice;
// kNotFound for a profile that cannot be read.
StatusOr<PlanRequest> PlanRequestOf(const PlanArguments& arguments);

}  // namespace recycle

#endif  // RECYCLE_APP_PLAN_REQUEST_H_
