// The job whose life is simulated: its shape, its costs, and where its workers stand.
//
// A *place* is a worker's position (k,i), numbered k * PP + i. A *node* holds gpus_per_node / TP
// consecutive places, its *block*; with more than one it is a piece of a pipeline.
//
// Plain data.
#ifndef RECYCLE_SIMULATOR_SIMULATED_JOB_H_
#define RECYCLE_SIMULATOR_SIMULATED_JOB_H_

#include <string>

#include "recycle/base/status.h"
#include "recycle/plan/plan.h"

namespace recycle {

struct SimulatedJob {
  Parallelism parallel;      // one stage a worker
  int micro_batches = 1;     // M, per pipeline
  int micro_batch_size = 1;  // samples
  int gpus_per_node = 1;     // a multiple of TP
  CostProfile costs;         // in milliseconds, one entry per stage
  std::string model;         // its name; empty if only costs are known
  double parameters = 6.7e9;
  int layers = 4;             // for systems that cut pipelines elsewhere than at our stages
  bool bamboo_fits = true;    // false: Bamboo's redundancy does not fit (memory_model.h)
  double copy_gb_per_s = 10;  // between peers, for state copied to a rejoining worker

  int num_places() const { return parallel.num_workers(); }
  int places_per_node() const { return gpus_per_node / parallel.tensor; }
  int num_blocks() const { return num_places() / places_per_node(); }
  // N, the micro-batches of an iteration.
  int num_micro_batches() const { return parallel.data * micro_batches; }
  double samples_per_batch() const {
    return static_cast<double>(num_micro_batches()) * micro_batch_size;
  }
};

// Error: kInvalidArgument for sizes or costs that make no sense together.
Status CheckSimulatedJob(const SimulatedJob& job);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_SIMULATED_JOB_H_
