// Reader of Parcae's layer profiles (JF-D/Parcae, liveput/cost_cfg.py): a JSON object with one
// entry per model and micro-batch, "gpt-6.7b_mbs1_seq1024", each of which states forward, backward,
// optimizer (milliseconds on a V100), acts (MiB) and params of the embedding, one transformer layer
// and the head.
//
// Layers are cut into PP stages as evenly as possible, the embedding going to the first and the
// head to the last stage. The backward pass is split into I and W as 1.05 : 0.85 [ASSUMED]; sends
// and all-reduce are not in the file and cost nothing here. Pure.
#ifndef RECYCLE_SIMULATOR_PARCAE_PROFILE_H_
#define RECYCLE_SIMULATOR_PARCAE_PROFILE_H_

#include <string>
#include <string_view>

#include "recycle/base/status.h"
#include "recycle/plan/costs.h"

namespace recycle {

struct ProfiledModel {
  std::string name;  // the entry's
  CostProfile costs;
  double parameters = 0;
  int layers = 0;  // transformer layers
  int micro_batch_size = 1;
};

// True if `text` looks like such a file rather than a cost profile.
bool IsParcaeProfile(std::string_view text);

// The entry `name` cut into `stages`; an empty name is the only entry's. Error: kInvalidArgument
// for a text of another form, an unknown name (naming the nearest), a model whose number of layers
// is not known, or more stages than layers.
StatusOr<ProfiledModel> ReadParcaeProfile(std::string_view text, std::string_view name, int stages);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_PARCAE_PROFILE_H_
