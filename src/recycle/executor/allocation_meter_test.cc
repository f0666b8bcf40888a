#include "recycle/executor/allocation_meter.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <thread>

namespace recycle {
namespace {

TEST(AllocationMeterTest, CountsWhatTheTensorsOfItsThreadHold) {
  const at::Tensor before = at::empty({1000});
  const AllocationMeter meter;
  at::Tensor kept = at::empty({1000});
  EXPECT_EQ(meter.bytes(), 4000);
  const at::Tensor view = kept.slice(0, 0, 10);  // the same storage
  at::empty({5000});                             // gone at once
  std::thread([] { at::empty({7000}); }).join();
  EXPECT_EQ(meter.bytes(), 4000);
  kept.reset();
  EXPECT_EQ(meter.bytes(), 4000);  // the view holds it
}

TEST(AllocationMeterTest, FreedMemoryIsHeldNoMore) {
  const AllocationMeter meter;
  at::Tensor tensor = at::empty({1000});
  int taken_over = 0;
  ReportHeld(&taken_over, 100);
  EXPECT_EQ(meter.bytes(), 4100);
  tensor.reset();
  ReportHeld(&taken_over, -100);
  EXPECT_EQ(meter.bytes(), 0);
}

}  // namespace
}  // namespace recycle
