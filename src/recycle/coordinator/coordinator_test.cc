// Scenarios of the coordinator as transcripts: testdata/*.txt hold what is told to it ("> " lines)
// and what it does about it (indented lines). RECYCLE_REWRITE=1 writes them anew; a reviewer reads
// the difference.
//
// Between events the workers that live send heartbeats every 200 ms until `freeze`, and TimePassed
// is sent whenever the coordinator's deadline is due: the transcripts show only what comes of it.
#include "recycle/coordinator/coordinator.h"

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <set>
#include <sstream>

#include "recycle/base/check.h"
#include "recycle/coordinator/testing_plan.h"

namespace recycle {
namespace {

constexpr Duration kHeartbeat = std::chrono::milliseconds(200);
const std::filesystem::path kFolder = "src/recycle/coordinator/testdata";

Heartbeat Beat(int version) {
  return {.generation = Generation(1), .version = version, .peak_bytes = 1000};
}

Ledger MakeLedger(Generation generation, int version) {
  Ledger ledger;
  ledger.generation = generation;
  ledger.version = version;
  return ledger;
}

// --- effects as text

std::string Text(const Prepare& m) {
  std::string text = fmt::format("prepare g{}", m.generation.value());
  if (!m.dead.empty()) text += " dead " + ToString(m.dead);
  for (const auto& [a, b] : m.relinked) text += " relink " + ToString(a) + "-" + ToString(b);
  if (m.restore) {
    text += fmt::format(" restore {}{}", *m.restore, m.from_memory ? " from memory" : "");
  }
  return text;
}
std::string Text(const Resume& m) {
  std::string text = fmt::format("resume g{}:", m.generation.value());
  for (const OpenIteration& open : m.open) {
    text += fmt::format(" the rest of iteration {},", open.iteration);
    for (const auto& [tensor, from, to] : open.resends) {
      text += fmt::format(" {} {} again from {} to {},",
                          tensor.kind == BoundaryKind::kActivation ? "activation" : "gradient",
                          ToString(tensor.micro_batch), ToString(from), ToString(to));
    }
    for (const HandOver& hand_over : open.hand_overs) {
      text +=
          fmt::format(" {} part from {},", hand_over.part == ReducedPart::kStage ? "stage" : "tied",
                      ToString(hand_over.from));
    }
  }
  text += fmt::format(" iteration {} whole", m.next_iteration);
  for (const Verdict& verdict : m.verdicts) {
    text += fmt::format(", iteration {} {}", verdict.iteration,
                        verdict.corrects ? "is stepped again" : "is right");
  }
  for (const Quantum& quantum : m.quanta) {
    text += fmt::format(", stage {} sums iteration {} by 2^{}", quantum.stage.value(),
                        quantum.iteration, quantum.exponent);
  }
  if (m.repeat_validation) text += ", validation again";
  return m.compare_state ? text + ", compare the state" : text;
}
std::string Text(const Ask& m) { return fmt::format("ask {}", m.nonce); }
std::string Text(const Fence& m) { return "fence (" + m.reason + ")"; }
std::string Text(const StopRequest& /*m*/) { return "stop request"; }
std::string Text(const Leave& m) {
  return m.next ? "become " + ToString(*m.next) : std::string("leave");
}
std::string Text(const Transfer& m) {
  std::string text =
      fmt::format("copy {} from {} to {}", m.transfer, ToString(m.donor), ToString(m.joiner));
  if (m.snapshot) {
    text += fmt::format(" of stage {}'s snapshot{}", m.snapshot->stage.value(),
                        m.snapshot->version ? fmt::format(" {}", *m.snapshot->version) : "s");
  }
  return m.donor_end.empty() ? text + ": open" : text + ": begin";
}
std::string Text(const EndTransfer& m) { return fmt::format("copy {} ends", m.transfer); }
std::string Text(const Drain& m) {
  return m.next ? "drain for " + ToString(*m.next) : std::string("drain");
}
std::string Text(const Recorded& m) { return fmt::format("recorded {}", m.iteration); }

std::string Text(const SnapshotCounts& m) { return fmt::format("snapshot {} counts", m.version); }

std::string Text(const StoreRecord& e) {
  std::string text = fmt::format("store g{}: {}", e.record.generation.value(), e.record.reason);
  for (const LostWorker& lost : e.record.lost) {
    text +=
        fmt::format("\n      lost {}: {}, detected by {}, first sign at {:.0f} ms, iteration {}",
                    ToString(lost.worker), CauseText(lost.cause), lost.detected_by,
                    ToMilliseconds(lost.first_signal.time_since_epoch()), lost.iteration);
  }
  return text;
}
std::string Text(const AnnounceResumed& e) {
  std::string text =
      fmt::format("all resumed g{} {:.0f} ms after the decision: iteration {}",
                  e.generation.value(), ToMilliseconds(e.since_decision), e.iteration);
  for (const LostShare& share : e.lost_shares) {
    text += fmt::format("\n      {} leaves of iteration {}{}: {}", ToString(share.worker),
                        share.iteration, share.ahead ? " (if it had begun it)" : "",
                        ToString(share.actions));
  }
  for (const auto& [worker, number] : e.rerouted_to) {
    text += fmt::format("\n      micro-batches to {}: {}", ToString(worker), number);
  }
  if (e.regenerated_actions > 0) {
    text += fmt::format("\n      regenerated actions: {}", e.regenerated_actions);
  }
  return text;
}
std::string Text(const AnnounceIteration& e) {
  return fmt::format("iteration {} done, {} workers, peak of stage 0: {} bytes", e.done.iteration,
                     e.workers_live, e.peak_bytes.at(0));
}
std::string Text(const AnnounceJoined& e) { return "joined " + ToString(e.worker); }
std::string Text(const AnnouncePlan& e) {
  if (!e.iteration) {
    std::string text =
        fmt::format("plan of g{} without [{}]", e.generation.value(), ToString(e.plan->failed));
    for (const SlowWorker& slow : e.plan->slow) {
      text += fmt::format(", {} {:.1f} times slower", ToString(slow.worker), slow.factor);
    }
    return text;
  }
  std::string text =
      fmt::format("rest of iteration {} in g{}:", *e.iteration, e.generation.value());
  for (const WorkerSchedule& schedule : e.plan->workers) {
    text += fmt::format("\n      {} | {}", ToString(schedule.worker), ToString(schedule.actions));
  }
  return text;
}
std::string Text(const AnnounceLinkRestored& e) {
  return fmt::format("link {}-{} restored", ToString(e.a), ToString(e.b));
}
std::string Text(const AnnounceFault& e) {
  return fmt::format("fault {} {} at {}", e.report.index, e.report.fired ? "fired" : "missed",
                     ToString(e.worker));
}
std::string Text(const AnnounceRejoin& e) {
  switch (e.what) {
    case AnnounceRejoin::What::kStarted:
      return fmt::format("{} comes back by a copy from {}", ToString(e.worker), ToString(e.donor));
    case AnnounceRejoin::What::kRejoined:
      return fmt::format("{} is back: {} bytes from {} in {:.0f} ms", ToString(e.worker),
                         e.copy_bytes, ToString(e.donor), ToMilliseconds(e.copy_time));
    case AnnounceRejoin::What::kAbandoned:
      return fmt::format("{} does not come back: {}", ToString(e.worker), e.reason);
  }
  return "";
}
std::string Text(const AnnounceRoleChange& e) {
  return fmt::format("{} becomes {}: gain {:.0f} ms, cost {:.0f} ms", ToString(e.from),
                     ToString(e.to), ToMilliseconds(e.gain), ToMilliseconds(e.cost));
}
std::string Text(const AnnounceParked& e) {
  return fmt::format("{} is parked after {} deaths", ToString(e.worker), e.deaths);
}
std::string Text(const AnnounceWarning& e) { return "warning: " + e.text; }
std::string Text(const AnnounceShard& e) {
  return fmt::format("shard {} of the checkpoint of iteration {}", e.shard.file, e.shard.version);
}
std::string Text(const ChooseCheckpoint& e) {
  return fmt::format("which checkpoint{}? {}", e.failed ? fmt::format(" (not {})", *e.failed) : "",
                     e.reason);
}
std::string Text(const StartWorker& e) { return "start " + ToString(e.worker); }
std::string Text(const AnnounceRestored& e) {
  return fmt::format("everybody is back at version {}{}; {} iterations again", e.version,
                     e.from_memory ? " from memory" : "", e.lost_iterations);
}
std::string Text(const AnnounceSnapshot& e) {
  return fmt::format("snapshot {}: {} bytes in {:.0f} ms", e.version, e.bytes,
                     ToMilliseconds(e.time));
}
std::string Text(const AnnounceRollback& e) {
  return fmt::format("stage {} has gone back to its step of iteration {}", e.stage.value(),
                     e.verdict.iteration);
}
std::string Text(const AnnounceRedo& e) {
  return fmt::format("stage {} has summed iteration {} again", e.quantum.stage.value(),
                     e.quantum.iteration);
}
std::string Text(const AnnounceSkippedStep& e) {
  return fmt::format("iteration {} without a step, {} in a row", e.iteration, e.in_a_row);
}
std::string Text(const AnnounceStraggler& e) {
  return fmt::format("{} {}, {:.1f} times its peers' time", ToString(e.worker),
                     e.is_slow ? "is slow" : "keeps up again", e.score);
}
std::string Text(const AnnounceCosts& e) {
  std::string text = fmt::format("costs off by {:.2f}", e.deviation);
  if (e.period_before) text += fmt::format(", period {} or {}", *e.period_before, *e.period_after);
  return fmt::format("{}: {}{}", text, e.reason, e.replanned ? ", which is next" : "");
}
std::string Text(const EndJob& e) {
  constexpr const char* kHow[] = {"done",         "stopped",  "stage lost",
                                  "join timeout", "diverged", "failed"};
  std::string text = fmt::format("end of the job: {} after {} iterations ({})",
                                 kHow[static_cast<int>(e.how)], e.iterations, e.reason);
  if (!e.parameters_sha256.empty()) text += "\n      parameters " + e.parameters_sha256;
  return text;
}
std::string Text(const SendTo& e) {
  return std::visit([](const auto& message) { return Text(message); }, e.message);
}

// --- the script

class Script {
 public:
  std::string Run(const std::string& text) {
    std::istringstream lines(text);
    for (std::string line; std::getline(lines, line);) {
      if (line.starts_with(" ")) continue;  // what was done the last time
      output_ += line + "\n";
      if (!line.starts_with("> ")) continue;
      words_.str(line.substr(2));
      words_.clear();
      Command();
    }
    return output_;
  }

