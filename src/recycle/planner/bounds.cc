#include "recycle/planner/bounds.h"

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <limits>

#include "recycle/base/check.h"
#include "recycle/base/index.h"

namespace recycle {
namespace {

// floor(bytes / piece), at most `limit`; `limit` where a piece weighs nothing.
std::int64_t HowManyFit(double bytes, double piece, std::int64_t limit) {
  if (piece <= 0 || !std::isfinite(bytes)) return limit;
  return std::clamp<std::int64_t>(static_cast<std::int64_t>(std::min(bytes / piece, 1e15)), 0,
                                  limit);
}

// ceil(bytes / piece), 0 at least; `limit` + 1 where pieces weigh nothing and bytes are needed.
std::int64_t HowManyNeeded(double bytes, double piece, std::int64_t limit) {
  if (bytes <= 0) return 0;
  if (piece <= 0) return limit + 1;
  return static_cast<std::int64_t>(std::ceil(std::min(bytes / piece, 1e15)));
}

// The least T in which workers that take `per_piece[w]` for a piece finish `pieces` of them.
Ticks LeastTime(std::int64_t pieces, const std::vector<Ticks>& per_piece) {
  if (std::any_of(per_piece.begin(), per_piece.end(), [](Ticks t) { return t == 0; })) return 0;
  Ticks low = 0;
  Ticks high = pieces * *std::min_element(per_piece.begin(), per_piece.end());
  while (low < high) {
    const Ticks middle = low + (high - low) / 2;
    std::int64_t done = 0;
    for (const Ticks t : per_piece) done += middle / t;
    if (done >= pieces) {
      high = middle;
    } else {
      low = middle + 1;
    }
  }
  return low;
}

// Costs of a stage as its fastest live worker has them, and what follows from them.
class StageBounds {
 public:
  explicit StageBounds(const FlatJob& job) : job_(job) {
    for (int stage = 0; stage < job.num_stages; ++stage) AddFastest(stage);
    tail_.assign(Index(job.num_stages), 0);
    for (int i = job.num_stages - 2; i >= 0; --i) {
      tail_[Index(i)] =
          tail_[Index(i + 1)] + forward_[Index(i + 1)] + chain_[Index(i + 1)] + Send(i);
    }
  }

  // P_i, one stage per worker.
  Ticks Staggered(int i, int live) const {
    const Core core = CoreOf(i, live);
    Ticks bound = core.whole + Step(i);
    Ticks way =
        0;  // from stage j's last I back to stage i, and forward again in the next iteration
    for (int j = i - 1; j >= 0; --j) {
      way += forward_[Index(j)] + chain_[Index(j)] + Send(j);
      bound = std::max(bound, core.to_last_input + way + LoneWeight(j) + Step(j));
    }
    return std::max(bound, Little(i, live));
  }

  // K_i, one stage per worker; `with_optimizer` = false gives the makespan's form.
  Ticks Synchronous(int i, int live, bool with_optimizer) const {
    Ticks start = 0;
    Ticks way = 0;
    for (int x = i; x >= 0; --x) {
      if (x < i) way += forward_[Index(x)] + job_.send_forward[Index(x)];
      start = std::max(start, way + (with_optimizer ? job_.stages[Index(x)].optimizer : 0));
    }
    const Core core = CoreOf(i, live);
    Ticks end = core.whole + job_.stages[Index(i)].all_reduce;
    Ticks back = 0;
    for (int j = i - 1; j >= 0; --j) {
      back += chain_[Index(j)] + job_.send_backward[Index(j)];
      end = std::max(end,
                     core.to_last_input + back + LoneWeight(j) + job_.stages[Index(j)].all_reduce);
    }
    return start + end;
  }

  // First F to last W of one micro-batch at stage i, and its step.
  Ticks Chain(int i) const { return RoundTrip(i) + Step(i); }

 private:
  struct Core {
    Ticks whole = 0;          // first F to last W of the busiest worker, at least
    Ticks to_last_input = 0;  // first F to the stage's last I, at least
  };

