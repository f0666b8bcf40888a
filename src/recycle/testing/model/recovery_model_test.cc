// The rules of recovery (docs/RECOVERY.md) against the real PlanResume and OrderRemainder: random
// runs, an exhaustive search of small jobs, the known ways to lose a run as scenarios, and proof
// that the checks bite: each rule switched off is found out.
#include "recycle/testing/model/recovery_model.h"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdio>
#include <functional>
#include <optional>
#include <unordered_set>

#include "recycle/testing/model/model_driver.h"

namespace recycle {
namespace {

using Arrival = RecoveryModel::Arrival;

std::string Name(const ModelJob& job) {
  return std::to_string(job.data) + "x" + std::to_string(job.pipeline) + " M" +
         std::to_string(job.micro_batches) + (job.staggered ? " staggered" : " synchronous") +
         (job.tied ? " tied" : "") + (job.rounding ? " rounding" : "") + " seed " +
         std::to_string(job.seed);
}

// Would every stage still have a live worker?
bool CanLose(const ModelJob& job, const RecoveryModel& model, const std::vector<int>& dead) {
  for (int stage = 0; stage < job.pipeline; ++stage) {
    int left = 0;
    for (int w = stage; w < model.num_workers(); w += job.pipeline) {
      left += model.IsAlive(w) && std::count(dead.begin(), dead.end(), w) == 0 ? 1 : 0;
    }
    if (left == 0) return false;
  }
  return true;
}

// --- random runs -----------------------------------------------------------------------------

struct Trouble {
  int regroups = 2;        // at random moments
  double lone_link = 0.2;  // a regroup without a death
  double outgrown = 0;     // somebody's gradient does not fit before one
};

// Plays `job` with `trouble`; what went wrong, or "".
std::string PlayRandomly(const ModelJob& job, const BrokenRules& rules, const Trouble& trouble,
                         std::uint64_t seed, std::int64_t* regenerations = nullptr) {
  Prng prng(HashKeys({seed, job.seed}));
  ModelDriver driver(job, rules);
  RecoveryModel model = driver.Start();
  const int acts = job.data * job.micro_batches * job.pipeline * job.iterations * 4;
  for (int i = 0; i < trouble.regroups; ++i) {
    const auto count = static_cast<std::uint64_t>(model.num_workers());
    if (trouble.outgrown > 0 && prng.Uniform() < trouble.outgrown) {
      model.LetOutgrow(static_cast<int>(prng.Below(count)));
    }
    driver.RunRandomly(model, prng, static_cast<int>(prng.Below(static_cast<std::uint64_t>(acts))));
    if (!driver.Problem(model).empty()) return driver.Problem(model);
    std::vector<int> dead;
    for (int most = 1 + static_cast<int>(prng.Below(2)); most > 0; --most) {
      if (prng.Uniform() < trouble.lone_link) continue;
      const int victim =
          static_cast<int>(prng.Below(static_cast<std::uint64_t>(model.num_workers())));
      if (!model.IsAlive(victim) || std::count(dead.begin(), dead.end(), victim) > 0) continue;
      dead.push_back(victim);
      if (!CanLose(job, model, dead)) dead.pop_back();
    }
    std::vector<Arrival> lost = model.UnpromisedArrivals();
    const double share = prng.Uniform();
    std::erase_if(lost, [&](const Arrival&) { return prng.Uniform() < share; });
    driver.Regroup(model, dead, lost);
    if (!driver.Problem(model).empty()) return driver.Problem(model);
  }
  driver.RunToEnd(model, prng);
  while (model.HasOutgrown()) {
    driver.Regroup(model, {}, {});
    driver.RunToEnd(model, prng);
  }
  if (regenerations != nullptr) *regenerations += model.num_regenerations();
  return driver.Problem(model);
}

std::vector<ModelJob> RandomJobs() {
  std::vector<ModelJob> jobs;
  for (const bool staggered : {false, true}) {
    for (const auto& [data, pipeline, micro_batches] :
         {std::tuple(2, 2, 1), {2, 2, 3}, {2, 3, 2}, {3, 2, 1}, {3, 3, 1}, {3, 3, 3}, {2, 4, 2}}) {
      ModelJob job{.data = data,
                   .pipeline = pipeline,
                   .micro_batches = micro_batches,
                   .iterations = 3,
                   .staggered = staggered};
      jobs.push_back(job);
      job.tied = true;
      jobs.push_back(job);
      job.tied = false;
      job.rounding = true;
      jobs.push_back(job);
    }
  }
  return jobs;
}

TEST(RecoveryModel, RandomRunsEndLikeTheRunWithoutFailures) {
  constexpr int kRuns = 400;
  std::int64_t regenerations = 0;
  for (ModelJob job : RandomJobs()) {
    for (int run = 0; run < kRuns; ++run) {
      job.seed = static_cast<std::uint64_t>(run / 4 + 1);
      const auto seed = static_cast<std::uint64_t>(run);
      ASSERT_EQ(PlayRandomly(job, {}, {.regroups = 1 + run % 3}, seed, &regenerations), "")
          << Name(job) << ", run " << seed;
    }
  }
  EXPECT_GT(regenerations, 0) << "the runs never come to the hard part";
  std::printf("%zu jobs x %d runs, %lld regenerated actions\n", RandomJobs().size(), kRuns,
              static_cast<long long>(regenerations));
}

// Reproducible sums: gradients that do not fit, at any moment, with deaths and without.
TEST(RecoveryModel, SumsThatAreMadeAgainEndLikeTheRunWithoutFailures) {
  constexpr int kRuns = 300;
  for (ModelJob job : RandomJobs()) {
    for (int run = 0; run < kRuns; ++run) {
      job.seed = static_cast<std::uint64_t>(run / 4 + 1);
      const auto seed = static_cast<std::uint64_t>(run);
      ASSERT_EQ(PlayRandomly(job, {}, {.regroups = 1 + run % 4, .outgrown = 0.7}, seed), "")
          << Name(job) << ", run " << seed;
    }
  }
}

// --- exhaustive search -----------------------------------------------------------------------

struct Search {
  ModelJob job;
  int kills = 1;
  bool to_the_end = true;  // false: after the last kill two random orders stand for all
  BrokenRules rules = {};
  std::size_t most_states = 1'000'000'000;
};

// Every interleaving of actions, of who obtains a result and who steps; kills of any one or two
// workers at any point; any subset of up to three messages on their way lost, beyond that none,
// all, each, or all but each.
class Explorer {
 public:
  explicit Explorer(const Search& search) : search_(search), driver_(search.job, search.rules) {}

