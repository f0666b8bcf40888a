// A profile as people and programs read it.
#ifndef RECYCLE_APP_PROFILE_TEXT_H_
#define RECYCLE_APP_PROFILE_TEXT_H_

#include <string>

#include "recycle/app/profile_report.h"

namespace recycle {

// Tables: durations per stage and kind, bytes per stage, links. `planned_ms`: what the schedule
// that was run takes per iteration by the timeline, with the measured costs.
std::string ProfileAsText(const ProfileReport& report, double planned_ms);

// A JSON object whose member `costs` is what `--profile` of plan and simulate reads.
std::string ProfileAsJson(const ProfileReport& report, const CostProfile& costs, double planned_ms);

}  // namespace recycle

#endif  // RECYCLE_APP_PROFILE_TEXT_H_
