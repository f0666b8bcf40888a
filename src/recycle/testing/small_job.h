// Jobs small enough to run hundreds of in a test, and what must hold of them: their losses, norms
// and validation losses are those of one process that trains on the same global batch.
//
//   SmallJob job{.data = 3, .pipeline = 2, .micro_batches = 2};
//   ExpectParity(job, RunJob(job));
#ifndef RECYCLE_TESTING_SMALL_JOB_H_
#define RECYCLE_TESTING_SMALL_JOB_H_

#include <cstdint>
#include <string>
#include <vector>

#include "recycle/plan/plan.h"
#include "recycle/planner/planner.h"
#include "recycle/protocol/fault.h"
#include "recycle/testing/forked_cluster.h"

namespace recycle {

inline constexpr int kSmallJobIterations = 10;
// Staggered steps begin after ten iterations that needed no correction.
inline constexpr int kStaggeredJobIterations = 18;

struct SmallJob {
  int data = 1;
  int pipeline = 1;
  int micro_batches = 1;  // per pipeline
  int blocks = 2;
  bool tied = false;
  double dropout = 0.0;
  Method method = Method::kAdaptive;  // of the fault-free plan
  int validate_every = 0;
  bool staggered = false;  // and iterations enough for it
  double clip = 1.0;
  bool reproducible = false;
  std::vector<std::string> faults;  // in --inject's grammar
};

// A folder of the test's own, removed with it.
class TestFolder {
 public:
  TestFolder();
  ~TestFolder();
  TestFolder(const TestFolder&) = delete;
  TestFolder& operator=(const TestFolder&) = delete;
  const std::string& path() const { return path_; }

 private:
  std::string path_;
};

WorkerId Worker(int pipeline, int stage);

// The job's options, with a corpus written to `folder`.
ClusterOptions MakeCluster(const SmallJob& job, const std::string& folder);

ClusterResult RunJob(const SmallJob& job);

// A legal plan drawn at random: any order in which every action's inputs come before it, any live
// worker for every micro-batch and stage.
Plan ShuffledPlan(const SmallJob& job, std::uint64_t seed);

// Mean over the tokens of the global batch.
double Loss(const AnnounceIteration& iteration);

// The job ended well, and each iteration's results equal those of the single process to 1e-5
// relative. GoogleTest expectations.
void ExpectParity(const SmallJob& job, const ClusterResult& result);

// Both jobs ended well, with the same bits in every parameter, loss, norm and learning rate. A
// norm that is not finite is no number to compare. GoogleTest expectations.
void ExpectSameBits(const ClusterResult& found, const ClusterResult& expected);

}  // namespace recycle

#endif  // RECYCLE_TESTING_SMALL_JOB_H_