  // What went wrong first, or "".
  std::string Run() {
    Push(driver_.Start(), search_.kills);
    while (!stack_.empty() && problem_.empty() && seen_.size() < search_.most_states) {
      const Node node = std::move(stack_.back());
      stack_.pop_back();
      for (const int worker : ModelDriver::Able(node.model)) {
        RecoveryModel next = node.model;
        ModelDriver::Act(next, worker);
        Push(std::move(next), node.kills);
      }
      if (node.kills > 0 && !driver_.IsOver(node.model)) BranchKills(node);
    }
    return problem_;
  }

  std::size_t num_states() const { return seen_.size(); }
  std::int64_t num_regroups() const { return driver_.num_regroups(); }

 private:
  struct Node {
    RecoveryModel model;
    int kills = 0;
  };

  void Push(RecoveryModel model, int kills) {
    if (!problem_.empty()) return;
    problem_ = driver_.Problem(model);
    if (!problem_.empty()) return;
    if (!seen_.insert(HashKeys({model.Hash(), static_cast<std::uint64_t>(kills)})).second) return;
    if (kills > 0 || search_.to_the_end) {
      stack_.push_back({std::move(model), kills});
      return;
    }
    for (const std::uint64_t order : {1, 2}) {
      RecoveryModel run = model;
      Prng prng(HashKeys({order, seen_.size()}));
      driver_.RunToEnd(run, prng);
      if (problem_.empty()) problem_ = driver_.Problem(run);
    }
  }

