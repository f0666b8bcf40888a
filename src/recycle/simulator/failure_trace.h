// What happens to the nodes of a cluster: who comes and who goes, and when.
//
// A node is a machine; its number is the order in which the trace first names it. Invariants of a
// finished trace: times never decrease, a node that comes is down, a node that goes is up. Every
// reader and the random process go through TraceBuilder, which holds them.
//
//   TraceBuilder builder;
//   RC_RETURN_IF_ERROR(builder.Add(0.0, "node1"));
//   RC_RETURN_IF_ERROR(builder.Remove(60.0, "node1"));
//   FailureTrace trace = std::move(builder).Finish();
//
// Plain data; safe to share between threads while nobody changes it.
#ifndef RECYCLE_SIMULATOR_FAILURE_TRACE_H_
#define RECYCLE_SIMULATOR_FAILURE_TRACE_H_

#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "recycle/base/status.h"

namespace recycle {

inline constexpr double kSecondsPerHour = 3600;
inline constexpr double kSecondsPerDay = 86400;  // no trace knows leap seconds

struct NodeEvent {
  double time_s = 0;
  int node = 0;
  bool up = false;  // the node comes; false: it goes
  bool operator==(const NodeEvent&) const = default;
};

struct FailureTrace {
  int num_nodes = 0;              // nodes are 0 .. num_nodes - 1
  std::vector<NodeEvent> events;  // in the order of time; first adds are in the order of numbers
  double end_s = 0;               // of the last event, or of the random process
  bool operator==(const FailureTrace&) const = default;
};

// Collects events of named nodes. Errors are kInvalidArgument and say the value and the rule; who
// reads a file puts the line in front. Not thread-safe.
class TraceBuilder {
 public:
  // The node comes. Refused if it is up, or if `time_s` is before the last event.
  Status Add(double time_s, std::string_view name);
  // The node goes. Refused if it never came, if it is down, or if time runs backwards.
  Status Remove(double time_s, std::string_view name);

  bool empty() const { return trace_.events.empty(); }
  FailureTrace Finish() && { return std::move(trace_); }

 private:
  Status Advance(double time_s);

  FailureTrace trace_;
  std::unordered_map<std::string, int> number_of_;
  std::vector<bool> up_;  // by number
};

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_FAILURE_TRACE_H_
