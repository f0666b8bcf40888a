// The all-reduce of a stage, its commit round, and the hand-over of what some members hold.
#include "recycle/executor/gradient_reduction.h"

#include <ATen/core/ivalue.h>  // clang needs the whole type
#include <ATen/ops/empty.h>
#include <gtest/gtest.h>

#include <bit>
#include <cmath>

#include "recycle/base/prng.h"
#include "recycle/comm/comm_testing.h"

namespace recycle {
namespace {

constexpr std::uint64_t kSeed = 4711;
constexpr int kMembers = 3;
constexpr std::int64_t kTokens = 7;

// One member of a stage with two parameters, one of them tied.
class Member {
 public:
  Member(const std::shared_ptr<Device>& device, int rank, Exchange& exchange)
      : parameters_{MakeParameter("wte.weight", 40, /*tied=*/true),
                    MakeParameter("bias", 9, false)},
        gradients_(parameters_, /*apart=*/true, /*sums=*/nullptr),
        reduced_results_(4),
        rank_(rank),
        device_(device) {
    Prng prng(HashKeys({kSeed, static_cast<std::uint64_t>(rank)}));
    for (Parameter& parameter : parameters_) {
      for (std::int64_t i = 0; i < parameter.gradient.numel(); ++i) {
        // A sum of zeros of either sign is among them.
        parameter.gradient.data_ptr<float>()[i] =
            i == 3 ? -0.0F : static_cast<float>(prng.Uniform() - 0.5);
      }
    }
    for (double& result : results_) result = prng.Uniform();
    NewGroup(exchange);
  }

  // As after a change of generation.
  void NewGroup(Exchange& exchange) {
    group_ = *ReduceGroup::Open(device_, rank_, kMembers, Generation(1));
    const Status connected = group_->Connect(exchange.Swap(rank_, group_->addresses()));
    RC_CHECK(connected.ok()) << connected;
  }

  ReductionRequest Request() {
    ReductionRequest request;
    request.tokens = kTokens;
    request.results = results_;
    request.reduced_results = reduced_results_;
    return request;
  }
  Status Reduce(const ReductionRequest& request) {
    return gradients_.Reduce(*group_, group_.get(), request);
  }
  Status HandOver(ReducedPart part, bool is_source) {
    return gradients_.HandOver(*group_, part, is_source, Request());
  }

  // R and the results, as bits.
  std::vector<std::uint64_t> Bits() const {
    std::vector<std::uint64_t> bits;
    for (const std::span<const float> parameter : gradients_.reduced()) {
      for (const float element : parameter) bits.push_back(std::bit_cast<std::uint32_t>(element));
    }
    for (const double result : reduced_results_)
      bits.push_back(std::bit_cast<std::uint64_t>(result));
    return bits;
  }
  // R is lost, and its buffers hold something else.
  void Scramble() {
    const auto alone = *ReduceGroup::Open(device_, 0, 1, Generation(1));
    RC_CHECK(gradients_.Reduce(*alone, alone.get(), Request()).ok());
    gradients_.Discard();
  }
  GradientReduction& gradients() { return gradients_; }
  ReduceGroup& group() { return *group_; }

 private:
  static Parameter MakeParameter(const char* name, std::int64_t count, bool tied) {
    return {name, 0, at::empty({count}), {}, tied, false};
  }

