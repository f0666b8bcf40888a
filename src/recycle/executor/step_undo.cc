#include "recycle/executor/step_undo.h"

#include <algorithm>

#include "recycle/base/check.h"

namespace recycle {

void StepUndo::Save(const std::vector<ParameterState>& state) {
  kept_.resize(state.size());
  for (std::size_t i = 0; i < state.size(); ++i) {
    kept_[i].value.assign(state[i].value.begin(), state[i].value.end());
    kept_[i].first.assign(state[i].first.begin(), state[i].first.end());
    kept_[i].second.assign(state[i].second.begin(), state[i].second.end());
  }
  held_ = true;
}

void StepUndo::Restore(const std::vector<ParameterState>& state) const {
  RC_CHECK(held_) << "nothing to return to";
  for (std::size_t i = 0; i < state.size(); ++i) {
    std::copy(kept_[i].value.begin(), kept_[i].value.end(), state[i].value.begin());
    std::copy(kept_[i].first.begin(), kept_[i].first.end(), state[i].first.begin());
    std::copy(kept_[i].second.begin(), kept_[i].second.end(), state[i].second.begin());
  }
}

void StepUndo::SwapParameters(const std::vector<ParameterState>& state) {
  RC_CHECK(held_) << "no parameters of the iteration before";
  for (std::size_t i = 0; i < state.size(); ++i) {
    std::swap_ranges(kept_[i].value.begin(), kept_[i].value.end(), state[i].value.begin());
  }
}

}  // namespace recycle