  void AddFastest(int stage) {
    Ticks f = std::numeric_limits<Ticks>::max();
    Ticks i = f;
    Ticks w = f;
    for (const int k : job_.live[Index(job_.column[Index(stage)])]) {
      const auto& own = job_.durations[Index(stage * job_.num_pipelines + k)];
      f = std::min(f, own[0]);
      i = std::min(i, job_.decoupled ? own[1] : own[3]);
      w = std::min(w, own[2]);
    }
    forward_.push_back(f);
    chain_.push_back(i);
    weight_.push_back(job_.decoupled ? w : 0);
  }

  Ticks Send(int i) const { return job_.send_forward[Index(i)] + job_.send_backward[Index(i)]; }
  Ticks Step(int i) const {
    return job_.stages[Index(i)].all_reduce + job_.stages[Index(i)].optimizer;
  }
  // A W that still follows the I which left stage i; with B there is none.
  Ticks LoneWeight(int i) const { return weight_[Index(i)]; }
  Ticks RoundTrip(int i) const {
    return forward_[Index(i)] + tail_[Index(i)] + chain_[Index(i)] + weight_[Index(i)];
  }

  bool UnevenSpeeds(int i) const {
    if (!job_.has_stragglers) return false;
    const std::vector<int>& live = job_.live[Index(job_.column[Index(i)])];
    const double first = job_.slow[Index(job_.WorkerOf(i, live.front()))];
    return std::any_of(live.begin(), live.end(),
                       [&](int k) { return job_.slow[Index(job_.WorkerOf(i, k))] != first; });
  }

  // The busiest worker runs n micro-batches. It can start `held` F's before its first I, and waits
  // `idle` for that. Before its last F it must have freed memory by a I's and b W's; then the last
  // micro-batch still has its way down and back, and the worker its other I's and W's. Whichever a
  // the plan chooses, it takes at least the least of these times.
  Core CoreOf(int i, int live) const {
    if (UnevenSpeeds(i)) return UnevenCore(i);
    const StageCosts& costs = job_.stages[Index(i)];
    const double capacity = job_.capacity[Index(i)];
    const std::int64_t n = (job_.num_micro_batches + live - 1) / live;
    const std::int64_t held = HowManyFit(capacity, costs.activation_bytes, n);
    const Ticks idle =
        std::max<Ticks>(0, forward_[Index(i)] + tail_[Index(i)] - held * forward_[Index(i)]);
    const double kept_by_input = job_.decoupled ? costs.deferred_bytes : 0;
    const double freed_by_input = costs.activation_bytes - kept_by_input;
    const double to_free =
        std::isfinite(capacity) ? static_cast<double>(n) * costs.activation_bytes - capacity : 0;
    const Ticks work = n * (forward_[Index(i)] + chain_[Index(i)] + weight_[Index(i)]);
    constexpr Ticks kNone = std::numeric_limits<Ticks>::max();
    Core least{.whole = kNone, .to_last_input = kNone};
    const std::int64_t fewest =
        std::min(n - 1, HowManyNeeded(to_free, costs.activation_bytes, n));  // with as many W's
    for (std::int64_t a = fewest; a < n; ++a) {
      const double rest = to_free - static_cast<double>(a) * freed_by_input;
      const std::int64_t b = std::min(a, HowManyNeeded(rest, kept_by_input, n));
      const Ticks last_forward_end = (a > 0 ? idle : 0) + n * forward_[Index(i)] +
                                     a * chain_[Index(i)] + b * weight_[Index(i)];
      const Ticks last_input_end = last_forward_end + tail_[Index(i)] + chain_[Index(i)];
      const Ticks owed = (n - b) * weight_[Index(i)];
      least.to_last_input =
          std::min(least.to_last_input, std::max(last_input_end, idle + work - owed));
      least.whole =
          std::min(least.whole, std::max(last_input_end + weight_[Index(i)], idle + work));
      if (b == 0) break;  // with more I's before the last F, all of it only comes later
    }
    return least;
  }

