// The whole control plane on virtual time: the real coordinator against executors of the recovery
// model. Random delays (each control stream keeps its order, data messages do not), kills at any
// moment, workers that freeze and wake, links that break with what is on them, control streams that
// are cut, lose what is on its way and repeat what nobody acknowledged, coordinators that die with
// all they know but the stored record and the results on disk, or that miss seconds by the clock.
// Places that died may come back: their agents start them anew, they copy the state of a donor,
// which may die, or the link break, and are admitted. Or workers of other stages take them. Checked
// as it goes: what nobody may ever see; at the end: the job is done with the parameters of a run
// without failures, or a stage has lost all its workers.
#include <gtest/gtest.h>

#include <algorithm>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <utility>
#include <vector>

#include "recycle/base/prng.h"
#include "recycle/coordinator/coordinator.h"
#include "recycle/planner/remainder.h"
#include "recycle/protocol/kept_messages.h"
#include "recycle/testing/model/recovery_model.h"

namespace recycle {
namespace {

using std::chrono::milliseconds;

struct World {
  ModelJob job;
  int kills = 0;
  int freezes = 0;
  int link_faults = 0;
  int coordinator_deaths = 0;
  int partitions = 0;  // of a worker from the coordinator
  int clock_jumps = 0;
  bool respawn = false;       // agents start their dead workers anew
  bool harm_returns = false;  // donors and coordinators die while somebody is taken back
  bool change_roles = false;  // workers take vacant places of other stages
  bool harm_changes = false;  // anybody dies meanwhile
  int action_ms = 40;         // at most
  BrokenRules rules = {};
};

class Simulation {
 public:
  Simulation(const World& world, std::uint64_t seed)
      : world_(world), prng_(seed), model_(world.job, world.rules) {
    coordinator_.emplace(Options(), Maker(), OrderRemainder, std::vector<std::string>{"w"});
    for (int w = 0; w < model_.num_workers(); ++w) {
      const WorkerId id = world.job.Worker(w);
      workers_[id].id = id;
    }
  }

  int num_rejoined() const { return num_rejoined_; }
  int num_role_changes() const { return num_role_changes_; }

  // Plays the job; the first thing that went wrong, or "".
  std::string Run() {
    Step(TimePassed{});
    for (auto& [id, worker] : workers_) {
      OnWorker(id, Random(300), [this](Worker& w) {
        w.joined = true;
        w.term = term_;
        w.connected = true;
        Say(w, Hello{w.id, w.life, Generation(0), 0});
        Beat(w);
      });
    }
    PlanTrouble(world_.kills, [this] { Kill(AnyWorker()); });
    PlanTrouble(world_.freezes, [this] { Freeze(AnyWorker()); });
    PlanTrouble(world_.link_faults, [this] { BreakLink(AnyWorker()); });
    PlanTrouble(world_.coordinator_deaths, [this] { KillCoordinator(); });
    PlanTrouble(world_.partitions, [this] { CutOff(AnyWorker()); });
    PlanTrouble(world_.clock_jumps, [this] { JumpClock(); });
    while (!end_ && problem_.empty() && now_ < TimePoint(std::chrono::minutes(5))) {
      const auto deadline = coordinator_ ? coordinator_->NextDeadline() : std::nullopt;
      if (deadline && *deadline <= events_.begin()->first) {
        now_ = std::max(now_, *deadline);
        Step(TimePassed{});
      } else {
        now_ = events_.begin()->first;
        const std::function<void()> event = std::move(events_.begin()->second);
        events_.erase(events_.begin());
        event();
      }
      Expect(model_.violation().empty(), model_.violation());
    }
    CheckEnd();
    return problem_;
  }

 private:
  // The joiner's side of a copy.
  struct Copy {
    std::int64_t transfer = 0;
    WorkerId donor;
    std::optional<RecoveryModel::State> state;  // has arrived: the donor stood still
  };
  struct Worker {
    WorkerId id;
    int life = 1;  // counts its processes: what is meant for an old one does not reach the new one
    bool alive = true;
    bool joined = false;
    bool frozen = false;
    bool busy = false;      // an Act is on its way
    Generation prepared;    // the newest it has heard of
    bool told_end = false;  // Finished is said in this generation
    int term = 0;           // of the coordinator it is, or was last, connected to
    bool connected = false;
    bool cut_off = false;  // from any coordinator
    int stream = 0;        // counts its connections: what is on an old one is lost
    KeptMessages kept;
    TimePoint up_until;  // nothing may overtake what arrives then
    TimePoint down_until;
    std::vector<std::function<void(Worker&)>> when_awake;
    std::map<int, std::set<Action>> completed;  // by iteration, regenerations apart
    std::optional<Generation> awaits_state_in;  // as a joiner
    bool is_member = false;                     // it has told a ledger
    bool joins = false;                         // its state is still to be taken over
    std::optional<Copy> copy;
    std::map<std::int64_t, WorkerId> gives;  // as a donor: the joiner, by transfer
    std::optional<int> compare_at;           // version
    std::optional<Drain> drain;              // is asked to leave
    bool departed = false;                   // and does nothing more in this generation
  };

