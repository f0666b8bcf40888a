#include "recycle/comm/reduce_group.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <filesystem>
#include <future>
#include <thread>

#include "recycle/base/prng.h"
#include "recycle/comm/comm_testing.h"

namespace recycle {
namespace {

using std::chrono::milliseconds;

constexpr std::uint64_t kSeed = 20240602;

template <typename T>
std::vector<T> RandomNumbers(int rank, std::size_t count) {
  Prng prng(HashKeys({kSeed, static_cast<std::uint64_t>(rank), count}));
  std::vector<T> numbers(count);
  for (T& number : numbers) number = static_cast<T>(prng.Uniform() - 0.5);
  return numbers;
}

std::unique_ptr<ReduceGroup> Form(const std::shared_ptr<Device>& device, int rank, int size,
                                  Exchange& exchange, Generation generation = Generation(1)) {
  StatusOr<std::unique_ptr<ReduceGroup>> group = ReduceGroup::Open(device, rank, size, generation);
  RC_CHECK(group.ok()) << group.status().message();
  const Status status = (*group)->Connect(exchange.Swap(rank, (*group)->addresses()));
  RC_CHECK(status.ok()) << status.message();
  return *std::move(group);
}

// Runs an all-reduce in each member of `groups` and compares it with a sum in double.
template <typename T>
void ExpectSums(const std::vector<std::unique_ptr<ReduceGroup>>& groups, std::size_t count,
                double tolerance) {
  const int size = static_cast<int>(groups.size());
  SCOPED_TRACE(testing::Message() << size << " members, " << count << " numbers, seed " << kSeed);
  std::vector<std::vector<T>> outs(size, std::vector<T>(count));
  RunMembers(size, [&](int rank, Exchange& /*exchange*/) {
    const std::vector<T> in = RandomNumbers<T>(rank, count);
    ASSERT_EQ(groups[rank]->AllReduceSum(std::span<const T>(in), std::span<T>(outs[rank])),
              OkStatus());
    EXPECT_EQ(in, RandomNumbers<T>(rank, count));
  });
  std::vector<double> expected(count);
  for (int rank = 0; rank < size; ++rank) {
    const std::vector<T> in = RandomNumbers<T>(rank, count);
    for (std::size_t i = 0; i < count; ++i) expected[i] += in[i];
    EXPECT_EQ(outs[rank], outs[0]);  // bitwise: no member has a sum of its own
  }
  for (std::size_t i = 0; i < count; ++i) ASSERT_NEAR(outs[0][i], expected[i], tolerance);
}

TEST(ReduceGroupTest, SumsForEverySizeAndLength) {
  const std::shared_ptr<Device> device = MakeDevice();
  for (int size = 1; size <= 5; ++size) {
    std::vector<std::unique_ptr<ReduceGroup>> groups(size);
    RunMembers(size, [&](int rank, Exchange& exchange) {
      groups[rank] = Form(device, rank, size, exchange);
    });
    for (const std::size_t count : {0, 1, 7, 100003}) ExpectSums<float>(groups, count, 1e-6);
    ExpectSums<double>(groups, 1001, 1e-14);
  }
}

// One group is used for everything of a generation: sums of changing lengths and commit rounds.
TEST(ReduceGroupTest, CallsOfEveryKindFollowEachOther) {
  constexpr int kSize = 3;
  const std::shared_ptr<Device> device = MakeDevice();
  RunMembers(kSize, [&](int rank, Exchange& exchange) {
    const auto group = Form(device, rank, kSize, exchange);
    for (const std::size_t count : {5, 4096, 1, 300000, 12}) {
      const std::vector<float> in(count, static_cast<float>(rank + 1));
      std::vector<float> out(count);
      ASSERT_EQ(group->AllReduceSum(in, out), OkStatus());
      EXPECT_EQ(out, std::vector<float>(count, 6));
      const StatusOr<MinMax> round = group->AllReduceMinMax(count + rank);
      ASSERT_TRUE(round.ok());
      EXPECT_EQ(round->min, count);
      EXPECT_EQ(round->max, count + 2);
    }
    exchange.Finish();
  });
}

TEST(ReduceGroupTest, AGroupOfOneNeedsNobody) {
  const auto group = *ReduceGroup::Open(MakeDevice(), 0, 1, Generation(1));
  ASSERT_EQ(group->Connect({}), OkStatus());
  EXPECT_THAT(group->addresses(), testing::IsEmpty());
  EXPECT_EQ(group->AllReduceMinMax(4)->max, 4u);
  group->Abort("generation 2");
  float number = 1;
  EXPECT_EQ(group->AllReduceSum(std::span<const float>(&number, 1), std::span(&number, 1)),
            absl::AbortedError("generation 2"));
}

TEST(ReduceGroupTest, EightGroupsAtOnce) {
  constexpr int kSize = 3;
  const std::shared_ptr<Device> device = MakeDevice();
  std::vector<std::future<void>> groups;
  for (int number = 1; number <= 8; ++number) {
    groups.push_back(std::async(std::launch::async, [&device, number] {
      RunMembers(kSize, [&](int rank, Exchange& exchange) {
        const auto group = Form(device, rank, kSize, exchange);
        const std::vector<float> in(number * 10007, static_cast<float>(number));
        std::vector<float> out(in.size());
        for (int round = 0; round < 5; ++round) {
          ASSERT_EQ(group->AllReduceSum(in, out), OkStatus());
          ASSERT_EQ(out, std::vector<float>(in.size(), 3.0F * number));
        }
        exchange.Finish();
      });
    }));
  }
  for (std::future<void>& group : groups) group.get();
}

// What became of a member's all-reduce.
struct Outcome {
  Status status;
  bool in_untouched = false;
  std::vector<float> out;
};

// Cuts the ring at `cutter` before its hop `hop`; whoever sees an error wakes the others, as the
// coordinator does.
std::vector<Outcome> CutRing(const std::shared_ptr<Device>& device, int size, int cutter, int hop) {
  constexpr std::size_t kCount = 1009;
  std::vector<Outcome> outcomes(size);
  std::vector<std::unique_ptr<ReduceGroup>> groups(size);
  RunMembers(size, [&](int rank, Exchange& exchange) {
    groups[rank] = Form(device, rank, size, exchange);
    exchange.Finish();
    if (rank == cutter) {
      groups[rank]->SetHopHook([&, rank](int now) {
        if (now == hop) groups[rank]->CutForTest();
      });
    }
    const std::vector<float> in = RandomNumbers<float>(rank, kCount);
    outcomes[rank].out.resize(kCount);
    outcomes[rank].status = groups[rank]->AllReduceSum(in, outcomes[rank].out);
    outcomes[rank].in_untouched = in == RandomNumbers<float>(rank, kCount);
    if (!outcomes[rank].status.ok()) {
      for (const auto& group : groups) group->Abort("a member saw an error");
    }
  });
  return outcomes;
}

// A cut between any two hops leaves every survivor's own sum untouched; and
// members that did get a result all have the same.
TEST(ReduceGroupTest, ACutBetweenAnyTwoHopsLeavesEveryInput) {
  const std::shared_ptr<Device> device = MakeDevice();
  for (const int size : {2, 4}) {
    for (int hop = 0; hop < 2 * (size - 1); ++hop) {
      SCOPED_TRACE(testing::Message() << size << " members, cut before hop " << hop);
      const std::vector<Outcome> outcomes = CutRing(device, size, hop % size, hop);
      EXPECT_FALSE(outcomes[hop % size].status.ok());
      const Outcome* complete = nullptr;
      for (const Outcome& outcome : outcomes) {
        EXPECT_TRUE(outcome.in_untouched);
        if (!outcome.status.ok()) continue;
        if (complete != nullptr) {
          EXPECT_EQ(outcome.out, complete->out);
        }
        complete = &outcome;
      }
    }
  }
}

// A member of a ring of five. Tells how its all-reduce ended; "abort" from the test aborts it.
void RingMember(int rank, Wire& wire) {
  constexpr int kSize = 5;
  const std::shared_ptr<Device> device = MakeDevice();
  const auto group = *ReduceGroup::Open(device, rank, kSize, Generation(7));
  wire.WriteAddresses(group->addresses());
  RC_CHECK(group->Connect(wire.ReadAddresses()).ok());
  if (rank == 0) {
    group->SetHopHook([](int hop) {
      if (hop == 1) raise(SIGKILL);
    });
  }
  std::atomic<std::int64_t> aborted_at = 0;
  std::thread control([&] {
    if (wire.Read() != "abort") return;
    aborted_at = SystemClock().Now().time_since_epoch().count();
    group->Abort("generation 8");
  });
  constexpr std::size_t kCount = 1000003;
  const std::vector<float> in = RandomNumbers<float>(rank, kCount);
  std::vector<float> out(in.size());
  const Status status = group->AllReduceSum(in, out);
  const std::int64_t ended_at = SystemClock().Now().time_since_epoch().count();
  wire.Write(status.ToString());
  wire.Write(in == RandomNumbers<float>(rank, kCount) ? "untouched" : "touched");
  control.join();
  wire.Write(std::to_string(ended_at - aborted_at));
  wire.Read();  // keeps the group open until the test ends
}

// Lets member 0 of five die and wakes 2 and 3, who do not see it; how long an Abort took.
double WakeMembersFarFromTheDead() {
  ForkedMembers members(5, RingMember);
  members.RouteAddresses();
  for (const int neighbour : {1, 4}) {
    const std::string status = members.wire(neighbour).Read();
    EXPECT_THAT(status, testing::StartsWith("UNAVAILABLE: all-reduce group of generation 7"));
    EXPECT_EQ(members.wire(neighbour).Read(), "untouched");
  }
  EXPECT_FALSE(members.wire(2).Readable(milliseconds(50)));
  EXPECT_FALSE(members.wire(3).Readable(milliseconds(0)));
  members.wire(2).Write("abort");
  EXPECT_EQ(members.wire(2).Read(), "ABORTED: generation 8");
  EXPECT_EQ(members.wire(2).Read(), "untouched");
  return ToMilliseconds(Duration(std::stoll(members.wire(2).Read())));
}

// recovery.md, Links and groups: after a death only ring neighbours get an error by themselves; the
// others have to be woken.
TEST(ReduceGroupTest, OnlyNeighboursOfADeadMemberSeeItAndAbortWakesTheOthers) {
  EXPECT_LT(BestOf(10, 50, WakeMembersFarFromTheDead), 50);
}

TEST(ReduceGroupTest, ConnectToADeadNeighbourCanBeAborted) {
  const std::shared_ptr<Device> device = MakeDevice();
  const auto group = *ReduceGroup::Open(device, 0, 2, Generation(1));
  const Addresses dead = (*ReduceGroup::Open(device, 1, 2, Generation(1)))->addresses();
  auto connecting = std::async(std::launch::async, [&] {
    return group->Connect({{1, dead.at(0)}});
  });
  group->Abort("generation 2");
  EXPECT_EQ(connecting.get(), absl::AbortedError("generation 2"));
}

std::size_t CountEntries(const char* folder) {
  return std::distance(std::filesystem::directory_iterator(folder),
                       std::filesystem::directory_iterator());
}

// Every change of membership makes new groups, often in the middle of an all-reduce of the old.
void Reform(const std::shared_ptr<Device>& device, Generation generation) {
  const bool aborted = generation.value() % 2 == 0;
  RunMembers(2, [&](int rank, Exchange& exchange) {
    const auto group = Form(device, rank, 2, exchange, generation);
    if (rank == 0 && aborted) {
      group->SetHopHook([&](int hop) {
        if (hop == 1) group->Abort("the next generation");
      });
    }
    const std::vector<float> in(100000, 1);
    std::vector<float> out(in.size());
    EXPECT_EQ(group->AllReduceSum(in, out).ok(), !aborted);
    exchange.Finish();
  });
}

TEST(ReduceGroupTest, ReformingAHundredTimesLeaksNothing) {
  const std::shared_ptr<Device> device = MakeDevice();
  const std::size_t fds = CountEntries("/proc/self/fd");
  const std::size_t threads = CountEntries("/proc/self/task");
  RunMembers(4, [&](int /*series*/, Exchange& /*exchange*/) {
    for (int generation = 1; generation <= 25; ++generation) {
      Reform(device, Generation(generation));
    }
  });
  EXPECT_EQ(CountEntries("/proc/self/fd"), fds);
  EXPECT_EQ(CountEntries("/proc/self/task"), threads);
}

}  // namespace
}  // namespace recycle
