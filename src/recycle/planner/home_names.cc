#include "recycle/planner/home_names.h"

#include <algorithm>
#include <vector>

#include "recycle/base/index.h"

namespace recycle {
namespace {

struct Claim {
  std::int32_t micro_batch;
  std::int32_t home;
};

// By number of stages: which pipeline runs which micro-batch at so many of them.
std::vector<std::vector<Claim>> ClaimsByStages(const FlatJob& job, const Order& order) {
  std::vector<std::vector<Claim>> claims(Index(job.num_stages) + 1);
  std::vector<int> stages(Index(job.num_pipelines), 0);
  std::vector<std::int32_t> met;
  for (int id = 0; id < job.num_micro_batches; ++id) {
    met.clear();
    for (int stage = 0; stage < job.num_stages; ++stage) {
      const std::int32_t pipeline = order.pipeline[Index(id * job.num_stages + stage)];
      if (stages[Index(pipeline)]++ == 0) met.push_back(pipeline);
    }
    for (const std::int32_t pipeline : met) {
      claims[Index(stages[Index(pipeline)])].push_back({.micro_batch = id, .home = pipeline});
      stages[Index(pipeline)] = 0;
    }
  }
  return claims;
}

// By micro-batch: its new number m * DP + home; m ascends with the old numbers.
std::vector<std::int32_t> NewNumbers(const FlatJob& job, const Order& order) {
  std::vector<std::int32_t> home(Index(job.num_micro_batches), -1);
  std::vector<int> names_left(Index(job.num_pipelines), job.micro_batches);
  const std::vector<std::vector<Claim>> claims = ClaimsByStages(job, order);
  for (auto most = claims.rbegin(); most != claims.rend(); ++most) {
    for (const Claim& claim : *most) {
      if (home[Index(claim.micro_batch)] >= 0 || names_left[Index(claim.home)] == 0) continue;
      home[Index(claim.micro_batch)] = claim.home;
      --names_left[Index(claim.home)];
    }
  }
  std::vector<int> next_m(Index(job.num_pipelines), 0);
  std::int32_t any = 0;  // a home with names left, for those nobody claimed
  std::vector<std::int32_t> numbers;
  numbers.reserve(home.size());
  for (std::int32_t& own : home) {
    if (own < 0) {
      while (names_left[Index(any)] == 0) ++any;
      own = any;
      --names_left[Index(any)];
    }
    numbers.push_back(next_m[Index(own)]++ * job.num_pipelines + own);
  }
  return numbers;
}

}  // namespace

Order WithHomeNames(const FlatJob& job, const Order& order) {
  const std::vector<std::int32_t> numbers = NewNumbers(job, order);
  Order renamed;
  renamed.pipeline.resize(order.pipeline.size());
  for (int id = 0; id < job.num_micro_batches; ++id) {
    std::copy_n(order.pipeline.begin() + std::ptrdiff_t{id} * job.num_stages, job.num_stages,
                renamed.pipeline.begin() + std::ptrdiff_t{numbers[Index(id)]} * job.num_stages);
  }
  renamed.ops.reserve(order.ops.size());
  for (const std::uint32_t op : order.ops) {
    const int slot = Order::SlotOf(op);
    const int id = job.MicroBatchAt(slot);
    renamed.ops.push_back(
        Order::Op(slot + (numbers[Index(id)] - id) * job.num_stages, Order::KindOf(op)));
  }
  return renamed;
}

}  // namespace recycle