  void Expect(bool holds, const std::string& what) {
    if (!holds && problem_.empty()) problem_ = what;
  }

  CoordinatorOptions Options() const {
    CoordinatorOptions options;
    options.parallel = world_.job.parallel();
    options.micro_batches = world_.job.micro_batches;
    options.iterations = world_.job.iterations;
    options.tied = world_.job.tied && !world_.rules.tied_apart;
    options.respawns = world_.respawn;
    return options;
  }
  MakePlanFunction Maker() const {
    return [job = world_.job,
            change_roles = world_.change_roles](const PlanQuestion& question) -> StatusOr<Plan> {
      std::uint64_t seed = job.seed;
      for (const WorkerId worker : question.failed) {
        seed = HashKeys({seed, static_cast<std::uint64_t>(job.Number(worker))});
      }
      Plan plan = RandomWholePlan(job, question.failed, seed);
      const std::vector<int> live = LivePerStage(job.parallel(), question.failed);
      const int fewest = *std::min_element(live.begin(), live.end());
      if (change_roles) plan.period = kTicksPerUnit / fewest;
      return plan;
    };
  }

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
    for (int i = 0; i < times; ++i) After(Random(2000), trouble);
  }
  // What a worker does: not at all once dead, later while frozen.
  void OnWorker(WorkerId id, Duration delay, std::function<void(Worker&)> act) {
    After(delay, [this, id, life = workers_.at(id).life, act = std::move(act)] {
      Worker& worker = workers_.at(id);
      if (!worker.alive || worker.life != life) return;
      if (worker.frozen) {
        worker.when_awake.push_back(act);
      } else {
        act(worker);
      }
    });
  }

  // --- executors
  void Say(Worker& worker, ExecutorMessage message) {
    worker.kept.OnSend(message);
    Upstream(worker, FromExecutor{worker.id, std::move(message)});
  }
  // What is on its way to a coordinator that dies is lost.
  void Upstream(Worker& worker, Event event) {
    if (!worker.connected) return;
    worker.up_until = std::max(worker.up_until, now_ + Random(5));
    const auto shared = std::make_shared<const Event>(std::move(event));
    After(worker.up_until - now_, [this, &worker, shared, stream = worker.stream] {
      if (coordinator_ && worker.term == term_ && worker.stream == stream) Step(*shared);
    });
  }
  // It has found the coordinator that leads now.
  void Reconnect(Worker& worker) {
    if (!coordinator_ || worker.cut_off || (worker.connected && worker.term == term_)) return;
    worker.term = term_;
    worker.connected = true;
    ++worker.stream;
    for (ExecutorMessage& message : worker.kept.Again()) {
      Upstream(worker, FromExecutor{worker.id, std::move(message)});
    }
  }
  void AgentSays(const Event& event) {
    agents_said_.push_back(event);
    if (coordinator_) Step(event);
  }
  void Beat(Worker& worker) {
    const int number = world_.job.Number(worker.id);
    Say(worker, Heartbeat{.generation = model_.running(number), .version = model_.version(number)});
    OnWorker(worker.id, milliseconds(200), [this](Worker& w) { Beat(w); });
  }

