#include "recycle/simulator/oobleck_published_policy.h"

#include <algorithm>
#include <cmath>

namespace recycle {
namespace {
constexpr double kCurveNodes = 30;  // of the curve's first point
}  // namespace

double PublishedShare(const std::vector<double>& curve, double live_share) {
  const double missing = kCurveNodes * (1 - live_share);  // 0 is the curve's first point
  const auto last = static_cast<double>(curve.size() - 1);
  if (missing > last) return 0;
  const auto left = static_cast<std::size_t>(missing);
  const std::size_t right = std::min(left + 1, curve.size() - 1);
  const double part = missing - static_cast<double>(left);
  return ((1 - part) * curve[left] + part * curve[right]) / curve[0];
}

OobleckPublishedPolicy::OobleckPublishedPolicy(const PolicyInput& input,
                                               const std::vector<double>& curve)
    : OobleckPolicy(input), curve_(curve) {}

std::string OobleckPublishedPolicy::note() const {
  return "published curve of " + input_.constants.model_row + " on A40";
}

Status OobleckPublishedPolicy::UpdatePace() {
  RC_ASSIGN_OR_RETURN(const Ticks period, PeriodOver(live_.num_pipelines()));
  const double share =
      PublishedShare(curve_, static_cast<double>(live_.count()) / live_.num_places());
  pace_ = PaceOf(period);
  pace_.iterations_per_s *= share;
  pace_.batches_per_s *= share;
  return OkStatus();
}

}  // namespace recycle
