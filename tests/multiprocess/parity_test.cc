// Any layout trains as one process does: losses and gradient norms of every iteration agree to
// 1e-5. The full matrix of layouts, methods and micro-batches runs in executor_test; here the real
// program is started for every layout.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include "job.h"

namespace recycle::testing {
namespace {

constexpr double kTolerance = 1e-5;

struct Layout {
  int data = 1;
  int pipeline = 1;
  int micro_batches = 1;
  std::string method = "adaptive";
  int layers = 4;
  bool tied = false;
  double dropout = 0.0;
};

// The same global batch in one process.
JobOptions SingleProcess(const Layout& layout) {
  return {.data = 1,
          .pipeline = 1,
          .micro_batches = layout.data * layout.micro_batches,
          .iterations = 10,
          .layers = layout.layers,
          .dropout = layout.dropout,
          .tied = layout.tied};
}

void ExpectEqual(const JobOptions& options, const Job& single) {
  Job job(options);
  ASSERT_EQ(job.Run(), 0) << job.Output();
  ASSERT_EQ(job.Losses().size(), 10U);
  EXPECT_EQ(Differs(job.Losses(), single.Losses(), kTolerance), "");
  EXPECT_EQ(Differs(job.GradientNorms(), single.GradientNorms(), kTolerance), "");
  EXPECT_EQ(job.SamplesPerIteration(), single.SamplesPerIteration());
}

class A8OddShapes : public ::testing::TestWithParam<Layout> {};

TEST_P(A8OddShapes, EqualTheSingleProcessWithAndWithoutAFailure) {
  const Layout& layout = GetParam();
  Job single(SingleProcess(layout));
  ASSERT_EQ(single.Run(), 0) << single.Output();
  JobOptions options = SingleProcess(layout);
  options.data = layout.data;
  options.pipeline = layout.pipeline;
  options.micro_batches = layout.micro_batches;
  options.method = layout.method;
  ExpectEqual(options, single);
  if (layout.data == 1) return;
  options.inject = {fmt::format("kill 1:{} at I of iteration 4", layout.pipeline - 1)};
  ExpectEqual(options, single);
}

INSTANTIATE_TEST_SUITE_P(
    Layouts, A8OddShapes,
    ::testing::Values(Layout{.data = 1, .pipeline = 2, .micro_batches = 3, .method = "1f1b"},
                      Layout{.data = 2, .pipeline = 2, .micro_batches = 2, .method = "gpipe"},
                      Layout{.data = 3, .pipeline = 2, .micro_batches = 5},
                      Layout{.data = 1, .pipeline = 4, .micro_batches = 2, .method = "1f1b"},
                      Layout{.data = 3, .pipeline = 3, .micro_batches = 2, .layers = 7},
                      Layout{.data = 4, .pipeline = 2, .micro_batches = 1, .tied = true},
                      Layout{.data = 5, .pipeline = 1, .micro_batches = 3},
                      Layout{.data = 2, .pipeline = 3, .micro_batches = 2, .dropout = 0.1}),
    [](const auto& info) {
      return fmt::format("dp{}_pp{}_m{}_{}{}{}", info.param.data, info.param.pipeline,
                         info.param.micro_batches,
                         info.param.method == "1f1b" ? "one_f_one_b" : info.param.method,
                         info.param.tied ? "_tied" : "", info.param.dropout > 0 ? "_dropout" : "");
    });

TEST(Parity, MoreStagesThanMicroBatchesDoesNotHang) {
  Job job({.data = 1, .pipeline = 4, .micro_batches = 1, .iterations = 3});
  EXPECT_EQ(job.Run(), 0) << job.Output();
}

}  // namespace
}  // namespace recycle::testing