  // It stops, and answers, when the running action is over.
  void Hear(Worker& worker, const Prepare& prepare) {
    worker.prepared = prepare.generation;
    OnWorker(worker.id, Random(30), [this, prepare](Worker& w) {
      if (w.prepared != prepare.generation) return;
      if (w.joins) {
        w.awaits_state_in = w.prepared;
        TakeOver(w);
      } else {
        GiveState(w, prepare.members);
        Promise(w);
      }
    });
  }
  void Promise(Worker& worker) {
    const int number = world_.job.Number(worker.id);
    worker.is_member = true;
    model_.Prepare(number, worker.prepared);
    Say(worker, model_.MakeLedger(number));
  }
  void Hear(Worker& worker, const Resume& resume) {
    if (resume.generation != worker.prepared) return;
    model_.Resume(world_.job.Number(worker.id), resume);
    worker.told_end = false;
    worker.departed = false;
    if (resume.compare_state) worker.compare_at = resume.next_iteration + 1;
    Say(worker, Resumed{resume.generation});
    CarryMessages();
    WakeAll();
  }
  void Hear(Worker& worker, const Ask& ask) { Say(worker, StillHere{ask.nonce}); }
  void Hear(Worker& worker, const Fence& /*fence*/) {
    Expect(lost_.contains(worker.id) || !worker.is_member,
           "fenced though it is a member: " + ToString(worker.id));
    End(worker);
    if (world_.respawn) Reap(worker.id);
  }
  void Hear(Worker& /*worker*/, const StopRequest& /*request*/) {}
  void Hear(Worker& worker, const Leave& leave) {
    if (!leave.next) {
      worker.alive = false;
      return;
    }
    End(worker);
    StartAgain(*leave.next);
  }
  void Hear(Worker& /*worker*/, const Recorded& /*recorded*/) {}  // kept has heard it
  void Hear(Worker& worker, const Drain& drain) {
    Expect(drain.next.has_value(), "nobody leaves for good here: the transcripts have that");
    worker.drain = drain;
    WakeAll();
  }
  // Nobody keeps snapshots here: the transcripts of the coordinator have that.
  void Hear(Worker& worker, const SnapshotCounts& /*counts*/) {
    Expect(false, "a snapshot for " + ToString(worker.id));
  }

  void End(Worker& worker) {
    worker.alive = false;
    worker.gives.clear();
    model_.Kill(world_.job.Number(worker.id));
  }

  // --- coming back
  // Its agent finds it dead, and starts another process if it is to.
  void Reap(WorkerId id) {
    After(milliseconds(30) + Random(120), [this, id, life = workers_.at(id).life] {
      AgentSays(FromAgent{.message = ExecutorExited{.worker = id, .pid = life, .wait_status = 9}});
      if (world_.respawn) After(Random(400), [this, id] { StartAgain(id); });
    });
  }
  void StartAgain(WorkerId id) {
    Worker& worker = workers_.at(id);
    if (end_) return;
    Worker anew;
    anew.id = id;
    anew.life = worker.life + 1;
    anew.joined = true;
    anew.term = worker.term;
    anew.cut_off = worker.cut_off;
    anew.stream = worker.stream + 1;
    anew.up_until = anew.down_until = now_;
    anew.completed = std::move(worker.completed);  // its share may not be told yet
    anew.kept.OnSend(Hello{id, anew.life, Generation(0), 0});
    worker = std::move(anew);
    const int number = world_.job.Number(id);
    model_.Restart(number);
    std::erase_if(links_, [number](const auto& link) {
      return link.first.first == number || link.first.second == number;
    });
    OnWorker(id, Random(100), [this](Worker& w) {
      Reconnect(w);
      Beat(w);
    });
  }
  void Hear(Worker& worker, const Transfer& transfer) {
    const bool opens = transfer.donor_end.empty();
    if (opens && transfer.joiner == worker.id) {
      worker.joins = true;
      worker.copy = {.transfer = transfer.transfer, .donor = transfer.donor, .state = std::nullopt};
    } else if (opens) {
      worker.gives[transfer.transfer] = transfer.joiner;
    } else if (worker.copy && worker.copy->transfer == transfer.transfer && !Chance(0.1)) {
      return CopyState(worker);
    }
    if (opens) Say(worker, TransferOpened{transfer.transfer, ToString(worker.id)});
  }
  // In the background. It may break, and may never end.
  void CopyState(Worker& worker) {
    OnWorker(worker.id, Random(300), [this, transfer = worker.copy->transfer](Worker& w) {
      if (!w.copy || w.copy->transfer != transfer) return;
      if (!workers_.at(w.copy->donor).gives.contains(transfer) || Chance(0.2)) {
        Say(w, TransferBroken{transfer, "reset"});
      } else {
        Say(w, CaughtUp{transfer, 0, 1000, 1000});
      }
    });
  }
  // A donor that stands still gives the rest to those who are members now.
  void GiveState(Worker& donor, const std::vector<WorkerId>& members) {
    const RecoveryModel::State state = model_.StateOf(world_.job.Number(donor.id));
    for (const auto& [transfer, joiner] : donor.gives) {
      if (std::count(members.begin(), members.end(), joiner) == 0) continue;
      OnWorker(joiner, Random(20), [this, transfer = transfer, state](Worker& w) {
        if (!w.copy || w.copy->transfer != transfer) return;
        w.copy->state = state;
        TakeOver(w);
      });
    }
  }
  // Once it has heard of the generation, and the state is here: it is a worker like any other.
  void TakeOver(Worker& worker) {
    if (worker.awaits_state_in != worker.prepared || !worker.copy || !worker.copy->state) return;
    model_.TakeOver(world_.job.Number(worker.id), *worker.copy->state);
    worker.copy.reset();
    worker.joins = false;
    worker.completed.clear();
    Promise(worker);
  }
  void Hear(Worker& worker, const EndTransfer& end) {
    worker.gives.erase(end.transfer);
    if (!worker.copy || worker.copy->transfer != end.transfer) return;
    worker.copy.reset();
  }

