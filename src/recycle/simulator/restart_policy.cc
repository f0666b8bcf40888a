#include "recycle/simulator/restart_policy.h"

#include <algorithm>

namespace recycle {

RestartPolicy::RestartPolicy(const PolicyInput& input, const RestartOptions& options)
    : PlacePolicy(input), options_(options) {
  checkpointing_ = CheckpointsOf(options.constants);
}

Status RestartPolicy::Start(const std::vector<bool>& filled_blocks) {
  RC_ASSIGN_OR_RETURN(const Ticks period, PeriodOver(live_.num_pipelines()));
  checkpointing_.interval_s =
      std::max(checkpointing_.interval_s, options_.least_iterations * Seconds(period));
  return PlacePolicy::Start(filled_blocks);
}

Status RestartPolicy::UpdatePace() {
  pipelines_before_ = pipelines_;
  pipelines_ = std::min(options_.most_pipelines, PossiblePipelines());
  pace_ = {};
  if (pipelines_ == 0) return OkStatus();
  RC_ASSIGN_OR_RETURN(const Ticks period, PeriodOver(pipelines_));
  pace_ = PaceOf(period);
  pace_.iterations_per_s *= checkpointing_.Share();
  pace_.batches_per_s *= checkpointing_.Share();
  return OkStatus();
}

Reaction RestartPolicy::OnFailure(const std::vector<int>& /*places*/, const Moment& /*moment*/,
                                  const Pace& /*before*/) {
  return {.stall_s = options_.constants.detect_s + options_.constants.restart_s,
          .back_to_checkpoint = true};
}

Reaction RestartPolicy::OnJoin(const std::vector<int>& /*places*/, const Moment& moment,
                               const Pace& /*before*/) {
  if (pipelines_ <= pipelines_before_) return {};
  if (pipelines_before_ == 0 && !moment.stalled) return {.stall_s = options_.constants.restart_s};
  Reaction reaction =
      StallOnJoin(options_.constants.checkpoint_s + options_.constants.restart_s, moment);
  reaction.checkpoint = true;
  return reaction;
}

std::unique_ptr<FailurePolicy> MakeRestartPolicy(const PolicyInput& input) {
  return std::make_unique<RestartPolicy>(input,
                                         RestartOptions{.name = "restart",
                                                        .most_pipelines = input.job.parallel.data,
                                                        .constants = input.constants.restart});
}

}  // namespace recycle
