// The coordinator against simulated executors on virtual time: random delays (each stream keeps its
// order), kills at any moment, workers that freeze and wake, links that break. Checked as it goes:
// what nobody may ever see; at the end: the job is done, or a stage has lost all its workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "recycle/base/prng.h"
#include "recycle/coordinator/coordinator.h"
#include "recycle/coordinator/testing_plan.h"

namespace recycle {
namespace {

using std::chrono::milliseconds;

struct World {
  int data = 3;
  int pipeline = 2;
  int iterations = 30;
  int kills = 0;
  int freezes = 0;
  int link_faults = 0;
};

class Simulation {
 public:
  Simulation(const World& world, std::uint64_t seed)
      : world_(world), prng_(seed), coordinator_(Options(), Maker(), OrderByMicroBatch, {"w"}) {
    for (int k = 0; k < world.data; ++k) {
      for (int i = 0; i < world.pipeline; ++i) {
        const WorkerId id{PipelineId(k), StageId(i)};
        workers_[id].id = id;
      }
    }
  }

  void Run() {
    Step(TimePassed{});
    for (auto& [id, worker] : workers_) {
      OnWorker(id, Random(300), [this](Worker& w) {
        w.joined = true;
        Say(w, Hello{w.id, 1});
        Beat(w);
      });
    }
    PlanTrouble(world_.kills, [this] { Kill(AnyWorker()); });
    PlanTrouble(world_.freezes, [this] { Freeze(AnyWorker()); });
    PlanTrouble(world_.link_faults, [this] { BreakLink(AnyWorker()); });
    while (!end_ && now_ < TimePoint(std::chrono::minutes(10))) {
      const auto deadline = coordinator_.NextDeadline();
      if (deadline && *deadline <= events_.begin()->first) {
        now_ = std::max(now_, *deadline);
        Step(TimePassed{});
      } else {
        now_ = events_.begin()->first;
        const std::function<void()> event = std::move(events_.begin()->second);
        events_.erase(events_.begin());
        event();
      }
    }
    CheckEnd();
  }

 private:
  struct Worker {
    WorkerId id;
    bool alive = true;
    bool joined = false;
    bool frozen = false;
    Generation promised;
    Generation running;
    int version = 0;
    bool holds_norm = false;
    bool holds = false;
    std::vector<WorkerId> members;
    TimePoint up_until;  // nothing may overtake what arrives then
    TimePoint down_until;
    std::vector<std::function<void(Worker&)>> when_awake;
  };

  CoordinatorOptions Options() const {
    CoordinatorOptions options;
    options.parallel = {.data = world_.data, .pipeline = world_.pipeline};
    options.iterations = world_.iterations;
    return options;
  }
  MakePlanFunction Maker() const { return PlanMaker(Options().parallel, 1); }

  // --- time and chance
  Duration Random(int most_ms) {
    return std::chrono::microseconds(prng_.Below(static_cast<std::uint64_t>(most_ms) * 1000));
  }
  bool Chance(double probability) { return prng_.Uniform() < probability; }
  WorkerId AnyWorker() {
    auto worker = workers_.begin();
    std::advance(worker, prng_.Below(workers_.size()));
    return worker->first;
  }
  void After(Duration delay, std::function<void()> event) {
    events_.emplace(now_ + delay, std::move(event));
  }
  void PlanTrouble(int times, const std::function<void()>& trouble) {
    for (int i = 0; i < times; ++i) After(Random(3000), trouble);
  }
  // What a worker does: not at all once dead, later while frozen.
  void OnWorker(WorkerId id, Duration delay, std::function<void(Worker&)> act) {
    After(delay, [this, id, act = std::move(act)] {
      Worker& worker = workers_.at(id);
      if (!worker.alive) return;
      if (worker.frozen) {
        worker.when_awake.push_back(act);
      } else {
        act(worker);
      }
    });
  }

  // --- executors
  void Say(Worker& worker, ExecutorMessage message) {
    Upstream(worker, FromExecutor{worker.id, std::move(message)});
  }
  void Upstream(Worker& worker, Event event) {
    worker.up_until = std::max(worker.up_until, now_ + Random(5));
    After(worker.up_until - now_, [this, event = std::move(event)] { Step(event); });
  }
  void Beat(Worker& worker) {
    Say(worker, Heartbeat{.generation = worker.running, .version = worker.version});
    OnWorker(worker.id, milliseconds(200), [this](Worker& w) { Beat(w); });
  }