  // Whoever can do something starts it.
  void WakeAll() {
    for (auto& [id, worker] : workers_) {
      const int number = world_.job.Number(id);
      if (!worker.alive || worker.busy) continue;
      if (model_.HasFinished(number) && !worker.told_end &&
          model_.promised(number) == model_.running(number)) {
        worker.told_end = true;
        Say(worker, Finished{.version = model_.version(number),
                             .parameter_sha256 = {{"w", "same on every stage"}}});
      }
      if (worker.drain && IsBetweenIterations(number)) Depart(worker);
      if (worker.departed || !model_.CanAct(number)) continue;
      worker.busy = true;
      OnWorker(id, Random(world_.action_ms), [this, number](Worker& w) {
        w.busy = false;
        if (model_.CanAct(number)) Act(w, number);
        WakeAll();
      });
    }
  }

  bool IsBetweenIterations(int number) const {
    if (model_.promised(number) != model_.running(number)) return false;
    const std::optional<Action> next = model_.NextOwnAction(number);
    if (!next || next->kind != ActionKind::kForward) return false;
    const Ledger ledger = model_.MakeLedger(number);
    return std::none_of(ledger.iterations.begin(), ledger.iterations.end(), [&](const auto& kept) {
      return kept.iteration == ledger.version && !kept.progress.empty();
    });
  }
  void Depart(Worker& worker) {
    worker.departed = true;
    harmed_.insert(worker.id);
    Say(worker, Departing{.version = model_.version(world_.job.Number(worker.id)),
                          .next = std::exchange(worker.drain, std::nullopt)->next});
  }

  void Act(Worker& worker, int number) {
    const int version = model_.version(number);
    const auto next = model_.NextOwnAction(number);
    model_.Act(number);
    if (next) worker.completed[version].insert(*next);
    if (model_.version(number) > version && worker.id.stage.value() + 1 == world_.job.pipeline) {
      IterationDone done;
      done.generation = model_.running(number);
      done.iteration = version;
      Say(worker, std::move(done));
    }
    if (worker.compare_at && model_.version(number) == *worker.compare_at) {
      Say(worker, StateHash{*worker.compare_at, model_.params(number)});
      worker.compare_at.reset();
    }
    CarryMessages();
  }

  void CarryMessages() {
    for (const RecoveryModel::Message& message : model_.TakeSent()) {
      After(Random(20), [this, message, from = LifeOf(message.from), to = LifeOf(message.to)] {
        // What the dead have sent may have arrived; what was on a broken link has not.
        const bool sender_lives = model_.IsAlive(message.from) && LifeOf(message.from) == from;
        if (LifeOf(message.to) != to || (!sender_lives && Chance(0.5))) return;
        if (IsCut(message)) return;
        model_.Deliver(message);
        WakeAll();
      });
    }
  }

  int LifeOf(int number) const { return workers_.at(world_.job.Worker(number)).life; }

  // A link that broke carries nothing until a generation makes it anew.
  bool IsCut(const RecoveryModel::Message& message) const {
    const auto link = links_.find(std::minmax(message.from, message.to));
    if (link == links_.end() || !link->second.broken) return false;
    const auto& [broken, relinked] = link->second;
    return !(*broken < relinked && relinked <= message.generation);
  }

