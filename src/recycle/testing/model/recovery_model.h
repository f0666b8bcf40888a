// A model of executors that recover: what they keep, do and promise, with hashes in place of
// tensors. Whatever a worker computes is compared at once with the run without failures, so an
// input that is lost, doubled, or mixed from two iterations shows where it is used. The
// coordinator's half is the real one: PlanResume, or the whole Coordinator.
//
// Steps are synchronous (nobody steps before the norm, which needs every stage's commit round) or
// staggered (a stage steps after its own commit round and keeps the bits of the version before
// until the next iteration's first I proves the old one closed).
//
//   RecoveryModel model(job, rules);
//   while (...) { model.Act(w); for (const auto& sent : model.TakeSent()) model.Deliver(sent); }
//   EXPECT_EQ(model.violation(), "");
//
// A value: copies are independent, so that searches can branch. Test-only.
#ifndef RECYCLE_TESTING_MODEL_RECOVERY_MODEL_H_
#define RECYCLE_TESTING_MODEL_RECOVERY_MODEL_H_

#include <array>
#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/plan/plan.h"
#include "recycle/protocol/messages.h"
#include "recycle/testing/model/model_job.h"

namespace recycle {

class RecoveryModel {
 public:
  static constexpr int kMaxMicroBatches = kModelMicroBatches;
  static constexpr int kMaxIterations = kModelIterations;

  RecoveryModel(const ModelJob& job, const BrokenRules& rules);

  struct Message {
    int from = 0;
    int to = 0;
    Generation generation;
    std::int32_t iteration = 0;
    BoundaryKind kind = BoundaryKind::kActivation;
    int micro_batch = 0;  // number
    std::uint64_t value = 0;
    std::uint64_t of = 0;  // gradients: the activation that the receiver had sent forward
  };

  int num_workers() const { return static_cast<int>(workers_.size()); }
  bool IsAlive(int worker) const { return At(worker).alive; }
  int version(int worker) const { return At(worker).version; }
  std::uint64_t params(int worker) const { return At(worker).params; }
  bool HasFinished(int worker) const;
  // The newest generation it has been prepared for; the one it runs.
  Generation promised(int worker) const { return Generation(At(worker).promised); }
  Generation running(int worker) const { return Generation(At(worker).running); }

  // Can the worker do the next thing of its queue now? One Act is an F, I or W, its share of a
  // round of the reduction, the norm's arrival, or a step.
  bool CanAct(int worker) const;
  void Act(int worker);
  // The next thing of its queue, whether or not it can run yet.
  std::optional<Action> Next(int worker) const;
  // What Act will complete: an F, I or W that is no regeneration.
  std::optional<Action> NextOwnAction(int worker) const;
  // What Act and Resume have sent since.
  std::vector<Message> TakeSent();
  void Deliver(const Message& message);

  void Kill(int worker);
  // A new process has the place: it begins as all did, at version 0.
  void Restart(int worker);
  // What a donor that stands still gives: its state at its newest step that is final.
  struct State {
    int version = 0;
    std::uint64_t params = 0;
  };
  State StateOf(int worker) const;
  // A joiner goes on from there; between Restart and its first Resume.
  void TakeOver(int worker, const State& state);
  // The next gradient that the worker sums does not fit its stage's quantum: it stops there, until
  // the next generation.
  void LetOutgrow(int worker) { At(worker).next_does_not_fit = true; }
  // Does somebody live who has stopped for that?
  bool HasOutgrown() const;
  // The worker stops, and promises; its ledger follows.
  void Prepare(int worker, Generation generation);
  Ledger MakeLedger(int worker) const;
  void Resume(int worker, const recycle::Resume& resume);

  // Messages in an inbox that no ledger has named yet: they may just as well not have arrived.
  struct Arrival {
    int worker = 0;
    std::int32_t iteration = 0;
    int micro_batch = 0;
    BoundaryKind kind = BoundaryKind::kActivation;
  };
  std::vector<Arrival> UnpromisedArrivals() const;
  void Lose(const Arrival& arrival);

  // The first thing that must never happen, or "".
  const std::string& violation() const { return violation_; }
  int num_regenerations() const { return num_regenerations_; }
  // Of everything that the future depends on.
  std::uint64_t Hash() const;
  // What every worker stands at, for people.
  std::string Describe() const;

 private:
  static constexpr int kStagePart = 0;
  static constexpr int kTiedPart = 1;

  static std::size_t IndexOf(BoundaryKind kind) { return static_cast<std::size_t>(kind); }
  static std::uint64_t Key(std::int64_t value) { return static_cast<std::uint64_t>(value); }
  static std::uint32_t Bit(int position) { return std::uint32_t{1} << position; }