  void Hear(Worker& worker, const Prepare& prepare) {
    worker.promised = prepare.generation;
    OnWorker(worker.id, Random(30), [this, g = prepare.generation](Worker& w) {
      if (w.promised != g) return;
      Ledger ledger;
      ledger.generation = g;
      ledger.version = w.version;
      ledger.holds_norm = w.holds_norm;
      const auto barrier = barriers_.find({w.running, w.version});
      w.holds |= barrier != barriers_.end() && barrier->second.size() == w.members.size();
      if (w.holds) {
        IterationLedger& kept = ledger.iterations.emplace_back();
        kept.iteration = w.version;
        kept.holds_stage_part = true;
      }
      Say(w, std::move(ledger));
    });
  }
  void Hear(Worker& worker, const Resume& resume) {
    if (resume.generation != worker.promised) return;
    worker.running = resume.generation;
    worker.members.clear();
    for (const WorkerSchedule& entry : resume.plan->workers) worker.members.push_back(entry.worker);
    Say(worker, Resumed{resume.generation});
    if (resume.open.empty()) {
      EXPECT_FALSE(worker.holds_norm) << "it has the norm, and must start again";
      Work(worker);
    } else {
      Arrive(worker, resume.open.front().iteration);
    }
  }
  void Hear(Worker& worker, const Ask& ask) { Say(worker, StillHere{ask.nonce}); }
  void Hear(Worker& worker, const Fence& /*fence*/) {
    EXPECT_TRUE(lost_.contains(worker.id));
    worker.alive = false;
  }
  void Hear(Worker& /*worker*/, const StopRequest& /*request*/) {}
  void Hear(Worker& worker, const Leave& /*leave*/) { worker.alive = false; }

  void Work(Worker& worker) {
    if (worker.version == world_.iterations) {
      Say(worker, Finished{.version = worker.version,
                           .parameter_sha256 = {{"w", std::to_string(worker.version)}}});
      return;
    }
    OnWorker(worker.id, Random(60), [this, g = worker.running](Worker& w) {
      if (w.promised == g) Arrive(w, w.version);
    });
  }
  // All members reduce and exchange the norm of `iteration`; then each steps when it gets to it.
  void Arrive(const Worker& worker, int iteration) {
    const Generation g = worker.running;
    std::set<WorkerId>& arrived = barriers_[{g, iteration}];
    arrived.insert(worker.id);
    if (arrived.size() < worker.members.size()) return;
    for (const WorkerId member : worker.members) {
      OnWorker(member, Random(20), [this, g, iteration](Worker& w) {
        if (w.promised != g) return;
        if (w.version > iteration) return Work(w);  // it had stepped before
        w.holds_norm = true;
        OnWorker(w.id, Random(20), [this, g](Worker& stepping) { MakeStep(stepping, g); });
      });
    }
  }
  void MakeStep(Worker& worker, Generation generation) {
    if (worker.promised != generation) return;
    worker.holds_norm = false;
    worker.holds = false;
    IterationDone done{.generation = generation,
                       .iteration = worker.version++,
                       .results = {},
                       .validation_loss = {}};
    if (worker.id.stage.value() == world_.pipeline - 1) Say(worker, std::move(done));
    Work(worker);
  }

  // --- trouble
  void Kill(WorkerId id) {
    Worker& worker = workers_.at(id);
    if (!worker.alive) return;
    worker.alive = false;
    harmed_.insert(id);
    Upstream(worker, StreamClosed{id});
    for (auto& [peer, state] : workers_) {
      if (std::abs(peer.stage.value() - id.stage.value()) == 1 && Chance(0.7)) Accuse(peer, id);
    }
    if (worker.joined && Chance(0.2)) return;  // its agent tells nobody
    After(milliseconds(30) + Random(120), [this, id] {
      Step(FromAgent{.message = ExecutorExited{.worker = id, .pid = 1, .wait_status = 9}});
    });
  }
  void Freeze(WorkerId id) {
    Worker& worker = workers_.at(id);
    if (!worker.joined) return;
    worker.frozen = true;
    harmed_.insert(id);
    if (!Chance(0.6)) return;
    After(Random(5000), [this, id] {
      Worker& w = workers_.at(id);
      w.frozen = false;
      for (const auto& act : std::exchange(w.when_awake, {})) {
        if (w.alive) act(w);
      }
    });
  }
  void BreakLink(WorkerId a) {
    for (const auto& [b, state] : workers_) {
      if (std::abs(a.stage.value() - b.stage.value()) != 1 || !Chance(0.5)) continue;
      harmed_.insert(a);
      harmed_.insert(b);
      Accuse(a, b);
      if (Chance(0.5)) Accuse(b, a);
      return;
    }
  }
  void Accuse(WorkerId reporter, WorkerId accused) {
    OnWorker(reporter, Random(8), [this, accused](Worker& w) {
      if (w.running.value() > 0) Say(w, LinkBroken{w.running, accused, "reset"});
    });
  }

