#include "recycle/executor/cost_meter.h"

#include <gtest/gtest.h>

namespace recycle {
namespace {

using std::chrono::milliseconds;

constexpr Ticks kMeteredMs = kTicksPerUnit;
constexpr int kFirst = 7;  // of a worker that came back
constexpr int kDone = kFirst + CostMeter::kWarmUp + CostMeter::kMeasured;

TEST(CostMeterTest, MediansOfTheIterationsAfterTheWarmUpAreToldOnce) {
  CostMeter meter(/*on=*/true);
  for (int iteration = kFirst; iteration < kDone; ++iteration) {
    EXPECT_EQ(meter.TakeIfDone(iteration), std::nullopt) << iteration;
    const bool warms_up = iteration < kFirst + CostMeter::kWarmUp;
    const milliseconds odd(warms_up || iteration + 1 == kDone ? 900 : 0);
    meter.Note(ActionKind::kForward, iteration, milliseconds(10) + odd, {});
    meter.Note(ActionKind::kBackwardInput, iteration, milliseconds(20) + odd, {});
    meter.Note(ActionKind::kBackwardWeight, iteration, milliseconds(5) + odd, {});
    meter.Note(ActionKind::kStep, iteration, milliseconds(70), {});
  }
  EXPECT_EQ(meter.TakeIfDone(kDone),
            (MeasuredCosts{10 * kMeteredMs, 20 * kMeteredMs, 5 * kMeteredMs}));
  EXPECT_FALSE(meter.on());
  EXPECT_EQ(meter.TakeIfDone(kDone + 1), std::nullopt);
}

TEST(CostMeterTest, AWholeBackwardPassIsSharedAsPlanned) {
  CostMeter meter(/*on=*/true);
  StageCosts planned;
  planned.backward_input = 30;
  planned.backward_weight = 10;
  for (int iteration = 0; iteration < 10; ++iteration) {
    meter.Note(ActionKind::kForward, iteration, milliseconds(10), planned);
    meter.Note(ActionKind::kBackward, iteration, milliseconds(40), planned);
  }
  EXPECT_EQ(meter.TakeIfDone(10),
            (MeasuredCosts{10 * kMeteredMs, 30 * kMeteredMs, 10 * kMeteredMs}));
}

TEST(CostMeterTest, AWorkerWithNothingToDoTellsNothing) {
  CostMeter meter(/*on=*/true);
  meter.Note(ActionKind::kForward, 0, milliseconds(10), {});
  EXPECT_EQ(meter.TakeIfDone(100), std::nullopt);
  EXPECT_FALSE(meter.on());
  CostMeter off(/*on=*/false);
  off.Note(ActionKind::kForward, 5, milliseconds(10), {});
  EXPECT_EQ(off.TakeIfDone(100), std::nullopt);
}

}  // namespace
}  // namespace recycle