 private:
  std::string Word() {
    std::string word;
    words_ >> word;
    return word;
  }
  // The rest of the line as workers; none named: every member that lives.
  std::vector<WorkerId> Workers() {
    std::vector<WorkerId> workers;
    for (std::string word; words_ >> word;) workers.push_back(ParseWorkerId(word).value());
    return workers.empty() ? coordinator_->view().live : workers;
  }
  WorkerId Worker() { return ParseWorkerId(Word()).value(); }
  int Number() { return std::stoi(Word()); }

  void Command() {
    const std::string command = Word();
    if (command == "job") return StartJob();
    if (command == "start") return StartTraining();
    if (command == "at") return AdvanceTo(TimePoint(std::chrono::milliseconds(Number())));
    if (command == "sleep-until") return SleepUntil(TimePoint(std::chrono::milliseconds(Number())));
    if (command == "hello") return SayHello();
    if (command == "stored") return Send(RecordStored{Generation(Number())});
    if (command == "checkpoint") return Send(CheckpointChosen{Number(), ""});
    if (command == "no-checkpoint") return Send(CheckpointChosen{std::nullopt, "there is none"});
    if (command == "stop") return Send(StopWanted{});
    if (command == "closed") return Send(StreamClosed{Worker()});
    if (command == "exit") return Exit(Worker());
    if (command == "drain") return Send(DrainWanted{Worker()});
    if (command == "parked") return Send(FromAgent{Parked{Worker(), 5}, 0});
    if (command == "exit-again") {  // of the process that came back
      const WorkerId worker = Worker();
      return Send(FromAgent{ExecutorExited{worker, 200 + returns_[worker], SIGKILL}, 0});
    }
    if (command == "agent-lost") {
      const int agent = Number();
      return Send(AgentLost{agent, Workers()});
    }
    if (command == "freeze") {
      frozen_.insert(Worker());
      return;
    }
    if (command == "view") {
      const Coordinator::View view = coordinator_->view();
      output_ += fmt::format("    {} g{} live [{}] iteration {} loss {}\n", view.phase,
                             view.generation.value(), ToString(view.live), view.iteration,
                             view.loss.value_or(0));
      return;
    }
    ExecutorCommand(command);
  }

