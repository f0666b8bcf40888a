// What a simulation found, as a table, as one JSON object, and as a web page.
//
// Pure.
#ifndef RECYCLE_APP_SIMULATION_REPORT_H_
#define RECYCLE_APP_SIMULATION_REPORT_H_

#include <string>
#include <vector>

#include "recycle/app/simulate_arguments.h"
#include "recycle/simulator/simulation.h"

namespace recycle {

// Goodput and live workers from `from_s` on.
struct CurvePoint {
  double from_s = 0;
  double throughput = 0;  // samples per second; 0 while stalled
  int live = 0;
};

struct SimulationReport {
  const SimulationSetup& setup;
  std::vector<PolicyResult> results;
  std::vector<std::vector<CurvePoint>> curves;  // by result; empty if nobody asked for them
};

std::string ReportAsTable(const SimulationReport& report);
// {"hours", "failures", ..., "constants": {name: value}, "policies": [{...}]}
std::string ReportAsJson(const SimulationReport& report);

}  // namespace recycle

#endif  // RECYCLE_APP_SIMULATION_REPORT_H_