  std::vector<Parameter> parameters_;
  GradientReduction gradients_;
  std::vector<double> results_ = std::vector<double>(4);
  std::vector<double> reduced_results_;
  const int rank_;
  const std::shared_ptr<Device> device_;
  std::unique_ptr<ReduceGroup> group_;
};

TEST(GradientReduction, ADamagedResultIsSeenInTheCommitRoundAndDoneAgain) {
  const std::shared_ptr<Device> device = MakeDevice();
  std::vector<std::vector<std::uint64_t>> bits(kMembers);
  std::vector<int> rounds(kMembers);
  RunMembers(kMembers, [&](int rank, Exchange& exchange) {
    Member member(device, rank, exchange);
    ReductionRequest request = member.Request();
    request.before_commit = [&](std::span<float> reduced) {
      if (++rounds[rank] <= 2 && rank == 1) reduced[5] *= 2;
    };
    EXPECT_EQ(member.Reduce(request), OkStatus());
    EXPECT_TRUE(member.gradients().complete());
    bits[rank] = member.Bits();
    exchange.Finish();
  });
  EXPECT_EQ(rounds, std::vector<int>(kMembers, 4)) << "stage three times, tied once";
  EXPECT_EQ(bits[1], bits[0]);
  EXPECT_EQ(bits[2], bits[0]);
}

TEST(GradientReduction, DamageThatStaysIsAnErrorOfEveryMember) {
  const std::shared_ptr<Device> device = MakeDevice();
  RunMembers(kMembers, [&](int rank, Exchange& exchange) {
    Member member(device, rank, exchange);
    ReductionRequest request = member.Request();
    request.before_commit = [&](std::span<float> reduced) {
      if (rank == 2) reduced[0] += 1;
    };
    EXPECT_TRUE(absl::IsDataLoss(member.Reduce(request)));
    EXPECT_FALSE(member.gradients().Holds(ReducedPart::kStage));
    exchange.Finish();
  });
}

class HandOverTest : public testing::Test {
 protected:
  // All members have R; then some lose it: their buffers hold what means nothing.
  void SetUp() override {
    RunMembers(kMembers, [this](int rank, Exchange& exchange) {
      members_[rank] = std::make_unique<Member>(device_, rank, exchange);
      Member& member = *members_[rank];
      RC_CHECK(member.Reduce(member.Request()).ok());
      exchange.Finish();
    });
    for (const auto& member : members_) EXPECT_EQ(member->Bits(), members_[0]->Bits());
    bits_ = members_[0]->Bits();
  }
  void Lose(int rank) {
    members_[rank]->Scramble();
    EXPECT_NE(members_[rank]->Bits(), bits_);
  }
  void ExpectHasAll(int rank) {
    EXPECT_EQ(members_[rank]->Bits(), bits_);
    EXPECT_TRUE(members_[rank]->gradients().complete());
  }

  const std::shared_ptr<Device> device_ = MakeDevice();
  std::vector<std::unique_ptr<Member>> members_ = std::vector<std::unique_ptr<Member>>(kMembers);
  std::vector<std::uint64_t> bits_;
};

TEST_F(HandOverTest, WhoLacksAPartGetsItToTheBit) {
  for (const int source : {0, 2}) {
    Lose(1);
    if (source == 2) Lose(0);
    RunMembers(kMembers, [&](int rank, Exchange& exchange) {
      Member& member = *members_[rank];
      member.NewGroup(exchange);
      EXPECT_EQ(member.HandOver(ReducedPart::kStage, rank == source), OkStatus());
      EXPECT_EQ(member.HandOver(ReducedPart::kTied, rank == source), OkStatus());
      exchange.Finish();
    });
    for (int rank = 0; rank < kMembers; ++rank) ExpectHasAll(rank);
  }
}

// recovery-rules.md, 3.3: a hand-over that does not happen changes nothing.
TEST_F(HandOverTest, WhoHoldsAPartKeepsItWhateverBecomesOfTheRound) {
  Lose(1);
  RunMembers(kMembers, [&](int rank, Exchange& exchange) {
    Member& member = *members_[rank];
    member.NewGroup(exchange);
    member.group().SetHopHook([&member, rank](int hop) {
      if (hop == 2 && rank == 1) member.group().CutForTest();
    });
    EXPECT_FALSE(member.HandOver(ReducedPart::kStage, rank == 0).ok());
    exchange.Finish();
  });
  ExpectHasAll(0);
  ExpectHasAll(2);
  EXPECT_FALSE(members_[1]->gradients().Holds(ReducedPart::kStage));
}

}  // namespace
}  // namespace recycle