  void ExecutorCommand(const std::string& command) {
    if (command == "ledgers") return SendLedgers();
    if (command == "all-hold") return SendHeld();
    if (command == "keep-only") return KeepOnly();
    if (command == "resumed") {
      const Generation generation(Number());
      for (const WorkerId worker : Workers()) From(worker, Resumed{generation});
      return;
    }
    const WorkerId worker = Worker();
    if (command == "beat") {
      Heartbeat beat = beats_.try_emplace(worker, Beat(0)).first->second;
      beat.version = Number();
      return From(worker, beat);
    }
    if (command == "computes") return Compute(worker);
    if (command == "costs") {
      const Ticks forward = Number();
      const Ticks input = Number();
      return From(worker, MeasuredCosts{forward, input, Number()});
    }
    if (command == "ledger") return SendLedger(worker);
    if (command == "link") {
      Word();  // "->"
      const WorkerId peer = Worker();
      return From(worker, LinkBroken{Generation(Number()), peer, "reset"});
    }
    if (command == "still-here") return From(worker, StillHere{.nonce = Number()});
    if (command == "words") return From(worker, LastWords{.message = Word()});
    if (command == "fault") return From(worker, FaultReport{.index = Number(), .fired = true});
    if (command == "done") return SendDone(worker);
    if (command == "amend") {
      const Generation generation(Number());
      return From(worker, Amend{generation, Correction(Number())});
    }
    if (command == "outgrown") {
      const Generation generation(Number());
      return From(worker, Outgrown{generation, {worker.stage, Number(), -20}});
    }
    if (command == "finished") return SendFinished(worker);
    ReturningCommand(command, worker);
  }

