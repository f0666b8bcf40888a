// The memory of one worker while its actions run in order (rule 4 of legal plans): F takes the
// activation at its start, I brings it down to what is deferred, W (or B) frees the rest.
// Micro-batches are counted, not summed up, so that no rounding builds up. Used by validate.cc
// only.
#ifndef RECYCLE_PLAN_MEMORY_METER_H_
#define RECYCLE_PLAN_MEMORY_METER_H_

#include <cstddef>
#include <cstdint>
#include <vector>

#include "recycle/plan/plan.h"

namespace recycle {

class MemoryMeter {
 public:
  // Of a worker of `column`; refers to `plan`.
  MemoryMeter(const Plan& plan, StageId column);

  // Accounts for `action`, which is on one of the column's stages; returns the bytes in use once an
  // F has started, 0 for other kinds.
  double Run(const Action& action);

  // Accounts for `actions[position]` on a committed stage, where an F is a regeneration: it keeps
  // its activation until its I has run, or not beyond its own end if none follows; no W will come.
  double Regenerate(const std::vector<Action>& actions, std::size_t position);

 private:
  struct Held {
    std::int64_t full = 0;      // F started, neither I nor B ended
    std::int64_t deferred = 0;  // I ended, W not
  };

  Held& HeldAt(StageId stage);
  double InUse() const;

  const Plan& plan_;
  std::vector<StageId> stages_;
  std::vector<Held> held_;  // per entry of stages_
};

}  // namespace recycle

#endif  // RECYCLE_PLAN_MEMORY_METER_H_
