#include <gtest/gtest.h>

#include <algorithm>
#include <gecode/int.hh>
#include <gecode/minimodel.hh>
#include <gecode/search.hh>
#include <map>
#include <memory>
#include <vector>

#include "recycle/planner/baselines.h"
#include "recycle/planner/bounds.h"
#include "recycle/planner/job_testing.h"
#include "recycle/planner/list_scheduler.h"

namespace recycle {
namespace {

using testing::At;
using testing::MakeRequest;

// Start times of one iteration with F = I = W = 1, no sends and no capacities, every micro-batch on
// a given worker; gecode's `distinct` keeps workers from doing two things at once.
class UnitTimeSpace : public Gecode::IntMinimizeSpace {
 public:
  UnitTimeSpace(const FlatJob& job, const std::vector<std::int32_t>& pipeline, int horizon)
      : starts_(*this, job.num_slots() * 3, 0, horizon - 1), makespan_(*this, 0, horizon) {
    std::map<int, Gecode::IntVarArgs> by_worker;
    for (int slot = 0; slot < job.num_slots(); ++slot) {
      const int stage = slot % job.num_stages;
      const Gecode::IntVar forward = starts_[slot * 3];
      const Gecode::IntVar input = starts_[slot * 3 + 1];
      const Gecode::IntVar weight = starts_[slot * 3 + 2];
      Gecode::rel(*this, input > forward);
      Gecode::rel(*this, weight > input);
      Gecode::rel(*this, makespan_ > weight);
      if (stage > 0) {
        Gecode::rel(*this, forward > starts_[(slot - 1) * 3]);
        Gecode::rel(*this, starts_[(slot - 1) * 3 + 1] > input);
      }
      by_worker[job.WorkerOf(stage, pipeline[static_cast<std::size_t>(slot)])] << forward << input
                                                                               << weight;
      OrderTwins(job, pipeline, slot);
    }
    for (const auto& [worker, starts] : by_worker) Gecode::distinct(*this, starts, Gecode::IPL_DOM);
    Gecode::branch(*this, starts_, Gecode::INT_VAR_MIN_MIN(), Gecode::INT_VAL_MIN());
    Gecode::branch(*this, makespan_, Gecode::INT_VAL_MIN());
  }
  UnitTimeSpace(UnitTimeSpace& other) : IntMinimizeSpace(other) {
    starts_.update(*this, other.starts_);
    makespan_.update(*this, other.makespan_);
  }
  Gecode::Space* copy() override { return new UnitTimeSpace(*this); }
  Gecode::IntVar cost() const override { return makespan_; }

 private:
  // Micro-batches that run on the same workers throughout go in order, in every kind of action.
  void OrderTwins(const FlatJob& job, const std::vector<std::int32_t>& pipeline, int slot) {
    if (slot % job.num_stages != 0) return;
    const auto runs = [&](int first) {
      const auto begin = pipeline.begin() + first;
      return std::vector<std::int32_t>(begin, begin + job.num_stages);
    };
    for (int next = slot + job.num_stages; next < job.num_slots(); next += job.num_stages) {
      if (runs(next) != runs(slot)) continue;
      for (int n = 0; n < job.num_stages * 3; ++n) {
        Gecode::rel(*this, starts_[next * 3 + n] > starts_[slot * 3 + n]);
      }
      return;
    }
  }

  Gecode::IntVarArray starts_;
  Gecode::IntVar makespan_;
};

// The shortest makespan for this assignment, below `horizon`; `horizon` if there is none.
int ShortestMakespan(const FlatJob& job, const std::vector<std::int32_t>& pipeline, int horizon) {
  const auto root = std::make_unique<UnitTimeSpace>(job, pipeline, horizon - 1);
  Gecode::BAB<UnitTimeSpace> search(root.get());
  int best = horizon;
  while (const std::unique_ptr<UnitTimeSpace> space{search.next()}) best = space->cost().val();
  return best;
}

// The running example, its worker dead at each stage: the paper's synchronous makespans, which
// gecode proves for round-robin orphans and the planner reaches.
TEST(UnitTimeOracleTest, SynchronousRunningExampleIsOptimal) {
  for (int stage = 0; stage < 4; ++stage) {
    PlanRequest request = MakeRequest(3, 4, 6);
    request.failed = {At(1, stage)};
    request.options.staggered = false;
    const FlatJob job = MakeFlatJob(request).value();
    const auto planned = static_cast<int>(ToUnits(*MakePlan(request)->makespan));
    EXPECT_EQ(planned, 27 + stage);
    EXPECT_EQ(ShortestMakespan(job, RoundRobinAssignment(job), planned), planned)
        << "a shorter one exists, stage " << stage;
  }
}

}  // namespace
}  // namespace recycle
