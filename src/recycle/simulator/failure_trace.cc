#include "recycle/simulator/failure_trace.h"

#include <fmt/format.h>

namespace recycle {

Status TraceBuilder::Advance(double time_s) {
  if (!trace_.events.empty() && time_s < trace_.end_s) {
    return absl::InvalidArgumentError(
        fmt::format("time runs backwards, from {} s to {} s (hint: sort or clean the trace first)",
                    trace_.end_s, time_s));
  }
  trace_.end_s = time_s;
  return OkStatus();
}

Status TraceBuilder::Add(double time_s, std::string_view name) {
  RC_RETURN_IF_ERROR(Advance(time_s));
  const auto [entry, is_new] = number_of_.emplace(name, trace_.num_nodes);
  if (is_new) {
    ++trace_.num_nodes;
    up_.push_back(false);
  }
  const int node = entry->second;
  if (up_[static_cast<std::size_t>(node)]) {
    return absl::InvalidArgumentError(
        fmt::format("add of {}, which is up already; a node that is up cannot come", name));
  }
  up_[static_cast<std::size_t>(node)] = true;
  trace_.events.push_back({time_s, node, true});
  return OkStatus();
}

Status TraceBuilder::Remove(double time_s, std::string_view name) {
  RC_RETURN_IF_ERROR(Advance(time_s));
  const auto entry = number_of_.find(std::string(name));
  if (entry == number_of_.end()) {
    return absl::InvalidArgumentError(
        fmt::format("remove of the unknown node {}; a node must be added before it goes", name));
  }
  const int node = entry->second;
  if (!up_[static_cast<std::size_t>(node)]) {
    return absl::InvalidArgumentError(
        fmt::format("remove of {}, which is down already; a node that is down cannot go", name));
  }
  up_[static_cast<std::size_t>(node)] = false;
  trace_.events.push_back({time_s, node, false});
  return OkStatus();
}

}  // namespace recycle