  // computes <worker> <actions done before> <planned ms> <of its earlier actions: times the plan>:
  // its heartbeats say so from now on.
  void Compute(WorkerId worker) {
    Heartbeat& beat = beats_.try_emplace(worker, Beat(0)).first->second;
    beat.actions_done = Number();
    beat.running_ticks = Number() * kTicksPerUnit;
    beat.ns_per_tick = Number();
  }

  // Of workers that come back or leave.
  void ReturningCommand(const std::string& command, WorkerId worker) {
    if (command == "computes-as") {
      Hello hello{worker, 100, Generation(0), 0};
      hello.arithmetic = Word();
      return From(worker, hello);
    }
    if (command == "becomes") {  // its process says hello for another place
      const WorkerId place = Worker();
      frozen_.erase(place);
      return From(place, Hello{place, 300 + ++returns_[worker], Generation(0), 0});
    }
    if (command == "hello-again") {
      frozen_.erase(worker);
      return From(worker, Hello{worker, 200 + ++returns_[worker], Generation(0), 0});
    }
    const int number = Number();
    if (command == "cannot-load") {
      return From(worker, RestoreFailed{Generation(number), Number(), "damaged"});
    }
    if (command == "opened") return From(worker, TransferOpened{number, ToString(worker)});
    if (command == "broken") return From(worker, TransferBroken{number, "reset"});
    if (command == "caught-up") return From(worker, CaughtUp{number, Number(), 1000, 5000});
    if (command == "state") {
      return From(worker, StateHash{number, static_cast<std::uint64_t>(Number())});
    }
    if (command == "departing") {
      const StatusOr<WorkerId> next = ParseWorkerId(Word());
      return From(worker,
                  Departing{number, next.ok() ? std::optional(*next) : std::optional<WorkerId>()});
    }
    if (command == "held") return From(worker, SnapshotHeld{StageId(number), Number(), 1000});
    RC_CHECK(false) << "script: no command " << command;
  }

