#include "recycle/simulator/random_failures.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>
#include <functional>
#include <queue>
#include <tuple>
#include <vector>

#include "recycle/base/prng.h"

namespace recycle {
namespace {

constexpr std::size_t kMostOutages = 10'000'000;

struct Outage {
  double from_s = 0;
  double to_s = 0;
  int node = 0;
};

// Exponential with mean 1; never 0.
double Exponential(Prng& prng) { return -std::log1p(-prng.Uniform()) + 1e-300; }

// The outages of one node, and those it causes at its neighbour.
void DrawNode(const RandomFailureOptions& options, int node, double duration_s,
              std::vector<Outage>& outages) {
  Prng prng(HashKeys({options.seed, static_cast<std::uint64_t>(node)}));
  const double scale = options.mtbf_s / std::tgamma(1 + 1 / options.weibull_shape);
  double now = 0;
  while (outages.size() <= kMostOutages) {
    now += scale * std::pow(Exponential(prng), 1 / options.weibull_shape);
    if (now >= duration_s) return;
    const double down_s = options.mttr_s > 0 ? options.mttr_s * Exponential(prng) : 0;
    outages.push_back({now, now + down_s, node});
    if (options.correlated > 0 && prng.Uniform() < options.correlated && options.num_nodes > 1) {
      outages.push_back({now, now + down_s, (node + 1) % options.num_nodes});
    }
    now += down_s;
  }
}

// Overlays the outages: a node comes back when its last one ends.
class Timetable {
 public:
  explicit Timetable(FailureTrace& trace)
      : trace_(trace), depth_(static_cast<std::size_t>(trace.num_nodes), 0) {}

  void Begin(const Outage& outage) {
    EndUntil(outage.from_s);
    if (depth_[static_cast<std::size_t>(outage.node)]++ == 0) {
      trace_.events.push_back({outage.from_s, outage.node, false});
    }
    ends_.push({outage.to_s, outage.node});
  }
  void EndUntil(double time_s) {
    while (!ends_.empty() && ends_.top().first <= time_s) {
      const auto [end_s, node] = ends_.top();
      ends_.pop();
      if (--depth_[static_cast<std::size_t>(node)] == 0) {
        trace_.events.push_back({end_s, node, true});
      }
    }
  }

 private:
  using End = std::pair<double, int>;
  FailureTrace& trace_;
  std::vector<int> depth_;
  std::priority_queue<End, std::vector<End>, std::greater<>> ends_;
};

}  // namespace

Status RandomFailureOptions::Validate() const {
  const auto refuse = [](std::string_view name, double value, std::string_view rule) {
    return absl::InvalidArgumentError(fmt::format("{} is {}, must be {}", name, value, rule));
  };
  if (num_nodes < 1) return refuse("nodes", num_nodes, "1 or more");
  if (!(mtbf_s > 0)) return refuse("mtbf", mtbf_s, "above 0");
  if (!(mttr_s >= 0)) return refuse("mttr", mttr_s, "0 or more");
  if (!(weibull_shape >= 0.1)) return refuse("weibull shape", weibull_shape, "0.1 or more");
  if (!(correlated >= 0 && correlated <= 1)) return refuse("correlated", correlated, "0 to 1");
  return OkStatus();
}

StatusOr<FailureTrace> DrawFailures(const RandomFailureOptions& options, double duration_s) {
  RC_RETURN_IF_ERROR(options.Validate());
  std::vector<Outage> outages;
  for (int node = 0; node < options.num_nodes; ++node) {
    DrawNode(options, node, duration_s, outages);
  }
  if (outages.size() > kMostOutages) {
    return absl::InvalidArgumentError(
        fmt::format("more than {} failures in {} hours (hint: a larger mtbf or fewer hours)",
                    kMostOutages, duration_s / 3600));
  }
  std::stable_sort(outages.begin(), outages.end(), [](const Outage& a, const Outage& b) {
    return std::tie(a.from_s, a.node) < std::tie(b.from_s, b.node);
  });
  FailureTrace trace;
  trace.num_nodes = options.num_nodes;
  trace.end_s = duration_s;
  for (int node = 0; node < options.num_nodes; ++node) trace.events.push_back({0, node, true});
  Timetable timetable(trace);
  for (const Outage& outage : outages) timetable.Begin(outage);
  timetable.EndUntil(duration_s);
  return trace;
}

}  // namespace recycle
