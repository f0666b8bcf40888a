#include "recycle/nn/fixed_point_sums.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>
#include <vector>

#include "recycle/base/prng.h"

namespace recycle {
namespace {

constexpr std::uint64_t kSumsSeed = 31;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

// Numbers of many magnitudes and both signs, up to 1.
std::vector<float> Numbers(std::size_t size, std::uint64_t key) {
  Prng prng(HashKeys({kSumsSeed, key}));
  std::vector<float> numbers(size);
  for (float& number : numbers) {
    const int exponent = -static_cast<int>(prng.Below(30));
    number = static_cast<float>(std::ldexp(prng.Uniform() * 2 - 1, exponent));
  }
  return numbers;
}

std::vector<double> Values(const FixedPointSums& sums, const std::vector<std::int64_t>& integers) {
  std::vector<double> values;
  for (const std::int64_t integer : integers) {
    values.push_back(static_cast<double>(integer) * sums.unit());
  }
  return values;
}

TEST(FixedPointSums, OrderAndGroupingDoNotMatterAndValuesAreThoseOfRealNumbers) {
  constexpr std::size_t kSize = 37;
  constexpr int kAddends = 50;
  FixedPointSums sums(kAddends);
  sums.Begin(sums.QuantumFor(1.0));
  std::vector<std::vector<float>> addends;
  for (int i = 0; i < kAddends; ++i) addends.push_back(Numbers(kSize, i));
  std::vector<std::int64_t> in_order(kSize);
  for (const auto& addend : addends) sums.Add(addend, in_order);
  Prng prng(kSumsSeed);
  for (int trial = 0; trial < 100; ++trial) {
    for (std::size_t i = addends.size() - 1; i > 0; --i) {
      std::swap(addends[i], addends[prng.Below(i + 1)]);
    }
    // Dealt to three workers, and then summed as an all-reduce does.
    std::vector<std::vector<std::int64_t>> workers(3, std::vector<std::int64_t>(kSize));
    for (const auto& addend : addends) sums.Add(addend, workers[prng.Below(3)]);
    std::vector<std::int64_t> total(kSize);
    for (const auto& worker : workers) {
      for (std::size_t i = 0; i < kSize; ++i) total[i] += worker[i];
    }
    ASSERT_EQ(total, in_order);
  }
  EXPECT_TRUE(sums.finite());
  EXPECT_FALSE(sums.coarser().has_value());
  const std::vector<double> values = Values(sums, in_order);
  for (std::size_t i = 0; i < kSize; ++i) {
    double exact = 0;
    for (const auto& addend : addends) exact += static_cast<double>(addend[i]);
    EXPECT_NEAR(values[i], exact, kAddends * sums.unit());
  }
}

TEST(FixedPointSums, TheLargestAddendsFillAnAccumulatorAndDoNotOverflowIt) {
  for (const std::int64_t most : {1, 2, 3, 1000, 4096}) {
    FixedPointSums sums(most);
    sums.Begin(sums.QuantumFor(8.0));
    std::vector<std::int64_t> total(2);
    for (std::int64_t i = 0; i < most; ++i) sums.Add(std::vector<float>{8.0F, -8.0F}, total);
    EXPECT_FALSE(sums.coarser().has_value());
    EXPECT_EQ(Values(sums, total),
              (std::vector<double>{8.0 * static_cast<double>(most), -8.0 * most}));
  }
}

TEST(FixedPointSums, RoundsToTheNearestAndToEvenInTheMiddle) {
  FixedPointSums sums(2);
  sums.Begin(0);
  std::vector<std::int64_t> total(6);
  sums.Add(std::vector<float>{0.5F, 1.5F, 2.5F, -0.5F, -1.5F, 0.75F}, total);
  EXPECT_EQ(total, (std::vector<std::int64_t>{0, 2, 2, 0, -2, 1}));
}

TEST(FixedPointSums, WhatDoesNotFitNamesTheQuantumThatDoesWhoeverIsAskedFirst) {
  FixedPointSums sums(8);
  const int quantum = sums.QuantumFor(1.0);
  std::vector<std::int64_t> total(1);
  for (const bool largest_first : {true, false}) {
    sums.Begin(quantum);
    std::vector<float> addends = {1.0F, 1.5F, -100.0F};
    if (largest_first) std::reverse(addends.begin(), addends.end());
    int asked = quantum;
    for (int rounds = 0;; ++rounds) {  // begins again whenever something does not fit
      ASSERT_LT(rounds, 4);
      sums.Begin(asked);
      for (const float addend : addends) {
        sums.Add({&addend, 1}, total);
        if (sums.coarser()) break;
      }
      if (!sums.coarser()) break;
      asked = *sums.coarser();
    }
    EXPECT_EQ(asked, sums.QuantumFor(100.0));
    EXPECT_EQ(asked, quantum + 7);
  }
}

TEST(FixedPointSums, WhatIsNotFiniteIsSeenAndAsksForNothing) {
  FixedPointSums sums(8);
  for (const float bad : {kInfinity, -kInfinity, std::numeric_limits<float>::quiet_NaN()}) {
    sums.Begin(sums.QuantumFor(1.0));
    std::vector<std::int64_t> total(2);
    sums.Add(std::vector<float>{0.5F, bad}, total);
    EXPECT_FALSE(sums.finite());
    EXPECT_FALSE(sums.coarser().has_value());
  }
}

}  // namespace
}  // namespace recycle
