#include "recycle/nn/tensor_pool.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "recycle/base/prng.h"

namespace recycle {
namespace {

constexpr std::size_t kMega = std::size_t{1} << 20;

TEST(TensorPoolTest, MemoryIsAlignedApartAndKnowsItsSize) {
  TensorPool pool;
  std::vector<unsigned char*> taken;
  for (const std::size_t bytes :
       {std::size_t{1}, std::size_t{100}, kMega / 8 - 64, kMega / 8, kMega + 5, 3 * kMega}) {
    auto* const memory = static_cast<unsigned char*>(pool.Take(bytes));
    EXPECT_EQ(reinterpret_cast<std::uintptr_t>(memory) % 64, 0U);
    EXPECT_EQ(TensorPool::SizeOf(memory), bytes);
    std::memset(memory, static_cast<int>(taken.size()), bytes);
    taken.push_back(memory);
  }
  for (std::size_t i = 0; i < taken.size(); ++i) {
    EXPECT_EQ(taken[i][0], i);
    EXPECT_EQ(taken[i][TensorPool::SizeOf(taken[i]) - 1], i);
    pool.Give(taken[i]);
  }
  EXPECT_EQ(pool.usage().in_use, 0U);
}

TEST(TensorPoolTest, WhatIsFreedIsTakenAgainTheLastFirst) {
  TensorPool pool;
  void* const first = pool.Take(kMega);
  void* const second = pool.Take(kMega);
  pool.Give(first);
  pool.Give(second);
  EXPECT_EQ(pool.Take(kMega), second);
  EXPECT_EQ(pool.Take(kMega - kMega / 16), first);  // nearly as large
  pool.Give(first);
  void* const half = pool.Take(kMega / 2);
  EXPECT_NE(half, first);  // too large to be spent on it
  pool.Give(second);
  pool.Give(half);
  EXPECT_EQ(pool.usage().in_use, 0U);
}

// However sizes and lifetimes mix, the pool holds little more than was in use at the worst moment.
TEST(TensorPoolTest, HoldsAnEighthMoreThanWasEverInUse) {
  constexpr std::uint64_t kSeed = 20240917;
  SCOPED_TRACE(::testing::Message() << "seed " << kSeed);
  TensorPool pool;
  Prng prng(kSeed);
  std::vector<void*> taken;
  std::size_t most = 0;
  for (int i = 0; i < 20'000; ++i) {
    const bool grows = (i / 1000) % 2 == 0;
    if (taken.empty() || prng.Below(4) < (grows ? 3U : 1U)) {
      taken.push_back(pool.Take(kMega / 8 * (1 + prng.Below(64))));
    } else {
      std::swap(taken[prng.Below(taken.size())], taken.back());
      pool.Give(taken.back());
      taken.pop_back();
    }
    most = std::max(most, pool.usage().in_use);
    ASSERT_LE(pool.usage().held, most + most / 8 + 16 * kMega);
  }
  for (void* memory : taken) pool.Give(memory);
}

}  // namespace
}  // namespace recycle
