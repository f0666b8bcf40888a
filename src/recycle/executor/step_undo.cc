#include "recycle/executor/step_undo.h"

#include <algorithm>

#include "recycle/base/check.h"

namespace recycle {

void StepUndo::Keep(AdamW& optimizer, const std::optional<AdamWStep>& next) {
  held_ = true;
  made_ = next;
  if (!exact_ || !next) return;
  const std::vector<ParameterState> state = optimizer.state();
  kept_.resize(state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    kept_[i].value.assign(state[i].value.begin(), state[i].value.end());
    kept_[i].first.assign(state[i].first.begin(), state[i].first.end());
    kept_[i].second.assign(state[i].second.begin(), state[i].second.end());
  }
}

void StepUndo::Restore(AdamW& optimizer,
                       const std::vector<std::span<const float>>& gradients) const {
  RC_CHECK(held_) << "nothing to return to";
  if (!made_) return;
  if (!exact_) return optimizer.Undo(*made_, gradients);
  const std::vector<ParameterState> state = optimizer.state();
  for (std::size_t i = 0; i < state.size(); ++i) {
    std::copy(kept_[i].value.begin(), kept_[i].value.end(), state[i].value.begin());
    std::copy(kept_[i].first.begin(), kept_[i].first.end(), state[i].first.begin());
    std::copy(kept_[i].second.begin(), kept_[i].second.end(), state[i].second.begin());
  }
}

void StepUndo::SwapParameters(AdamW& optimizer) {
  RC_CHECK(held_) << "no parameters of the iteration before";
  if (!made_) return;
  const std::vector<ParameterState> state = optimizer.state();
  const bool comes_back = !exact_ && !kept_.empty();
  if (!exact_ && !comes_back) {
    kept_.resize(state.size());
    for (std::size_t i = 0; i < state.size(); ++i) {
      kept_[i].value.assign(state[i].value.begin(), state[i].value.end());
    }
    return optimizer.UndoValues(*made_);
  }
  for (std::size_t i = 0; i < state.size(); ++i) {
    std::swap_ranges(kept_[i].value.begin(), kept_[i].value.end(), state[i].value.begin());
  }
  if (comes_back) kept_.clear();
}

}  // namespace recycle
