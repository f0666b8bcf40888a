// Turns what the coordinator's core announces into the files of the run folder (events.jsonl,
// metrics.jsonl, samples.jsonl, plans/, trace.json, summary.json) and into lines for the launcher.
// It decides nothing: a job without it would run the same.
//
//   JobRecorder recorder(config, folder, clock, link);
//   recorder.Begin(leader, is_first);
//   recorder.OnGenerationStored(record, {.stored = t1, .told = t2});
//   recorder.OnResumed(effect); recorder.OnIteration(effect); ... recorder.JobOver(effect);
//
// Not thread-safe: the coordinator's thread owns it.
#ifndef RECYCLE_APP_JOB_RECORDER_H_
#define RECYCLE_APP_JOB_RECORDER_H_

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include "recycle/app/checkpoint_committer.h"
#include "recycle/app/event_writer.h"
#include "recycle/app/fault_ledger.h"
#include "recycle/app/job_config.h"
#include "recycle/app/launcher_link.h"
#include "recycle/app/leader_address.h"
#include "recycle/app/run_folder.h"
#include "recycle/app/run_history.h"
#include "recycle/app/summary.h"
#include "recycle/base/clock.h"
#include "recycle/coordinator/coordinator.h"
#include "recycle/data/sampler.h"

namespace recycle {

// Mean over the tokens of an iteration.
double MeanLoss(const IterationDone& done);

class JobRecorder {
 public:
  // `sampler` says which samples a micro-batch holds; absent without log.samples.
  JobRecorder(const JobConfig& config, const RunFolder& folder, const Clock& clock,
              LauncherLink& launcher, std::optional<Sampler> sampler);

  // Another coordinator has led this launch before: what `history` has is not written again.
  void TakeUp(const RunHistory& history);
  // Writes job_started (the first coordinator of a launch only) and leader.
  void Begin(const LeaderAddress& leader, bool is_first);
  void OnJoined(const AnnounceJoined& joined);

  struct DecisionTimes {
    TimePoint stored;  // the record is durable
    TimePoint told;    // Prepare is on its way to every member
  };
  // Looks for fault stamps first, then writes failure_detected (one per lost worker) and
  // generation.
  void OnGenerationStored(const GenerationRecord& record, const DecisionTimes& times);
  void OnPlan(const AnnouncePlan& made);
  void OnResumed(const AnnounceResumed& resumed);
  void OnIteration(const AnnounceIteration& announced);
  void OnLinkRestored(const AnnounceLinkRestored& restored);
  // rejoin_started, rejoined or rejoin_abandoned.
  void OnRejoin(const AnnounceRejoin& news);
  void OnRoleChange(const AnnounceRoleChange& change);
  void OnParked(const AnnounceParked& parked);
  // `count` calls were refused since the last time, `last` among them: calls_refused.
  void OnRefused(std::int64_t count, const std::string& last);
  void OnRollback(const AnnounceRollback& rollback);
  void OnRedo(const AnnounceRedo& redo);
  void OnSkippedStep(const AnnounceSkippedStep& skipped);
  void OnStraggler(const AnnounceStraggler& straggler);
  void OnCosts(const AnnounceCosts& costs);
  void OnRestored(const AnnounceRestored& restored);
  void OnSnapshot(const AnnounceSnapshot& snapshot);
  // checkpoint, or a warning.
  void OnCheckpoint(const CheckpointCommitter::Result& result);

  // Bytes that went through the job's sockets: the coordinator's (messages in and out), and the
  // links between workers (frames sent, as the workers that finished count them).
  struct Traffic {
    std::int64_t coordinator_bytes = 0;
    std::int64_t links_bytes = 0;
  };

  // An executor's process ended, as waitpid says: executor_exited with exit_code or signal.
  void OnExit(const ExecutorExited& exited);

  // Writes fault_injected for every stamp that is new.
  void FaultsFired();

  // Writes fault_missed for a job that ran to its end, merges the trace, writes job_finished and
  // summary.json. Call it when no executor writes any more. True if every fault fired.
  bool JobOver(const EndJob& end, const Traffic& traffic);

  // A sentence for the log and the launcher's terminal.
  void Warn(const std::string& text);

  // What `recycle status` shows of the run's progress: tokens_per_s, iteration_ms, failures.
  Json Progress() const;

 private:
  void TakeUpSummary(const RunHistory& history);
  void Write(const Json& event);
  void WriteFailure(const LostWorker& lost, const DecisionTimes& times);
  void WriteLeave(const LostWorker& lost);
  void WriteSamples(const IterationDone& done);
  void WriteTrace();
  // What `elapsed` on the machine's clock is to the job: to paced workers, a time of their profile.
  Duration JobTime(Duration elapsed) const;
  // Actions (B counts 2) of lost shares: completed by their worker, by its own trace, and not.
  struct Repeated {
    int replayed = 0;
    int rerouted = 0;
  };
  // Absent if there are no traces.
  std::optional<Repeated> CountRepeated(const std::vector<LostShare>& shares) const;
  Json FaultFields(int fault) const;

  const JobConfig config_;
  const RunFolder folder_;
  const Clock& clock_;
  LauncherLink& launcher_;
  const std::optional<Sampler> sampler_;
  FaultLedger faults_;
  RecordFile events_;
  RecordFile metrics_;
  RecordFile samples_;
  std::set<double> known_faults_;            // times of the faults in events.jsonl at the start
  std::map<WorkerId, TimePoint> came_back_;  // older fault stamps say nothing about the new process
  RunSummary summary_;
  TimePoint started_;
  Generation generation_;
  std::optional<TimePoint> last_progress_;  // the last iteration's end, or the start of training
  int lost_iterations_ = 0;                 // since everybody resumed last
  bool disturbed_ = false;                  // a regroup fell into the open iteration
  // Told by this coordinator or an earlier one: processes that came and went, places parked.
  std::set<std::pair<std::string, int>> joined_;
  std::set<std::pair<std::string, int>> exited_;
  std::set<std::string> parked_;
  int iterations_done_ = 0;
  double tokens_per_s_ = 0;
  double iteration_ms_ = 0;
};

}  // namespace recycle

#endif  // RECYCLE_APP_JOB_RECORDER_H_
