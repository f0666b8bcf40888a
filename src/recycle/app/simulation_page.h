// A simulation as a self-contained web page: the trace (live workers over time), throughput over
// time per policy, ETTR bars, the figures, and the constants in force. Inline SVG and CSS and a
// small script; nothing is loaded from anywhere.
//
// Pure.
#ifndef RECYCLE_APP_SIMULATION_PAGE_H_
#define RECYCLE_APP_SIMULATION_PAGE_H_

#include <string>

#include "recycle/app/simulation_report.h"

namespace recycle {

// `report` has curves.
std::string ReportAsPage(const SimulationReport& report);

}  // namespace recycle

#endif  // RECYCLE_APP_SIMULATION_PAGE_H_