  // --- the coordinator's side
  void Step(const Event& event) {
    if (const auto* from = std::get_if<FromExecutor>(&event)) {
      if (const auto* ledger = std::get_if<Ledger>(&from->message)) {
        received_[ledger->generation].insert(from->worker);
      }
    }
    for (const Effect& effect : coordinator_.Step(event, now_)) {
      std::visit([this](const auto& e) { Carry(e); }, effect);
    }
  }
  void Carry(const StoreRecord& store) {
    EXPECT_EQ(store.record.generation.value(), newest_.generation.value() + 1);
    newest_ = store.record;
    for (const LostWorker& lost : newest_.lost) {
      EXPECT_TRUE(lost_.insert(lost.worker).second) << "lost twice: " << lost.worker;
      EXPECT_TRUE(harmed_.contains(lost.worker)) << "nothing was wrong with " << lost.worker;
    }
    After(milliseconds(1) + Random(20), [this, g = newest_.generation] {
      stored_ = std::max(stored_, g);
      Step(RecordStored{g});
    });
  }
  void Carry(const SendTo& send) {
    if (const auto* prepare = std::get_if<Prepare>(&send.message)) {
      EXPECT_EQ(prepare->generation, newest_.generation);
      EXPECT_GE(stored_, prepare->generation) << "told before it was stored";
      EXPECT_FALSE(lost_.contains(send.worker));
    }
    if (const auto* resume = std::get_if<Resume>(&send.message)) {
      EXPECT_EQ(resume->generation, newest_.generation);
      EXPECT_FALSE(lost_.contains(send.worker)) << "the dead do not resume";
      const std::set<WorkerId> members(newest_.members.begin(), newest_.members.end());
      EXPECT_EQ(received_[resume->generation], members) << "Resume before all ledgers";
      EXPECT_EQ(resume->plan->failed.size(), lost_.size());
    }
    Worker& worker = workers_.at(send.worker);
    worker.down_until = std::max(worker.down_until, now_ + Random(5));
    OnWorker(send.worker, worker.down_until - now_, [this, message = send.message](Worker& w) {
      std::visit([&](const auto& m) { Hear(w, m); }, message);
    });
  }
  void Carry(const AnnounceIteration& announce) {
    EXPECT_EQ(announce.done.iteration, announced_++);
  }
  void Carry(const AnnounceResumed& resumed) { EXPECT_LE(resumed.iteration, world_.iterations); }
  void Carry(const EndJob& end) {
    EXPECT_FALSE(end_.has_value()) << "ended twice";
    end_ = end;
  }
  template <typename Other>
  void Carry(const Other& /*effect*/) {}

  void CheckEnd() {
    ASSERT_TRUE(end_.has_value()) << "it hangs: " << coordinator_.view().phase << ", "
                                  << coordinator_.view().reason;
    int least_left = world_.data;
    for (int stage = 0; stage < world_.pipeline; ++stage) {
      const auto lost = std::count_if(lost_.begin(), lost_.end(), [&](WorkerId worker) {
        return worker.stage == StageId(stage);
      });
      least_left = std::min(least_left, world_.data - static_cast<int>(lost));
    }
    if (least_left == 0) {
      EXPECT_EQ(end_->how, EndJob::How::kStageLost) << end_->reason;
    } else {
      EXPECT_EQ(end_->how, EndJob::How::kDone) << end_->reason;
      EXPECT_EQ(announced_, world_.iterations);
    }
  }

  const World world_;
  Prng prng_;
  Coordinator coordinator_;
  TimePoint now_;
  std::multimap<TimePoint, std::function<void()>> events_;
  std::map<WorkerId, Worker> workers_;
  std::map<std::pair<Generation, int>, std::set<WorkerId>> barriers_;
  std::map<Generation, std::set<WorkerId>> received_;
  std::set<WorkerId> harmed_;
  std::set<WorkerId> lost_;
  GenerationRecord newest_;
  Generation stored_;
  int announced_ = 0;
  std::optional<EndJob> end_;
};

void RunMany(const World& world, std::uint64_t first_seed, int seeds) {
  for (std::uint64_t seed = first_seed; seed < first_seed + static_cast<std::uint64_t>(seeds);
       ++seed) {
    SCOPED_TRACE(testing::Message() << "seed " << seed);
    Simulation(world, seed).Run();
    if (testing::Test::HasFailure()) return;
  }
}

TEST(CoordinatorSimulation, KillsAtAnyMomentEndWellOrWithALostStage) {
  RunMany({.data = 3, .pipeline = 2, .kills = 3}, 1, 150);
  RunMany({.data = 2, .pipeline = 3, .kills = 4}, 1000, 100);
  RunMany({.data = 5, .pipeline = 4, .kills = 9}, 2000, 50);
}

TEST(CoordinatorSimulation, FrozenWorkersAreFencedAndTheRestGoesOn) {
  RunMany({.data = 3, .pipeline = 2, .kills = 1, .freezes = 2}, 3000, 150);
}

TEST(CoordinatorSimulation, BrokenLinksNeverStopAJob) {
  RunMany({.data = 3, .pipeline = 3, .kills = 1, .link_faults = 6}, 4000, 150);
  RunMany({.data = 1, .pipeline = 3, .link_faults = 6}, 5000, 50);
}

}  // namespace
}  // namespace recycle