  // --- trouble
  void Kill(WorkerId id) {
    Worker& worker = workers_.at(id);
    if (!worker.alive) return;
    End(worker);
    harmed_.insert(id);
    Upstream(worker, StreamClosed{id});
    for (auto& [peer, state] : workers_) {
      if (std::abs(peer.stage.value() - id.stage.value()) == 1 && Chance(0.7)) Accuse(peer, id);
    }
    if (worker.joined && Chance(0.2)) return;  // its agent tells nobody
    Reap(id);
  }
  void KillCoordinator() {
    if (!coordinator_ || end_) return;
    coordinator_.reset();
    After(milliseconds(20) + Random(400), [this] { StartCoordinator(); });
  }
  // It has the stored record, and what its predecessors have recorded.
  void StartCoordinator() {
    ++term_;
    accounts_whole_ = false;
    std::optional<Inheritance> inheritance;
    if (durable_) {
      inheritance = {.record = *durable_,
                     .told = told_,
                     .restored = false,
                     .iterations_done = announced_,
                     .last_loss = std::nullopt};
    }
    TakeRecord(durable_.value_or(GenerationRecord()));
    coordinator_.emplace(Options(), Maker(), OrderRemainder, std::vector<std::string>{"w"},
                         std::move(inheritance));
    Step(TimePassed{});
    for (auto& [id, worker] : workers_) {
      OnWorker(id, Random(100), [this](Worker& w) {
        if (w.joined) Reconnect(w);
      });
    }
    for (const Event& event : agents_said_) {
      After(Random(100), [this, event, term = term_] {
        if (coordinator_ && term == term_) Step(event);
      });
    }
  }
  // Its control stream breaks, and no other comes about for a while. The coordinator hears of the
  // break at once, later, or not before it is mended.
  void CutOff(WorkerId id) {
    Worker& worker = workers_.at(id);
    if (!worker.alive || !worker.joined || worker.cut_off) return;
    harmed_.insert(id);
    worker.connected = false;
    worker.cut_off = true;
    if (Chance(0.6)) {
      After(Random(100), [this, id, term = term_] {
        if (coordinator_ && term == term_ && workers_.at(id).cut_off) Step(StreamClosed{id});
      });
    }
    After(Random(Chance(0.8) ? 500 : 4000), [this, id] {
      Worker& w = workers_.at(id);
      w.cut_off = false;
      OnWorker(id, Random(50), [this](Worker& awake) { Reconnect(awake); });
    });
  }
  // Seconds are missing: nobody has run meanwhile, but the clock has.
  void JumpClock() {
    const Duration gap = milliseconds(500) + Random(5000);
    std::multimap<TimePoint, std::function<void()>> later;
    for (auto& [when, event] : events_) later.emplace(when + gap, std::move(event));
    events_ = std::move(later);
    now_ += gap;
    for (auto& [id, worker] : workers_) {
      worker.up_until += gap;
      worker.down_until += gap;
    }
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
    const auto runs = [this](WorkerId worker) {
      const int number = world_.job.Number(worker);
      return model_.IsAlive(number) && model_.running(number) > Generation(0);
    };
    for (const auto& [b, state] : workers_) {
      if (std::abs(a.stage.value() - b.stage.value()) != 1 || !Chance(0.5)) continue;
      if (!runs(a) || !runs(b)) continue;
      const int ends[] = {world_.job.Number(a), world_.job.Number(b)};
      links_[std::minmax(ends[0], ends[1])].broken =
          std::min(model_.running(ends[0]), model_.running(ends[1]));
      harmed_.insert(a);
      harmed_.insert(b);
      Accuse(a, b);
      if (Chance(0.5)) Accuse(b, a);
      return;
    }
  }
  void Accuse(WorkerId reporter, WorkerId accused) {
    OnWorker(reporter, Random(8), [this, accused](Worker& w) {
      const Generation running = model_.running(world_.job.Number(w.id));
      if (running.value() > 0) Say(w, LinkBroken{running, accused, "reset"});
    });
  }

