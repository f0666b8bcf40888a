// The faults of `recycle chaos`: seeded random sequences for one run of a job. Pure.
//
//   std::vector<ChaosTrial> trials = ChaosTrials({.data = 3, .pipeline = 2, .iterations = 60}, 17);
//
// A trial is one fault, or two in the same iteration. Trials of a run follow each other, so that
// later ones meet a job that has lost workers already. The same shape and seed give the same trials
// on every machine, and nobody needs luck to survive them: every stage keeps a worker that nothing
// harms (kill, a stop of any length, a full disk) throughout the run.
#ifndef RECYCLE_APP_CHAOS_SEQUENCE_H_
#define RECYCLE_APP_CHAOS_SEQUENCE_H_

#include <cstdint>
#include <vector>

#include "recycle/protocol/fault.h"

namespace recycle {

struct ChaosShape {
  int data = 1;
  int pipeline = 1;
  int iterations = 0;  // at least kChaosMinIterations
  double failure_timeout_s = 2;
};

constexpr int kChaosMinIterations = 10;

struct ChaosTrial {
  std::vector<Fault> faults;  // not empty
};

// In order of iterations; at least one. No two faults have the same text.
std::vector<ChaosTrial> ChaosTrials(const ChaosShape& shape, std::uint64_t seed);

}  // namespace recycle

#endif  // RECYCLE_APP_CHAOS_SEQUENCE_H_
