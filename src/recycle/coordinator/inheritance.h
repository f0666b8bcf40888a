// What a coordinator that comes after another one takes over: everything else its predecessor knew
// it hears again from those who live. A plain value.
#ifndef RECYCLE_COORDINATOR_INHERITANCE_H_
#define RECYCLE_COORDINATOR_INHERITANCE_H_

#include <cstdint>
#include <optional>

#include "recycle/coordinator/events.h"
#include "recycle/coordinator/regroup.h"

namespace recycle {

struct Inheritance {
  GenerationRecord record;  // the newest that is stored
  // What everybody was told in the last generation that everybody resumed; without a plan if that
  // is not known (then nobody can say what the lost had been given).
  AssignedWork told;
  bool restored = false;             // if the record says so, everybody has loaded the checkpoint
  std::int32_t iterations_done = 0;  // recorded
  std::optional<double> last_loss;   // of the last of them
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_INHERITANCE_H_