  // --- the coordinator's side
  void Step(const Event& event) {
    if (const auto* from = std::get_if<FromExecutor>(&event)) {
      if (const auto* ledger = std::get_if<Ledger>(&from->message)) {
        received_[ledger->generation].insert(from->worker);
      }
    }
    for (const Effect& effect : coordinator_->Step(event, now_)) {
      std::visit([this](const auto& e) { Carry(e); }, effect);
    }
  }
  void HarmReturn() {
    const WorkerId donor = newest_.returning.begin()->second;
    if (Chance(0.3)) After(Random(300), [this, donor] { Kill(donor); });
    if (Chance(0.3)) After(Random(100), [this] { KillCoordinator(); });
  }
  void HarmRoleChange() {
    if (Chance(0.4)) After(Random(200), [this] { KillCoordinator(); });
    if (Chance(0.3)) After(Random(1000), [this] { Kill(AnyWorker()); });
    if (Chance(0.3)) After(Random(30000), [this] { Kill(AnyWorker()); });
  }
  void TakeRecord(const GenerationRecord& record) {
    newest_ = record;
    lost_.clear();
    if (record.generation == Generation(0)) return;  // there is none yet
    for (const auto& [id, worker] : workers_) {
      if (std::count(record.members.begin(), record.members.end(), id) == 0) lost_.insert(id);
    }
  }
  void Carry(const StoreRecord& store) {
    Expect(store.record.generation.value() == newest_.generation.value() + 1, "a gap in records");
    for (const LostWorker& lost : store.record.lost) {
      Expect(!lost_.contains(lost.worker), "lost twice: " + ToString(lost.worker));
      Expect(harmed_.contains(lost.worker), "nothing was wrong with " + ToString(lost.worker));
    }
    TakeRecord(store.record);
    if (world_.harm_returns && !newest_.returning.empty()) HarmReturn();
    // A write that is on its way when its coordinator dies may arrive, until another one leads.
    After(milliseconds(1) + Random(20), [this, record = newest_, term = term_] {
      if (term != term_) return;
      durable_ = record;
      stored_ = std::max(stored_, record.generation);
      if (coordinator_) Step(RecordStored{record.generation});
    });
  }
  void Carry(const SendTo& send) {
    if (const auto* prepare = std::get_if<Prepare>(&send.message)) {
      Expect(prepare->generation == newest_.generation, "Prepare of an old generation");
      Expect(stored_ >= prepare->generation, "told before it was stored");
      Expect(!lost_.contains(send.worker), "the dead are not asked");
      for (const auto& [a, b] : prepare->relinked) {
        links_[std::minmax(world_.job.Number(a), world_.job.Number(b))].relinked =
            prepare->generation;
      }
    }
    if (const auto* resume = std::get_if<Resume>(&send.message)) {
      telling_ = {resume->open, resume->next_iteration, resume->plan};
      Expect(resume->generation == newest_.generation, "Resume of an old generation");
      Expect(!lost_.contains(send.worker), "the dead do not resume");
      const std::set<WorkerId> members(newest_.members.begin(), newest_.members.end());
      Expect(received_[resume->generation] == members, "Resume before all ledgers");
      Expect(resume->plan->failed.size() == lost_.size(), "a plan for others");
    }
    const bool is_change = std::holds_alternative<Drain>(send.message);
    if (is_change && world_.harm_changes) After(Random(30000), [this] { HarmRoleChange(); });
    Worker& worker = workers_.at(send.worker);
    worker.down_until = std::max(worker.down_until, now_ + Random(5));
    OnWorker(send.worker, worker.down_until - now_,
             [this, message = send.message, stream = worker.stream, term = term_](Worker& w) {
               const bool is_open = w.connected && w.stream == stream && w.term == term;
               if (!is_open || term != term_) return;
               w.kept.OnReceive(message);
               std::visit([&](const auto& m) { Hear(w, m); }, message);
             });
  }
  void Carry(const AnnounceIteration& announce) {
    Expect(announce.done.iteration == announced_++, "an iteration out of order");
    if (!Chance(0.5)) return;
    for (const auto& [id, worker] : workers_) {
      if (id.stage.value() + 1 == world_.job.pipeline) {
        Carry(SendTo{id, Recorded{announce.done.iteration}});
      }
    }
  }
  // Whatever the dead had completed on a stage that is open now is told as their share.
  void Carry(const AnnounceResumed& resumed) {
    told_ = telling_;
    // A coordinator that has died may have told the workers since, and of losses.
    if (!std::exchange(accounts_whole_, true)) return;
    for (const LostShare& share : resumed.lost_shares) {
      Expect(lost_.contains(share.worker), "a share of the living");
      const std::set<Action> told(share.actions.begin(), share.actions.end());
      Expect(told.size() == share.actions.size(), "an action twice in a share");
      for (const Action& action : workers_.at(share.worker).completed[share.iteration]) {
        Expect(told.contains(action), "worker " + ToString(share.worker) + " had completed " +
                                          ToString(action) + ", which its share leaves out");
      }
    }
  }
  void Carry(const AnnounceRejoin& news) {
    if (news.what == AnnounceRejoin::What::kRejoined) ++num_rejoined_;
  }
  void Carry(const AnnounceRoleChange& /*change*/) {
    ++num_role_changes_;
    if (world_.harm_changes) HarmRoleChange();
  }
  void Carry(const EndJob& end) {
    Expect(!end_.has_value(), "ended twice");
    end_ = end;
  }
  template <typename Other>
  void Carry(const Other& /*effect*/) {}

