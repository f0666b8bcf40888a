// The learning rate as a function of the iteration: linear warm-up, then a half cosine down to a
// floor (Loshchilov and Hutter, "SGDR", ICLR 2017), or constant. No state to lose with a worker.
//
//   const double lr = LearningRate(options.optimizer, options.iterations, version);
//
// Pure.
#ifndef RECYCLE_EXECUTOR_LEARNING_RATE_H_
#define RECYCLE_EXECUTOR_LEARNING_RATE_H_

#include "recycle/executor/executor_options.h"

namespace recycle {

// The rate of the step that ends `iteration` (0-based) of `iterations`. The first `warmup`
// iterations climb to `lr` in equal steps, the first of which is not 0; the last iteration ends
// just above the floor.
double LearningRate(const OptimizerOptions& options, int iterations, int iteration);

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_LEARNING_RATE_H_
