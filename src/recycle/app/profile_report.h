// What a measured run says about a job: durations, bytes and links as medians and 95th percentiles,
// and the costs for the planner. Pure.
//
//   RC_ASSIGN_OR_RETURN(const ProfileReport report,
//                       MakeProfileReport(samples, /*num_stages=*/4, /*skipped=*/10));
//   RC_ASSIGN_OR_RETURN(const CostProfile costs, CostsOf(report));
//
// An all-reduce or a validation counts from when the last worker that takes part has begun it: what
// the others wait is the schedule's, not its own. (A stage that is done with a validation before
// others have begun theirs, as with staggered steps, has not waited for them: it counts from when
// the last of its own workers has begun it.) A send counts from when its frame is queued to
// when the receiver can take it.
#ifndef RECYCLE_APP_PROFILE_REPORT_H_
#define RECYCLE_APP_PROFILE_REPORT_H_

#include <map>
#include <optional>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/plan/action.h"
#include "recycle/plan/costs.h"

namespace recycle {

// Iterations count from 1.
struct ActionSample {
  WorkerId worker;
  Action action;
  int iteration = 1;
  double start_ms = 0;
  double end_ms = 0;
};

// By how much the bytes that a worker's tensors hold grew in an action; a worker's samples are in
// the order of execution.
struct HeldSample {
  WorkerId worker;
  Action action;
  int iteration = 1;
  double bytes = 0;
};

enum class SentKind { kActivation, kGradient, kNorm };

struct SendSample {
  WorkerId from;
  WorkerId to;
  SentKind kind = SentKind::kActivation;
  int iteration = 1;
  double bytes = 0;  // payload
  double ms = 0;
};

struct StateSample {
  StageId stage;
  double parameter_bytes = 0;
  double state_bytes = 0;  // parameters + moments
};

struct ProfileSamples {
  std::vector<ActionSample> actions;
  std::vector<HeldSample> held;
  std::vector<SendSample> sends;
  std::vector<StateSample> states;
};

struct Measure {
  int samples = 0;
  double median = 0;  // mean of the two in the middle if their number is even
  double p95 = 0;     // the smallest value that 95% do not exceed
};
Measure MeasureOf(std::vector<double> values);

struct StageProfile {
  std::map<ActionKind, Measure> ms;  // of the kinds that were run
  double parameter_bytes = 0;
  double state_bytes = 0;
  double forward_bytes = 0;   // held more after F than before
  double freed_bytes = 0;     // of it, by I; negative where I keeps more than it frees
  double deferred_bytes = 0;  // held between I and W; 0 without I
  double boundary_bytes = 0;  // of one frame to a neighbour
  double peak_bytes = 0;      // the most that a worker held for micro-batches, after an action
};

// A direction of a link.
struct LinkProfile {
  WorkerId from;
  WorkerId to;
  double bytes = 0;                   // of a boundary tensor
  Measure ms;                         // of its sends
  std::optional<double> latency_ms;   // median of the smallest frames, the norms
  std::optional<double> bytes_per_s;  // what the rest of the time carries; absent if there is none
};

struct ProfileReport {
  int iterations = 0;  // measured
  int skipped = 0;     // before them
  Measure iteration_ms;
  std::vector<StageProfile> stages;
  std::vector<Measure> send_forward;   // ms, one per boundary between stage i and i + 1
  std::vector<Measure> send_backward;  // likewise
  std::vector<LinkProfile> links;      // ascending
};

// The first `skipped` iterations are left out. Error: kDataLoss if a stage has no F, no backward,
// or no step in what is left.
StatusOr<ProfileReport> MakeProfileReport(const ProfileSamples& samples, int num_stages,
                                          int skipped);

// Medians, in ms and bytes, without capacities. A step is VALIDATE and STEP. A plan knows memory to
// shrink at I only, so activation_bytes is the larger of what F and I leave. Where B is run as one,
// I and W get half of it each. Error: kInvalidArgument for a duration too long for a plan.
StatusOr<CostProfile> CostsOf(const ProfileReport& report);

}  // namespace recycle

#endif  // RECYCLE_APP_PROFILE_REPORT_H_