  void BranchKills(const Node& node) {
    for (int a = 0; a < node.model.num_workers(); ++a) {
      if (!node.model.IsAlive(a)) continue;
      BranchLosses(node, {a});
      for (int b = a + 1; node.kills > 1 && b < node.model.num_workers(); ++b) {
        if (node.model.IsAlive(b)) BranchLosses(node, {a, b});
      }
    }
  }

  void BranchLosses(const Node& node, const std::vector<int>& dead) {
    if (!CanLose(search_.job, node.model, dead)) return;
    std::vector<Arrival> arrivals = node.model.UnpromisedArrivals();
    std::erase_if(arrivals, [&](const Arrival& arrival) {
      return std::count(dead.begin(), dead.end(), arrival.worker) > 0;
    });
    const auto branch = [&](const std::function<bool(std::size_t)>& is_lost) {
      std::vector<Arrival> lost;
      for (std::size_t i = 0; i < arrivals.size(); ++i) {
        if (is_lost(i)) lost.push_back(arrivals[i]);
      }
      RecoveryModel next = node.model;
      driver_.Regroup(next, dead, lost);
      Push(std::move(next), node.kills - static_cast<int>(dead.size()));
    };
    const std::size_t count = arrivals.size();
    if (count <= 3) {
      for (std::size_t subset = 0; subset < std::size_t{1} << count; ++subset) {
        branch([subset](std::size_t i) { return (subset >> i & 1) != 0; });
      }
      return;
    }
    branch([](std::size_t) { return false; });
    branch([](std::size_t) { return true; });
    for (std::size_t one = 0; one < count; ++one) {
      branch([one](std::size_t i) { return i == one; });
      branch([one](std::size_t i) { return i != one; });
    }
  }

