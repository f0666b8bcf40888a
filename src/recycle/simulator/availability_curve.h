// Reader of availability curves: how many instances were running, not which. Two forms:
//
//   2021-12-11, 11:11:30, 55      date, time of day, count (Bamboo's Google Cloud samples)
//   60000,19                      time, count (step curves; two rows at one time are a step)
//
// Joins are new nodes; who leaves is drawn with the seed. Times count from the first row. Pure.
#ifndef RECYCLE_SIMULATOR_AVAILABILITY_CURVE_H_
#define RECYCLE_SIMULATOR_AVAILABILITY_CURVE_H_

#include <cstdint>
#include <string_view>

#include "recycle/base/status.h"
#include "recycle/simulator/failure_trace.h"

namespace recycle {

struct CurveOptions {
  double seconds_per_unit = 0.001;  // of the times in a two-column curve; default milliseconds
  std::uint64_t seed = 1;           // draws the nodes that leave
};

// Error: kInvalidArgument with the line, the value and the rule: a row of another form, time that
// runs backwards, a text that is empty or cut off, or more events than a trace may have.
StatusOr<FailureTrace> ReadAvailabilityCurve(std::string_view text, const CurveOptions& options);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_AVAILABILITY_CURVE_H_