  void CheckEnd() {
    if (!problem_.empty()) return;
    if (!end_ && coordinator_) {
      Expect(false, "it hangs: " + coordinator_->view().phase + ", " + coordinator_->view().reason +
                        "\n" + model_.Describe());
    }
    Expect(end_.has_value(), "it hangs without a coordinator");
    if (!end_) return;
    // Who has died, or was frozen, before there was a record is just somebody who does not come.
    if (end_->how == EndJob::How::kJoinTimeout && term_ > 1 && !durable_) return;
    int least_left = world_.job.data;
    for (int stage = 0; stage < world_.job.pipeline; ++stage) {
      const auto lost = std::count_if(lost_.begin(), lost_.end(), [&](WorkerId worker) {
        return worker.stage == StageId(stage);
      });
      least_left = std::min(least_left, world_.job.data - static_cast<int>(lost));
    }
    if (least_left == 0) {
      Expect(end_->how == EndJob::How::kStageLost, "lost a stage, but: " + end_->reason);
    } else {
      Expect(end_->how == EndJob::How::kDone, end_->reason);
      Expect(announced_ == world_.job.iterations, "iterations are missing");
    }
  }

  const World world_;
  Prng prng_;
  RecoveryModel model_;
  std::optional<Coordinator> coordinator_;  // absent: nobody leads
  int term_ = 1;
  std::optional<GenerationRecord> durable_;
  AssignedWork told_;     // when everybody had resumed last
  AssignedWork telling_;  // by the newest Resume
  bool accounts_whole_ = true;
  std::vector<Event> agents_said_;
  TimePoint now_;
  std::multimap<TimePoint, std::function<void()>> events_;
  std::map<WorkerId, Worker> workers_;
  std::map<Generation, std::set<WorkerId>> received_;
  struct LinkState {
    std::optional<Generation> broken;  // when it broke last
    Generation relinked;               // when it was made anew last
  };
  std::map<std::pair<int, int>, LinkState> links_;
  std::set<WorkerId> harmed_;
  std::set<WorkerId> lost_;
  GenerationRecord newest_;
  Generation stored_;
  int announced_ = 0;
  int num_rejoined_ = 0;
  int num_role_changes_ = 0;
  std::optional<EndJob> end_;
  std::string problem_;
};

struct Tally {
  int rejoined = 0;
  int role_changes = 0;
};
Tally RunMany(World world, std::uint64_t first_seed, int seeds) {
  Tally tally;
  for (const bool staggered : {false, true}) {
    world.job.staggered = staggered;
    for (std::uint64_t seed = first_seed; seed < first_seed + static_cast<std::uint64_t>(seeds);
         ++seed) {
      world.job.seed = seed;
      Simulation simulation(world, seed);
      const std::string problem = simulation.Run();
      EXPECT_EQ(problem, "") << "seed " << seed << (staggered ? ", staggered" : ", synchronous");
      if (!problem.empty()) return tally;
      tally.rejoined += simulation.num_rejoined();
      tally.role_changes += simulation.num_role_changes();
    }
  }
  return tally;
}

ModelJob Job(int data, int pipeline, int micro_batches) {
  return {.data = data, .pipeline = pipeline, .micro_batches = micro_batches, .iterations = 3};
}

TEST(ControlPlane, KillsAtAnyMomentEndWellOrWithALostStage) {
  RunMany({.job = Job(3, 2, 2), .kills = 3}, 1, 600);
  RunMany({.job = Job(2, 3, 2), .kills = 4}, 1000, 600);
  RunMany({.job = Job(5, 4, 1), .kills = 9}, 2000, 100);
}

TEST(ControlPlane, FrozenWorkersAreFencedAndTheRestGoesOn) {
  RunMany({.job = Job(3, 2, 2), .kills = 1, .freezes = 2}, 3000, 500);
}

TEST(ControlPlane, BrokenLinksNeverStopAJob) {
  RunMany({.job = Job(3, 3, 1), .kills = 1, .link_faults = 6}, 4000, 400);
  RunMany({.job = Job(1, 3, 3), .link_faults = 6}, 5000, 300);
}

TEST(ControlPlane, CoordinatorsDieAtAnyMomentAndTrainingGoesOn) {
  RunMany({.job = Job(3, 2, 2), .coordinator_deaths = 3}, 7000, 300);
  RunMany({.job = Job(3, 2, 2), .kills = 2, .coordinator_deaths = 2}, 8000, 600);
  RunMany({.job = Job(2, 3, 2), .kills = 3, .link_faults = 2, .coordinator_deaths = 3}, 9000, 400);
  RunMany({.job = Job(3, 2, 2), .kills = 1, .freezes = 1, .coordinator_deaths = 2}, 10000, 400);
}

TEST(ControlPlane, CutStreamsAreTakenUpAgain) {
  RunMany({.job = Job(3, 2, 2), .partitions = 4}, 11000, 500);
  RunMany({.job = Job(3, 2, 2), .kills = 1, .coordinator_deaths = 1, .partitions = 3}, 12000, 500);
  RunMany({.job = Job(2, 3, 2), .kills = 1, .link_faults = 2, .partitions = 3}, 13000, 300);
}

TEST(ControlPlane, MissingSecondsKillNobody) {
  RunMany({.job = Job(3, 2, 2), .clock_jumps = 3}, 14000, 300);
  RunMany({.job = Job(3, 2, 2), .kills = 2, .coordinator_deaths = 1, .clock_jumps = 2}, 15000, 300);
}

TEST(ControlPlane, TiedStagesAreOneUnit) {
  World world{.job = Job(3, 3, 1), .kills = 4};
  world.job.tied = true;
  RunMany(world, 6000, 500);
}

TEST(ControlPlane, WorkersComeBack) {
  World world{.job = Job(2, 2, 2), .kills = 3, .respawn = true, .action_ms = 150};
  EXPECT_GT(RunMany(world, 40000, 600).rejoined, 600);
  world.job = Job(3, 2, 2);
  world.kills = 5;
  world.freezes = 1;
  EXPECT_GT(RunMany(world, 41000, 600).rejoined, 1200);
  world.link_faults = 1;
  world.coordinator_deaths = 2;
  world.partitions = 1;
  EXPECT_GT(RunMany(world, 42000, 1000).rejoined, 1500);
}

TEST(ControlPlane, ReturnsAreHarmedWhereItHurts) {
  World world{.job = Job(4, 2, 2), .kills = 2, .respawn = true, .harm_returns = true};
  world.action_ms = 150;
  EXPECT_GT(RunMany(world, 43000, 1000).rejoined, 1000);
}

// Iterations of half a minute: places are deserted before the job is over.
TEST(ControlPlane, WorkersTakeVacantPlacesOfOtherStages) {
  World world{.job = Job(3, 2, 2), .kills = 3, .change_roles = true, .action_ms = 2000};
  const Tally calm = RunMany(world, 44000, 300);
  EXPECT_GT(calm.role_changes, 50);
  EXPECT_GT(calm.rejoined, 30);
  world.harm_changes = true;
  EXPECT_GT(RunMany(world, 45000, 600).role_changes, 100);
  world.job = Job(4, 2, 2);
  world.link_faults = 1;
  world.partitions = 1;
  EXPECT_GT(RunMany(world, 46000, 600).role_changes, 100);
}

TEST(ControlPlane, EverythingAtOnce) {
  World world{.job = Job(4, 2, 2), .kills = 2, .freezes = 1, .link_faults = 2};
  world.coordinator_deaths = 1;
  world.partitions = 2;
  world.clock_jumps = 1;
  RunMany(world, 20000, 2500);
  world.job = Job(3, 3, 1);
  RunMany(world, 30000, 1500);
}

// Rules between generations, switched off, are found out.
TEST(ControlPlane, TheChecksBite) {
  const BrokenRules broken[] = {{.ledger_without_promise = true}, {.early_messages_dropped = true}};
  for (const BrokenRules& rules : broken) {
    std::string problem;
    for (std::uint64_t seed = 1; seed <= 1000 && problem.empty(); ++seed) {
      World world{.job = Job(3, 2, 2), .kills = 2, .link_faults = 2, .rules = rules};
      world.job.seed = seed;
      problem = Simulation(world, seed).Run();
    }
    EXPECT_NE(problem, "");
  }
}

}  // namespace
}  // namespace recycle
