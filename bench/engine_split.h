// What it costs to split the backward pass (engine.cc has the usage).
#ifndef RECYCLE_BENCH_ENGINE_SPLIT_H_
#define RECYCLE_BENCH_ENGINE_SPLIT_H_

#include "verdict.h"

namespace recycle {

// Four transformer blocks, `tokens` (a multiple of 128) a micro-batch, hidden 256, 512 and 768. Of
// each round, four micro-batches are taken back in three ways, in turn, and the medians over the
// `rounds` of their ratios are printed, with the bytes that a micro-batch holds.
void SplitBackward(int tokens, int rounds, Verdicts& verdicts);

}  // namespace recycle

#endif  // RECYCLE_BENCH_ENGINE_SPLIT_H_