  void StartJob() {
    const int data = Number();
    const int pipeline = Number();
    CoordinatorOptions options;
    options.parallel = {.data = data, .pipeline = pipeline};
    options.micro_batches = 2;
    options.iterations = Number();
    for (std::string word = Word(); !word.empty(); word = Word()) {
      if (word == "snapshots") options.snapshots = true;
      if (word == "reproducible") options.reproducible = true;
      if (word == "checkpoints" || word == "resume") options.checkpoints = true;
      if (word == "resume") options.restore_from = Number();
      if (word == "hosts") options.hosts = Number();
      if (word == "slow-factor") options.slow_factor = Number();
    }
    make_plan_ = PlanMaker(options.parallel, options.micro_batches);
    pipeline_ = pipeline;
    coordinator_.emplace(options, make_plan_, OrderByMicroBatch,
                         std::vector<std::string>{"wte", "head"});
    for (int k = 0; k < data; ++k) {
      for (int i = 0; i < pipeline; ++i) all_.push_back({PipelineId(k), StageId(i)});
    }
    Send(TimePassed{});
  }

  // The whole first round, unseen.
  void StartTraining() {
    const std::string before = output_;
    for (const WorkerId worker : all_) From(worker, Hello{worker, 100, Generation(0), 0});
    Send(RecordStored{Generation(1)});
    for (const WorkerId worker : all_) From(worker, MakeLedger(Generation(1), 0));
    for (const WorkerId worker : all_) From(worker, Resumed{Generation(1)});
    output_ = before;
  }

  // The coordinator itself does not run until then: nothing reaches it, and its timers are late.
  void SleepUntil(TimePoint to) {
    now_ = last_beat_ = to;
    Send(TimePassed{});
  }

  void SayHello() {
    std::vector<WorkerId> workers;
    for (std::string word; words_ >> word;) workers.push_back(ParseWorkerId(word).value());
    for (const WorkerId worker : workers.empty() ? all_ : workers)
      From(worker, Hello{worker, 100, Generation(0), 0});
  }

  void Exit(WorkerId worker) {
    frozen_.insert(worker);
    held_.erase(worker);
    Send(FromAgent{ExecutorExited{worker, 100, SIGKILL}, worker.pipeline.value() % 2});
  }

  // ledgers <generation> <version>: from every live member.
  void SendLedgers() {
    const Generation generation(Number());
    const int version = Number();
    for (const WorkerId worker : coordinator_->view().live) {
      Ledger ledger = MakeLedger(generation, version);
      ledger.snapshots = held_[worker];
      From(worker, std::move(ledger));
    }
  }

  // keep-only <version>: everybody drops other snapshots.
  void KeepOnly() {
    const int version = Number();
    for (auto& [worker, held] : held_) {
      std::erase_if(held, [&](const SnapshotHeld& entry) { return entry.version != version; });
    }
  }

