#include "recycle/simulator/stepfun_trace.h"

#include <fmt/format.h>

#include <iterator>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include "recycle/plan/json_fields.h"
#include "recycle/simulator/text_lines.h"

namespace recycle {
namespace {

// The line on which every entry of a top-level list of objects begins.
std::vector<int> EntryLines(std::string_view text) {
  std::vector<int> lines;
  int line = 1;
  int depth = 0;
  bool in_string = false;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const char c = text[i];
    if (c == '\n') ++line;
    if (in_string) {
      if (c == '\\') ++i;
      if (c == '"') in_string = false;
      continue;
    }
    if (c == '"') in_string = true;
    if (c == '{' && depth++ == 0) lines.push_back(line);
    if (c == '}') --depth;
  }
  return lines;
}

struct FaultEvent {
  double time_s = 0;
  std::string server;
  bool begins = false;
};

StatusOr<FaultEvent> ReadEvent(const JsonValue& value) {
  RC_RETURN_IF_ERROR(value.CheckKeys({"node_id", "event_time", "event_type", "fault_type"}));
  FaultEvent event;
  RC_ASSIGN_OR_RETURN(const JsonValue time, value.Get("event_time"));
  RC_ASSIGN_OR_RETURN(const double days, time.Number());
  if (days < 0) return time.Refuse("must be a number of days, 0 or more");
  event.time_s = days * kSecondsPerDay;
  RC_ASSIGN_OR_RETURN(const JsonValue type, value.Get("event_type"));
  RC_ASSIGN_OR_RETURN(const std::string word, type.Text());
  if (word != "fault_start" && word != "fault_end") {
    return type.Refuse("must be fault_start or fault_end");
  }
  event.begins = word == "fault_start";
  RC_ASSIGN_OR_RETURN(const JsonValue server, value.Get("node_id"));
  RC_ASSIGN_OR_RETURN(event.server, server.Text());
  return event;
}

// Turns nested faults into a server's comings and goings.
class FaultDepths {
 public:
  Status Apply(const FaultEvent& event) {
    if (event.time_s < last_s_) {
      return absl::InvalidArgumentError(
          fmt::format("time runs backwards, from day {} to day {} (hint: sort the trace first)",
                      last_s_ / kSecondsPerDay, event.time_s / kSecondsPerDay));
    }
    last_s_ = event.time_s;
    const auto [entry, is_new] =
        number_of_.emplace(event.server, static_cast<int>(number_of_.size()));
    if (is_new) depth_.push_back(0);
    int& depth = depth_[static_cast<std::size_t>(entry->second)];
    if (!event.begins && depth == 0) {
      return absl::InvalidArgumentError(
          fmt::format("fault_end of {}, which has no open fault; a fault must start before it ends",
                      event.server));
    }
    if (event.begins && depth++ == 0) events_.push_back({event.time_s, entry->second, false});
    if (!event.begins && --depth == 0) ComeBack({event.time_s, entry->second, true});
    return OkStatus();
  }

  int num_servers() const { return static_cast<int>(number_of_.size()); }
  double last_s() const { return last_s_; }
  const std::vector<NodeEvent>& events() const { return events_; }

 private:
  // A server is back. An outage that ends when it begins has never been one.
  void ComeBack(const NodeEvent& event) {
    const NodeEvent gone{event.time_s, event.node, false};
    for (auto last = events_.rbegin(); last != events_.rend(); ++last) {
      if (last->time_s < event.time_s) break;
      if (*last != gone) continue;
      events_.erase(std::next(last).base());
      return;
    }
    events_.push_back(event);
  }

  std::unordered_map<std::string, int> number_of_;  // in the order of first faults
  std::vector<int> depth_;
  std::vector<NodeEvent> events_;
  double last_s_ = 0;
};

}  // namespace

StatusOr<FailureTrace> ReadStepFunTrace(std::string_view text, std::optional<int> num_nodes) {
  RC_ASSIGN_OR_RETURN(const nlohmann::json document, ParseJson(text));
  RC_ASSIGN_OR_RETURN(const std::vector<JsonValue> entries, JsonValue(document, "trace").List());
  if (entries.empty()) {
    return absl::InvalidArgumentError("line 1: the trace is empty; it must have an event");
  }
  const std::vector<int> lines = EntryLines(text);
  FaultDepths depths;
  for (std::size_t i = 0; i < entries.size(); ++i) {
    const int line = i < lines.size() ? lines[i] : 1;  // an entry that is no object has none
    const StatusOr<FaultEvent> event = ReadEvent(entries[i]);
    if (!event.ok()) return AtLine(line, event.status());
    if (const Status status = depths.Apply(*event); !status.ok()) return AtLine(line, status);
  }
  if (num_nodes.has_value() && *num_nodes < depths.num_servers()) {
    return absl::InvalidArgumentError(
        fmt::format("--nodes is {}, but the trace names {} servers; the nearest valid choice is {}",
                    *num_nodes, depths.num_servers(), depths.num_servers()));
  }
  FailureTrace trace;
  trace.num_nodes = num_nodes.value_or(depths.num_servers());
  trace.end_s = depths.last_s();
  for (int node = 0; node < trace.num_nodes; ++node) trace.events.push_back({0, node, true});
  trace.events.insert(trace.events.end(), depths.events().begin(), depths.events().end());
  return trace;
}

}  // namespace recycle
