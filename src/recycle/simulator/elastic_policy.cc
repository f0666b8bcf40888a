#include "recycle/simulator/elastic_policy.h"

namespace recycle {

PlanInForce ElasticPolicy::plan() const {
  if (complete_ == 0) return {};
  return {.kind = PlanInForce::Kind::kOneFOneB,
          .pipelines = complete_,
          .micro_batches = input_.job.micro_batches};
}

Status ElasticPolicy::UpdatePace() {
  complete_before_ = complete_;
  complete_ = live_.CompletePipelines();
  pace_ = {};
  if (complete_ == 0) return OkStatus();
  RC_ASSIGN_OR_RETURN(const Ticks period, PeriodOver(live_.num_pipelines()));
  pace_ = PaceOf(period, static_cast<double>(complete_) / live_.num_pipelines());
  return OkStatus();
}

Reaction ElasticPolicy::OnFailure(const std::vector<int>& /*places*/, const Moment& /*moment*/,
                                  const Pace& /*before*/) {
  return {.stall_s = input_.constants.elastic_detect_s + input_.constants.elastic_regroup_s,
          .iteration_lost = true};
}

Reaction ElasticPolicy::OnJoin(const std::vector<int>& /*places*/, const Moment& moment,
                               const Pace& /*before*/) {
  if (complete_ <= complete_before_) return {};
  return StallOnJoin(input_.constants.elastic_regroup_s, moment);
}

}  // namespace recycle