  Core UnevenCore(int i) const {
    std::vector<Ticks> whole;
    std::vector<Ticks> without_weight;
    for (const int k : job_.live[Index(job_.column[Index(i)])]) {
      const auto& own = job_.durations[Index(i * job_.num_pipelines + k)];
      whole.push_back(own[0] + (job_.decoupled ? own[1] + own[2] : own[3]));
      without_weight.push_back(own[0] + (job_.decoupled ? own[1] : own[3]));
    }
    return {.whole = LeastTime(job_.num_micro_batches, whole),
            .to_last_input = LeastTime(job_.num_micro_batches, without_weight)};
  }

  // Little's law: a round trip for each micro-batch, so many at a time as fit beside one whose F
  // starts.
  Ticks Little(int i, int live) const {
    const StageCosts& costs = job_.stages[Index(i)];
    if (costs.deferred_bytes <= 0 || !std::isfinite(job_.capacity[Index(i)])) return 0;
    if (UnevenSpeeds(i)) return Chain(i);
    const std::int64_t n = (job_.num_micro_batches + live - 1) / live;
    const double least_held = job_.decoupled ? costs.deferred_bytes : costs.activation_bytes;
    const double beside = job_.capacity[Index(i)] - costs.activation_bytes;
    const std::int64_t at_once = std::min(n, 1 + HowManyFit(beside, least_held, n));
    return ((n + at_once - 1) / at_once) * RoundTrip(i) + Step(i);
  }

  const FlatJob& job_;
  std::vector<Ticks> forward_;
  std::vector<Ticks> chain_;   // the backward the next stage down waits for: I, or B when coupled
  std::vector<Ticks> weight_;  // W; 0 when coupled
  std::vector<Ticks> tail_;    // R_i: end of F at stage i to start of its I, at least
};

// Work of the busiest worker of every column.
Ticks ColumnWork(const FlatJob& job) {
  Ticks bound = 0;
  for (int column = 0; column < job.num_columns; ++column) {
    std::vector<Ticks> per_piece;
    for (const int k : job.live[Index(column)]) {
      Ticks sum = 0;
      for (int stage = 0; stage < job.num_stages; ++stage) {
        if (job.column[Index(stage)] != column) continue;
        const auto& own = job.durations[Index(stage * job.num_pipelines + k)];
        sum += own[0] + (job.decoupled ? own[1] + own[2] : own[3]);
      }
      per_piece.push_back(sum);
    }
    bound = std::max(bound, LeastTime(job.num_micro_batches, per_piece));
  }
  return bound;
}

}  // namespace

Ticks LowerBound(const FlatJob& job) {
  const StageBounds bounds(job);
  Ticks bound = 0;
  if (job.num_stages != job.num_columns) {
    bound = ColumnWork(job);
    for (int i = 0; i < job.num_stages; ++i) bound = std::max(bound, bounds.Chain(i));
    return bound;
  }
  for (int i = 0; i < job.num_stages; ++i) {
    bound = std::max(bound, bounds.Staggered(i, job.LiveAt(i)));
    if (!job.staggered) bound = std::max(bound, bounds.Synchronous(i, job.LiveAt(i), true));
  }
  return bound;
}

Ticks MakespanLowerBound(const FlatJob& job) {
  const StageBounds bounds(job);
  Ticks bound = 0;
  Ticks optimizer = 0;
  for (int i = 0; i < job.num_stages; ++i) {
    optimizer = std::max(optimizer, job.stages[Index(i)].optimizer);
    bound = std::max(bound, job.num_stages == job.num_columns
                                ? bounds.Synchronous(i, job.LiveAt(i), false)
                                : bounds.Chain(i));
  }
  if (job.num_stages != job.num_columns) return std::max(bound, ColumnWork(job));
  return job.staggered ? bound : bound + optimizer;
}

Ticks StageLowerBound(const FlatJob& job, int stage, int live) {
  RC_CHECK(job.num_stages == job.num_columns);
  const StageBounds bounds(job);
  const Ticks staggered = bounds.Staggered(stage, live);
  if (job.staggered) return staggered;
  return std::max(staggered, bounds.Synchronous(stage, live, true));
}

}  // namespace recycle