  // all-hold <version>: every live worker keeps its own stage's snapshot.
  void SendHeld() {
    const int version = Number();
    for (const WorkerId worker : coordinator_->view().live) {
      From(worker, SnapshotHeld{worker.stage, version, 1000});
    }
  }

  // ledger <worker> <generation> <version> [<iteration>: words...]...
  // words: unjudged = its last step is not validated; amends7 = knows that of iteration 7 is wrong;
  // outgrown7 = a gradient of iteration 7 does not fit;
  // F0.1, I0.1, W0.1 = the last action done for a micro-batch (what it has sent is in its
  // log); act0.1, grad0.1 = in its inbox; holds, holds-tied = its reduced gradient; owes = the
  // validation pass.
  void SendLedger(WorkerId worker) {
    const Generation generation(Number());
    Ledger ledger = MakeLedger(generation, Number());
    for (std::string word = Word(); !word.empty(); word = Word()) {
      if (word == "owes") {
        ledger.owes_validation = true;
      } else if (word == "unjudged") {
        ledger.validated = false;
      } else if (word.starts_with("amends")) {
        ledger.verdicts.push_back(Correction(std::stoi(word.substr(6))));
      } else if (word.starts_with("outgrown")) {
        ledger.outgrown = Quantum{worker.stage, std::stoi(word.substr(8)), -20};
      } else if (word.back() == ':') {
        ledger.iterations.emplace_back().iteration = std::stoi(word);
      } else {
        Note(worker, word, ledger.iterations.back());
      }
    }
    From(worker, std::move(ledger));
  }

  void Note(WorkerId worker, const std::string& word, IterationLedger& ledger) const {
    if (word == "holds") ledger.holds_stage_part = true;
    if (word == "holds-tied") ledger.holds_tied_part = true;
    const std::size_t digit = word.find_first_of("0123456789");
    if (digit == std::string::npos) return;
    const std::string what = word.substr(0, digit);
    const MicroBatch b = ParseMicroBatch(word.substr(digit)).value();
    const StageId own = worker.stage;
    if (what == "act") ledger.inbox.push_back({BoundaryKind::kActivation, own, b});
    if (what == "grad") ledger.inbox.push_back({BoundaryKind::kGradient, own, b});
    if (what.size() > 1) return;
    ledger.progress[b] = what == "F"   ? Progress::kForward
                         : what == "I" ? Progress::kInput
                                       : Progress::kWeight;
    if (own.value() + 1 < pipeline_) {
      ledger.log.push_back({BoundaryKind::kActivation, StageId(own.value() + 1), b});
    }
    if (own.value() > 0 && what != "F") {
      ledger.log.push_back({BoundaryKind::kGradient, StageId(own.value() - 1), b});
    }
  }

  static Verdict Correction(int iteration) {
    return {.iteration = iteration, .squared_norm = 4, .stop = false, .corrects = true};
  }

  // done <worker> <iteration> [skipped steps in a row]
  void SendDone(WorkerId worker) {
    IterationDone done;
    done.iteration = Number();
    const std::string skipped = Word();
    if (!skipped.empty()) done.skipped_in_a_row = std::stoi(skipped);
    done.results = {{.micro_batch = {}, .executed_by = {}, .loss_sum = 30, .tokens = 10}};
    From(worker, done);
  }

  // finished <worker> <version> [hash of wte]
  void SendFinished(WorkerId worker) {
    Finished finished;
    finished.version = Number();
    const std::string hash = Word();
    finished.parameter_sha256["wte"] = hash.empty() ? "aa" : hash;
    finished.parameter_sha256["head"] = "bb";
    From(worker, finished);
  }

  void From(WorkerId worker, ExecutorMessage message) {
    if (const auto* held = std::get_if<SnapshotHeld>(&message)) held_[worker].push_back(*held);
    Send(FromExecutor{worker, std::move(message)});
  }

