#include "recycle/planner/exact.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <string>
#include <vector>

#include "recycle/plan/validate.h"
#include "recycle/planner/bounds.h"
#include "recycle/planner/job_testing.h"
#include "recycle/planner/order.h"

namespace recycle {
namespace {

using testing::At;
using ::testing::HasSubstr;
using testing::MakeRequest;

// The least period over every order of every assignment: tries them all.
class BruteForce {
 public:
  explicit BruteForce(const FlatJob& job)
      : job_(job),
        pipeline_(static_cast<std::size_t>(job.num_slots()), -1),
        sequences_(static_cast<std::size_t>(job.num_workers())) {}

  Ticks Run() {
    Assign(0);
    return best_;
  }

 private:
  void Assign(int slot) {
    if (slot == job_.num_slots()) return Sequence(0);
    for (const int k : job_.live[static_cast<std::size_t>(slot % job_.num_stages)]) {
      pipeline_[static_cast<std::size_t>(slot)] = k;
      Assign(slot + 1);
    }
  }

  // All orders of worker `number`, then of those after it.
  void Sequence(int number) {
    if (number == job_.num_workers()) {
      const StatusOr<Order> order = OrderFromSequences(job_, sequences_, pipeline_);
      if (order.ok() && FitsMemory(job_, *order)) {
        best_ = std::min(best_, EvaluateOrder(job_, *order).period);
      }
      return;
    }
    std::vector<int> next_kind;
    std::vector<int> slots;
    for (int slot = 0; slot < job_.num_slots(); ++slot) {
      if (job_.WorkerOf(slot % job_.num_stages, pipeline_[static_cast<std::size_t>(slot)]) ==
          number) {
        slots.push_back(slot);
        next_kind.push_back(0);
      }
    }
    Extend(number, slots, next_kind);
  }

  void Extend(int number, const std::vector<int>& slots, std::vector<int>& next_kind) {
    bool complete = true;
    for (std::size_t n = 0; n < slots.size(); ++n) {
      if (next_kind[n] == 3) continue;
      complete = false;
      auto& sequence = sequences_[static_cast<std::size_t>(number)];
      sequence.push_back(Order::Op(slots[n], static_cast<ActionKind>(next_kind[n]++)));
      Extend(number, slots, next_kind);
      sequence.pop_back();
      --next_kind[n];
    }
    if (complete) Sequence(number + 1);
  }

  const FlatJob& job_;
  std::vector<std::int32_t> pipeline_;
  std::vector<std::vector<std::uint32_t>> sequences_;
  Ticks best_ = std::numeric_limits<Ticks>::max();
};

TEST(ExactTest, AgreesWithBruteForceAndSoDoesTheHeuristic) {
  for (const std::string costs : {"F=1", "F=1,I=1.2,W=0.7,send=0.1", "F=2,I=1,W=1,opt=1",
                                  "F=3,I=1,W=1,send=0.5,deferred=0.5"}) {
    for (const std::string cap : {"none", "1f1b"}) {
      for (const bool staggered : {true, false}) {
        for (const auto& [dp, pp, m, failed] :
             {std::tuple(1, 2, 2, -1), {2, 2, 1, 0}, {2, 2, 1, 1}, {1, 3, 2, -1}}) {
          PlanRequest request = MakeRequest(dp, pp, m, costs, cap);
          if (failed >= 0) request.failed = {At(1, failed)};
          request.options.staggered = staggered;
          const std::string where = costs + " cap " + cap + (staggered ? " staggered " : " ") +
                                    std::to_string(dp) + "x" + std::to_string(pp) + " failed " +
                                    std::to_string(failed);
          const FlatJob job = MakeFlatJob(request).value();
          const Ticks optimum = BruteForce(job).Run();
          EXPECT_LE(LowerBound(job), optimum) << where;
          const ExactResult exact = SolveExact(request).value();
          EXPECT_TRUE(exact.optimal) << where << ": " << exact.status;
          EXPECT_EQ(*exact.plan.period, optimum) << where;
          EXPECT_TRUE(Validate(exact.plan).ok()) << where << ": " << Validate(exact.plan);
          EXPECT_EQ(*MakePlan(request)->period, optimum) << where;
        }
      }
    }
  }
}

// The bound says 23; the solver proves that 24 is the best there is.
TEST(ExactTest, ProvesAnOptimumAboveTheBound) {
  PlanRequest request = MakeRequest(2, 2, 3, "F=1,send=1", "1f1b");
  request.failed = {At(0, 0)};
  request.time_limit = std::chrono::seconds(60);
  const Plan heuristic = MakePlan(request).value();
  EXPECT_EQ(ToUnits(*heuristic.lower_bound), 23);
  EXPECT_EQ(ToUnits(*heuristic.period), 24);
  const ExactResult exact = SolveExact(request).value();
  EXPECT_TRUE(exact.optimal) << exact.status;
  EXPECT_EQ(ToUnits(*exact.plan.lower_bound), 24);
}

TEST(ExactTest, SaysWhatItCannotDo) {
  PlanRequest request = MakeRequest(3, 4, 6);
  request.method = Method::kExact;
  EXPECT_EQ(MakePlan(request).status().code(), StatusCode::kInvalidArgument);
  EXPECT_THAT(std::string(MakePlan(request).status().message()), HasSubstr("216 actions"));
}

}  // namespace
}  // namespace recycle
