// Any text at all goes through the readers of traces and of layer profiles: an error is fine, a
// crash is not, and an accepted trace must make sense.
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/check.h"
#include "recycle/simulator/availability_curve.h"
#include "recycle/simulator/job_timeline.h"
#include "recycle/simulator/node_trace.h"
#include "recycle/simulator/parcae_profile.h"
#include "recycle/simulator/stepfun_trace.h"
#include "recycle/simulator/trace_file.h"

namespace recycle {
namespace {

// Times never decrease, who comes was down, who goes was up; and a job can live through it.
void JudgeTrace(const StatusOr<FailureTrace>& trace) {
  if (!trace.ok()) return;
  std::vector<bool> up(static_cast<std::size_t>(trace->num_nodes), false);
  double last_s = 0;
  for (const NodeEvent& event : trace->events) {
    RC_CHECK(event.time_s >= last_s) << event.time_s << " after " << last_s;
    last_s = event.time_s;
    RC_CHECK(event.node >= 0 && event.node < trace->num_nodes) << "node " << event.node;
    RC_CHECK(up[static_cast<std::size_t>(event.node)] != event.up) << "node " << event.node;
    up[static_cast<std::size_t>(event.node)] = event.up;
  }
  const StatusOr<JobTimeline> timeline =
      MakeJobTimeline(*trace, {.num_blocks = 3, .usable_after_s = 45});
  if (!timeline.ok()) return;
  std::vector<bool> filled = timeline->filled;
  for (const JobEvent& event : timeline->events) {
    RC_CHECK(filled.at(static_cast<std::size_t>(event.block)) != event.join) << event.block;
    filled[static_cast<std::size_t>(event.block)] = event.join;
  }
}

void ReadEverything(std::string_view text) {
  // Short texts can ask for many nodes; following them is slow, not wrong.
  JudgeTrace(ReadTrace(text, {}));
  JudgeTrace(ReadNodeTrace(text));
  JudgeTrace(ReadStepFunTrace(text, std::nullopt));
  JudgeTrace(ReadAvailabilityCurve(text, {}));
  if (const auto profile = ReadParcaeProfile(text, "", 4); profile.ok()) {
    RC_CHECK(profile->costs.stages.size() == 4);
  }
}

}  // namespace
}  // namespace recycle

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  recycle::ReadEverything({reinterpret_cast<const char*>(data), size});
  return 0;
}
