#include "recycle/data/sampler.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <numeric>
#include <set>

namespace recycle {
namespace {

using ::testing::UnorderedElementsAreArray;

// All samples of `iterations` iterations in the order of positions.
std::vector<std::int64_t> Stream(const Sampler& sampler, int iterations, int micro_batches) {
  std::vector<std::int64_t> stream;
  for (int iteration = 0; iteration < iterations; ++iteration) {
    for (int g = 0; g < micro_batches; ++g) {
      const std::vector<std::int64_t> samples = sampler.Samples(iteration, g);
      stream.insert(stream.end(), samples.begin(), samples.end());
    }
  }
  return stream;
}

TEST(SamplerTest, EveryEpochHasEverySampleOnceInAnOrderOfItsOwn) {
  for (const std::int64_t num_samples : {1, 2, 3, 7, 16, 17, 100, 1000}) {
    SCOPED_TRACE(num_samples);
    const Sampler sampler(num_samples, /*micro_batches_per_iteration=*/4, /*micro_batch_size=*/5,
                          /*seed=*/7);
    constexpr int kEpochs = 3;
    const int iterations = static_cast<int>((kEpochs * num_samples + 19) / 20);
    const std::vector<std::int64_t> stream = Stream(sampler, iterations, 4);
    std::vector<std::int64_t> all(static_cast<std::size_t>(num_samples));
    std::iota(all.begin(), all.end(), 0);
    std::set<std::vector<std::int64_t>> orders;
    for (int epoch = 0; epoch < kEpochs; ++epoch) {
      const std::vector<std::int64_t> order(stream.begin() + epoch * num_samples,
                                            stream.begin() + (epoch + 1) * num_samples);
      EXPECT_THAT(order, UnorderedElementsAreArray(all)) << "epoch " << epoch;
      orders.insert(order);
    }
    if (num_samples >= 100) {
      EXPECT_EQ(orders.size(), 3) << "epochs share an order";
    }
  }
}

TEST(SamplerTest, TheOrderDependsOnTheSeedAndNotOnTheLayout) {
  constexpr int kIterations = 5;
  // 12 micro-batches of 2 samples, whoever runs them, against 24 of 1 and 8 of 3.
  const auto stream = [](int micro_batches, int size, std::uint64_t seed) {
    return Stream(Sampler(50, micro_batches, size, seed), kIterations, micro_batches);
  };
  EXPECT_EQ(stream(12, 2, 1), stream(24, 1, 1));
  EXPECT_EQ(stream(12, 2, 1), stream(8, 3, 1));
  EXPECT_NE(stream(12, 2, 1), stream(12, 2, 2));

  // 3 pipelines of 4 micro-batches read what one pipeline of 12 reads.
  const Sampler sampler(50, 12, 2, 1);
  std::vector<std::int64_t> by_pipeline;
  for (int k = 0; k < 3; ++k) {
    for (int m = 0; m < 4; ++m) {
      for (const std::int64_t sample : sampler.Samples(2, k * 4 + m)) by_pipeline.push_back(sample);
    }
  }
  const std::vector<std::int64_t> whole = stream(12, 2, 1);
  EXPECT_TRUE(std::equal(by_pipeline.begin(), by_pipeline.end(), whole.begin() + 2 * 24));
}

// A first position is as likely to get any sample: 4,000 seeds over 8 samples, 5 sigma.
TEST(SamplerTest, TheOrderLooksRandom) {
  constexpr int kSamples = 8;
  constexpr int kSeeds = 4000;
  std::vector<int> counts(kSamples);
  for (int seed = 0; seed < kSeeds; ++seed) {
    ++counts[static_cast<std::size_t>(
        Sampler(kSamples, 1, 1, static_cast<std::uint64_t>(seed)).Samples(0, 0)[0])];
  }
  for (const int count : counts) EXPECT_NEAR(count, double{kSeeds} / kSamples, 105);
}

}  // namespace
}  // namespace recycle
