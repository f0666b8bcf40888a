// Reader of traces `time_ms,add|remove,node`, a line per event and no header: the form of Bamboo's
// and Oobleck's spot traces (uclasystem/bamboo traces/, SymbioticLab/Oobleck tools/simulator/).
//
//   0,add,node1
//   480000,remove,node1
//
// Pure.
#ifndef RECYCLE_SIMULATOR_NODE_TRACE_H_
#define RECYCLE_SIMULATOR_NODE_TRACE_H_

#include <string_view>

#include "recycle/base/status.h"
#include "recycle/simulator/failure_trace.h"

namespace recycle {

// Error: kInvalidArgument with the line, the value and the rule: a line of another form, time that
// runs backwards, add of a node that is up, remove of one that is unknown or down, a text that is
// empty or cut off.
StatusOr<FailureTrace> ReadNodeTrace(std::string_view text);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_NODE_TRACE_H_