  const Search search_;
  ModelDriver driver_;
  std::vector<Node> stack_;
  std::unordered_set<std::uint64_t> seen_;
  std::string problem_;
};

TEST(RecoveryModel, ExhaustiveSearchFindsNothing) {
  const ModelJob small{.data = 2, .pipeline = 2, .micro_batches = 1};
  std::vector<Search> searches;
  for (const bool staggered : {false, true}) {
    ModelJob job = small;
    job.staggered = staggered;
    searches.push_back({.job = job, .kills = 1});
    for (job.seed = 1; job.seed <= 3; ++job.seed) {  // three plans
      searches.push_back({.job = job, .kills = 2, .to_the_end = false});
    }
    job.tied = true;
    searches.push_back({.job = job, .kills = 1});
    job.tied = false;
    job.micro_batches = 2;
    searches.push_back({.job = job, .kills = 1, .to_the_end = false});
  }
  std::size_t states = 0;
  for (const Search& search : searches) {
    Explorer explorer(search);
    ASSERT_EQ(explorer.Run(), "") << Name(search.job);
    std::printf("%s, %d kill(s): %zu states, %lld regroups\n", Name(search.job).c_str(),
                search.kills, explorer.num_states(),
                static_cast<long long>(explorer.num_regroups()));
    states += explorer.num_states();
  }
  std::printf("%zu states in all\n", states);
}

// --- scenarios: counterexamples against weaker rules -----------------------------------------

struct Moment {
  ModelJob job;
  RecoveryModel model;
  std::uint64_t seed = 0;
};

// The first moment of some random run (over seeds that also draw the plan) for which `is_it`.
std::optional<Moment> FindMoment(ModelJob job,
                                 const std::function<bool(const RecoveryModel&)>& is_it,
                                 const BrokenRules& rules = {}) {
  constexpr std::uint64_t kSeeds = 2000;
  for (std::uint64_t seed = 1; seed <= kSeeds; ++seed) {
    job.seed = seed;
    Prng prng(seed);
    ModelDriver driver(job, rules);
    RecoveryModel model = driver.Start();
    while (!driver.IsOver(model)) {
      if (is_it(model)) return Moment{job, model, seed};
      ModelDriver::RunRandomly(model, prng, 1);
    }
  }
  return std::nullopt;
}

const IterationLedger* Of(const Ledger& ledger, int iteration) {
  for (const IterationLedger& entry : ledger.iterations) {
    if (entry.iteration == iteration) return &entry;
  }
  return nullptr;
}
bool Holds(const RecoveryModel& model, int worker, int iteration) {
  const Ledger ledger = model.MakeLedger(worker);
  const IterationLedger* kept = Of(ledger, iteration);
  return ledger.version > iteration || (kept != nullptr && kept->holds_stage_part);
}
bool HasBegun(const RecoveryModel& model, int worker, int iteration, int micro_batch) {
  const Ledger ledger = model.MakeLedger(worker);
  const IterationLedger* kept = Of(ledger, iteration);
  return kept != nullptr && kept->progress.contains({PipelineId(micro_batch), 0});
}
// A gradient of iteration 0 on its way from worker `from` (M = 1).
std::optional<Arrival> GradientFrom(const RecoveryModel& model, int from) {
  for (const Arrival& arrival : model.UnpromisedArrivals()) {
    if (arrival.iteration == 0 && arrival.kind == BoundaryKind::kGradient &&
        HasBegun(model, from, 0, arrival.micro_batch)) {
      return arrival;
    }
  }
  return std::nullopt;
}

constexpr int k00 = 0, k01 = 1, k10 = 2, k11 = 3;  // workers of 2 x 2

class RecoveryScenario : public ::testing::TestWithParam<bool> {
 protected:
  ModelJob Job() const { return {.data = 2, .pipeline = 2, .staggered = GetParam()}; }
  static void ExpectGoodEnd(ModelDriver& driver, RecoveryModel& model, std::uint64_t seed) {
    Prng prng(seed);
    driver.RunToEnd(model, prng);
    EXPECT_EQ(driver.Problem(model), "") << "seed " << seed;
    EXPECT_TRUE(driver.IsOver(model));
  }
};

// 1:1 has run F I W of b and reduced with 0:1; its gradient has not arrived when it dies. Stage 1
// is committed, so b is not repeated there: 0:1 makes the gradient once more.
TEST_P(RecoveryScenario, AGradientLostBehindACommitIsRegenerated) {
  for (const BrokenRules& rules : {BrokenRules{}, BrokenRules{.no_regeneration = true}}) {
    const auto moment = FindMoment(
        Job(),
        [](const RecoveryModel& model) {
          return Holds(model, k01, 0) && model.version(k01) == 0 && GradientFrom(model, k11);
        },
        rules);
    ASSERT_TRUE(moment.has_value());
    ModelDriver driver(moment->job, rules);
    RecoveryModel model = moment->model;
    driver.Regroup(model, {k11}, {*GradientFrom(model, k11)});
    EXPECT_EQ(driver.decision().regenerated_actions, 2);
    const std::vector<Resend>& resends = driver.decision().open.front().resends;
    ASSERT_EQ(resends.size(), 1U) << "F's input, out of the log";
    EXPECT_EQ(resends[0].tensor.kind, BoundaryKind::kActivation);
    if (rules.no_regeneration) {
      Prng prng(moment->seed);
      driver.RunToEnd(model, prng);
      EXPECT_EQ(driver.Problem(model).substr(0, 8), "it hangs");
    } else {
      ExpectGoodEnd(driver, model, moment->seed);
    }
  }
}

// As before, but both members of stage 1 hold its gradient: the log of the activation must not go
// when its receiver has reduced.
TEST_P(RecoveryScenario, AnActivationIsKeptAfterItsReceiverHasReduced) {
  const auto moment = FindMoment(Job(), [](const RecoveryModel& model) {
    return Holds(model, k01, 0) && Holds(model, k11, 0) && model.version(k01) == 0 &&
           GradientFrom(model, k11).has_value();
  });
  ASSERT_TRUE(moment.has_value());
  ModelDriver driver(moment->job, {});
  RecoveryModel model = moment->model;
  driver.Regroup(model, {k11}, {*GradientFrom(moment->model, k11)});
  EXPECT_EQ(driver.decision().regenerated_actions, 2);
  ExpectGoodEnd(driver, model, moment->seed);
}

// 0:0 has its stage's gradient, 1:0 has only seen the error: 0:0 hands it over. If 0:0 dies instead
// (now, or before the hand-over), the stage is open again, and only what 0:0 had runs again.
TEST_P(RecoveryScenario, TheSoleHolderHandsOverOrItsStageIsOpenAgain) {
  const auto moment = FindMoment(Job(), [](const RecoveryModel& model) {
    return Holds(model, k00, 0) && !Holds(model, k10, 0) && HasBegun(model, k00, 0, 0);
  });
  ASSERT_TRUE(moment.has_value());
  ModelDriver driver(moment->job, {});
  RecoveryModel model = moment->model;
  EXPECT_EQ(model.version(k00), 0) << "nobody steps before all hold";
  driver.Regroup(model, {}, {});
  const OpenIteration& open = driver.decision().open.front();
  ASSERT_FALSE(open.hand_overs.empty());
  EXPECT_EQ(open.hand_overs[0].from, (WorkerId{PipelineId(0), StageId(0)}));
  RecoveryModel handed = model;
  ExpectGoodEnd(driver, handed, moment->seed);
  driver.Regroup(model, {k00}, {});
  EXPECT_TRUE(driver.decision().open.front().hand_overs.empty());
  const std::vector<StageId>& committed = driver.decision().open.front().rest->committed;
  EXPECT_EQ(std::count(committed.begin(), committed.end(), StageId(0)), 0);
  ExpectGoodEnd(driver, model, moment->seed);
}

// The sole holder must not walk on with its sum, whose bits the others may never see: it waits for
// the commit round, dies, and the others reduce anew to other bits.
TEST_P(RecoveryScenario, TheSoleHolderDoesNotWalkOn) {
  ModelJob job = Job();
  job.rounding = true;
  const auto moment = FindMoment(job, [](const RecoveryModel& model) {
    return Holds(model, k00, 0) && !Holds(model, k10, 0) && !model.CanAct(k00);
  });
  ASSERT_TRUE(moment.has_value());
  ModelDriver driver(moment->job, {});
  RecoveryModel model = moment->model;
  driver.Regroup(model, {k00}, model.UnpromisedArrivals());
  ExpectGoodEnd(driver, model, moment->seed);
}

// 0:0 waits in the all-reduce when 1:0 dies in it: its own sum is whole, and reduced once more. In
// place it would be a mixture.
TEST_P(RecoveryScenario, ABrokenAllReduceLeavesTheOwnSumWhole) {
  for (const BrokenRules& rules : {BrokenRules{}, BrokenRules{.in_place_all_reduce = true}}) {
    const auto moment = FindMoment(
        Job(),
        [](const RecoveryModel& model) {
          const auto next = model.Next(k00);
          return next && next->kind == ActionKind::kReduceGrad && !Holds(model, k00, 0) &&
                 HasBegun(model, k00, 0, 0) && !Holds(model, k10, 0);
        },
        rules);
    ASSERT_TRUE(moment.has_value());
    ModelDriver driver(moment->job, rules);
    RecoveryModel model = moment->model;
    driver.Regroup(model, {k10}, {});
    Prng prng(moment->seed);
    driver.RunToEnd(model, prng);
    EXPECT_EQ(driver.Problem(model).empty(), !rules.in_place_all_reduce) << driver.Problem(model);
  }
}

// The all-reduce of stage 0 is complete, 0:0 has only not heard of it. Once its ledger has said
// that it lacks the sum it must not obtain it any more.
TEST_P(RecoveryScenario, ALedgerIsAPromise) {
  const auto moment = FindMoment(Job(), [](const RecoveryModel& model) {
    const auto next = model.Next(k00);
    return next && next->kind == ActionKind::kReduceGrad && !Holds(model, k00, 0) &&
           model.CanAct(k00);
  });
  ASSERT_TRUE(moment.has_value());
  RecoveryModel model = moment->model;
  model.Prepare(k00, Generation(2));
  EXPECT_FALSE(model.CanAct(k00));
  ModelDriver driver(moment->job, {});
  driver.Regroup(model, {k11}, {});
  ExpectGoodEnd(driver, model, moment->seed);
}

// The first stage has resumed, and its activations reach the second before that has: they wait
// there.
TEST_P(RecoveryScenario, MessagesOfTheNextGenerationWait) {
  for (const bool dropped : {false, true}) {
    const BrokenRules rules{.early_messages_dropped = dropped};
    RecoveryModel model(Job(), rules);
    for (int w = 0; w < model.num_workers(); ++w) model.Prepare(w, Generation(1));
    recycle::Resume resume;
    resume.generation = Generation(1);
    resume.plan = std::make_shared<const Plan>(RandomWholePlan(Job(), {}, 1));
    for (const int first : {k00, k10}) {
      model.Resume(first, resume);
      ModelDriver::RunUntilStuck(model, first);
    }
    for (const int second : {k01, k11}) model.Resume(second, resume);
    Prng prng(1);
    ModelDriver driver(Job(), rules);
    driver.RunToEnd(model, prng);
    EXPECT_EQ(driver.IsOver(model), !dropped);
  }
}

// Stage 0 holds its own part but not the shared one when 1:1 dies: first and last stage are one
// unit and both open.
TEST_P(RecoveryScenario, TiedStagesAreDecidedAsOne) {
  ModelJob job = Job();
  job.tied = true;
  const auto moment = FindMoment(job, [](const RecoveryModel& model) {
    return Holds(model, k00, 0) && Holds(model, k10, 0) && !Holds(model, k01, 0) &&
           !Holds(model, k11, 0);
  });
  ASSERT_TRUE(moment.has_value());
  ModelDriver driver(moment->job, {});
  RecoveryModel model = moment->model;
  driver.Regroup(model, {k11}, {});
  EXPECT_TRUE(driver.decision().open.front().rest->committed.empty());
  ExpectGoodEnd(driver, model, moment->seed);
}

INSTANTIATE_TEST_SUITE_P(, RecoveryScenario, ::testing::Bool(), [](const auto& info) {
  return std::string(info.param ? "Staggered" : "Synchronous");
});

// --- the checks bite -------------------------------------------------------------------------

struct Mutation {
  const char* name;
  BrokenRules rules;
  ModelJob job;
  Trouble trouble = {};
};

TEST(RecoveryModel, EveryRuleSwitchedOffIsFoundOut) {
  const ModelJob synchronous{.data = 2, .pipeline = 2, .micro_batches = 2};
  ModelJob staggered = synchronous;
  staggered.staggered = true;
  ModelJob tied = synchronous;
  tied.tied = true;
  ModelJob rounding = staggered;
  rounding.rounding = true;
  const std::vector<Mutation> mutations = {
      {"no regeneration", {.no_regeneration = true}, synchronous},
      {"no regeneration, staggered", {.no_regeneration = true}, staggered},
      {"log dropped early", {.log_dropped_when_receiver_reduced = true}, synchronous},
      {"log dropped early, staggered", {.log_dropped_when_receiver_reduced = true}, staggered},
      {"undo dropped at the step", {.undo_dropped_at_step = true}, staggered},
      {"closed with the own step", {.reduced_dropped_at_step = true}, staggered},
      {"closed without commit round",
       {.reduced_dropped_at_step = true, .no_commit_round = true},
       staggered},
      {"no commit round", {.no_commit_round = true}, staggered},
      {"no commit round, rounding", {.no_commit_round = true}, rounding},
      {"all-reduce in place", {.in_place_all_reduce = true}, synchronous},
      {"ledger without promise", {.ledger_without_promise = true}, synchronous},
      {"ledger without promise, staggered", {.ledger_without_promise = true}, staggered},
      {"tied parts decided apart", {.tied_apart = true}, tied},
      {"outgrown sums kept", {.outgrown_sums_kept = true}, synchronous, {.outgrown = 0.7}},
  };
  constexpr std::uint64_t kRuns = 20'000;
  for (Mutation mutation : mutations) {
    std::string problem;
    std::uint64_t run = 0;
    for (; run < kRuns && problem.empty(); ++run) {
      mutation.job.seed = run / 4 + 1;
      problem = PlayRandomly(mutation.job, mutation.rules, mutation.trouble, run);
    }
    EXPECT_NE(problem, "") << mutation.name;
    std::printf("%s: found in run %llu: %s\n", mutation.name, static_cast<unsigned long long>(run),
                problem.substr(0, problem.find('\n')).c_str());
  }
}

}  // namespace
}  // namespace recycle