  struct Tensor {
    std::uint64_t value = 0;  // 0: absent
    std::uint64_t of = 0;
    bool promised = false;  // inbox: a ledger has named it
  };
  // One micro-batch of one iteration on one worker.
  struct Cell {
    std::uint8_t done = 0;        // of F, I, W
    std::uint64_t stash = 0;      // F's input; 0: none
    std::uint64_t output = 0;     // F's result
    std::uint64_t gradient = 0;   // I's input
    std::array<Tensor, 2> inbox;  // by kind
    std::array<Tensor, 2> log;    // activation sent forward, gradient sent backward
  };
  struct Iteration {
    std::array<Cell, kMaxMicroBatches> cells;
    std::uint64_t sum = 0;  // of own W's
    std::uint64_t tied_sum = 0;
    std::uint32_t summed = 0;                    // micro-batches in it
    std::array<bool, 2> holds = {false, false};  // by part
    std::array<std::uint64_t, 2> reduced = {0, 0};
    bool has_undo = false;
    std::uint64_t undo = 0;
    bool has_norm = false;
    int quantum = 0;  // learnt; those of all who sum must be the same
  };
  // What a queue holds: an action of an iteration; for REDUCE_GRAD the parts and who hands over.
  struct Item {
    std::int32_t iteration = 0;
    Action action;
    int micro_batch = 0;
    bool regenerates = false;
    std::array<bool, 2> parts = {false, false};
    std::array<int, 2> hand_over = {-1, -1};
    std::array<int, 2> receivers = {-1, -1};  // of the activation, of the gradient
  };
  struct Worker {
    bool alive = true;
    std::int64_t promised = 0;
    std::int64_t running = 0;
    int version = 0;
    int first_kept = 0;  // older iterations are closed
    int joined_at = -1;  // version; -1: it did not
    std::uint64_t params = 0;
    std::array<Iteration, kMaxIterations> iterations;
    std::shared_ptr<const std::vector<Item>> queue;
    std::size_t head = 0;
    int part = 0;           // of the REDUCE_GRAD at the head: where it stands
    bool obtained = false;  // and whether it has that part's result
    bool next_does_not_fit = false;
    bool outgrown = false;  // its version's quantum
    std::vector<Message> early;
  };
  // A round of the running generation: one per iteration and stage, the last for the tied part.
  struct Round {
    std::uint32_t joined = 0;  // workers
    std::uint32_t obtained = 0;
    std::uint32_t summed = 0;  // micro-batches
    std::uint64_t sum = 0;
    int quantum = 0;  // of the first that has joined
  };
  const Worker& At(int worker) const { return workers_[static_cast<std::size_t>(worker)]; }
  Worker& At(int worker) { return workers_[static_cast<std::size_t>(worker)]; }
  int StageOf(int worker) const { return worker % job_.pipeline; }
  bool IsFirst(int worker) const { return StageOf(worker) == 0; }
  bool IsLast(int worker) const { return StageOf(worker) + 1 == job_.pipeline; }
  bool InTiedUnit(int worker) const {
    return job_.tied && job_.pipeline > 1 && (IsFirst(worker) || IsLast(worker));
  }
  int Numbered(MicroBatch b) const { return b.home.value() * job_.micro_batches + b.index; }
  Iteration& KeptOf(Worker& worker, std::int32_t iteration) {
    return worker.iterations[static_cast<std::size_t>(iteration)];
  }
  const Iteration& KeptOf(const Worker& worker, std::int32_t iteration) const {
    return worker.iterations[static_cast<std::size_t>(iteration)];
  }

  const Item* Head(const Worker& worker) const;
  // Those that were left behind have no part in the groups of a newer generation.
  bool InRounds(int worker) const { return At(worker).running == rounds_generation_; }
  bool HasInputs(int worker, const Item& item) const;
  void RunForward(int worker, const Item& item);
  void RunInput(int worker, const Item& item);
  void RunWeight(int worker, const Item& item);
  void Reduce(int worker, const Item& item);
  void MakeStep(int worker, const Item& item);
  void Advance(int worker);
  // Joins the round, or sends the norm's entry, that stands at the head now.
  void Arrive(int worker);
  Round& RoundOf(int worker, std::int32_t iteration, int part);
  const Round& RoundOf(int worker, std::int32_t iteration, int part) const;
  std::uint32_t GroupOf(int worker, int part) const;
  bool NormIsReady(std::int32_t iteration) const;
  void Close(int worker, int first_kept);

  void Learn(int worker, const Quantum& quantum);
  void Accept(int worker, const Message& message);
  void Send(int worker, const Item& item, BoundaryKind kind, std::uint64_t value, std::uint64_t of);
  std::uint64_t ParametersFor(int worker, const Item& item);
  std::vector<Item> QueueOf(int worker, const recycle::Resume& resume) const;
  void AppendQueue(int worker, const Plan& plan, std::int32_t iteration,
                   const std::vector<HandOver>& hand_overs, std::vector<Item>& queue) const;
  void Check(bool holds, int worker, const Item& item, const char* rule);
  void Violate(std::string what);

  ModelJob job_;
  BrokenRules rules_;
  std::shared_ptr<const UnharmedRun> expected_;
  std::vector<Worker> workers_;
  // Of the generation that runs: only when all have promised the next one does anybody run it.
  std::int64_t rounds_generation_ = 0;
  std::vector<Round> rounds_;
  std::vector<std::uint32_t> norm_entries_;  // by iteration: stages
  std::uint32_t members_ = 0;                // workers, of the running generation
  std::vector<Message> sent_;
  std::string violation_;
  int num_regenerations_ = 0;
};

}  // namespace recycle

#endif  // RECYCLE_TESTING_MODEL_RECOVERY_MODEL_H_