  void Send(const Event& event) { Print(coordinator_->Step(event, now_)); }

  void AdvanceTo(TimePoint to) {
    while (now_ < to) {
      const TimePoint beat = last_beat_ + kHeartbeat;
      const auto deadline = coordinator_->NextDeadline();
      if (deadline && *deadline <= std::min(beat, to)) {
        now_ = std::max(now_, *deadline);
        Send(TimePassed{});
      } else if (beat <= to) {
        now_ = last_beat_ = beat;
        const Coordinator::View view = coordinator_->view();
        for (const auto& workers : {view.live, view.joining}) {
          for (const WorkerId worker : workers) {
            const auto beat = beats_.find(worker);
            if (frozen_.contains(worker)) continue;
            From(worker, beat == beats_.end() ? Beat(0) : beat->second);
          }
        }
      } else {
        now_ = to;
      }
    }
  }

  // Equal messages to several workers become one line.
  void Print(const std::vector<Effect>& effects) {
    std::vector<std::pair<std::string, std::vector<WorkerId>>> lines;
    for (const Effect& effect : effects) {
      const std::string text = std::visit([](const auto& e) { return Text(e); }, effect);
      const auto* send = std::get_if<SendTo>(&effect);
      const auto same = std::find_if(lines.begin(), lines.end(), [&](const auto& line) {
        return send != nullptr && !line.second.empty() && line.first == text;
      });
      if (same != lines.end()) {
        same->second.push_back(send->worker);
      } else {
        lines.emplace_back(
            text, send == nullptr ? std::vector<WorkerId>() : std::vector<WorkerId>{send->worker});
      }
    }
    for (const auto& [text, receivers] : lines) {
      output_ += fmt::format("    {:.0f} ms: {}", ToMilliseconds(now_.time_since_epoch()), text);
      if (!receivers.empty()) {
        const bool everybody = receivers == coordinator_->view().live && receivers.size() > 1;
        output_ += " -> " + (everybody ? "all live" : ToString(receivers));
      }
      output_ += "\n";
    }
  }

  std::string output_;
  std::istringstream words_;
  MakePlanFunction make_plan_;
  std::optional<Coordinator> coordinator_;
  std::vector<WorkerId> all_;
  int pipeline_ = 0;
  std::set<WorkerId> frozen_;
  std::map<WorkerId, Heartbeat> beats_;
  std::map<WorkerId, int> returns_;
  std::map<WorkerId, std::vector<SnapshotHeld>> held_;  // for ledgers
  TimePoint now_;
  TimePoint last_beat_;
};

std::string ReadFile(const std::filesystem::path& path) {
  std::ifstream file(path);
  return {std::istreambuf_iterator<char>(file), {}};
}

class CoordinatorTranscript : public ::testing::TestWithParam<std::string> {};

TEST_P(CoordinatorTranscript, IsAsReviewed) {
  const std::filesystem::path path = kFolder / (GetParam() + ".txt");
  const std::string reviewed = ReadFile(path);
  const std::string played = Script().Run(reviewed);
  if (std::getenv("RECYCLE_REWRITE") != nullptr) {
    std::ofstream(path) << played;
  } else {
    EXPECT_EQ(played, reviewed) << "rewrite with RECYCLE_REWRITE=1 and review";
  }
}

std::vector<std::string> Transcripts() {
  std::vector<std::string> names;
  for (const auto& file : std::filesystem::directory_iterator(kFolder)) {
    names.push_back(file.path().stem());
  }
  std::sort(names.begin(), names.end());
  return names;
}

INSTANTIATE_TEST_SUITE_P(, CoordinatorTranscript, ::testing::ValuesIn(Transcripts()),
                         [](const auto& transcript) { return transcript.param; });

}  // namespace
}  // namespace recycle
