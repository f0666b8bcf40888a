// The coordinator as a process: one thread that owns the core and carries out its effects, gRPC's
// threads that feed it events through a queue, the store, and the run folder's files.
//
// Order within a decision: the record is stored, everybody is told, and only then anything is
// written for people: a slow disk or terminal never delays a resume.
//
// Coordinators come and go: this one begins a term in the store, takes over what earlier ones have
// stored and recorded, and leads until the job is over or another one has begun the next term. Who
// has lost its term, frozen as it may have been meanwhile, tells nobody anything more and ends with
// exit code 75: it proves its term before it acts on anything after a pause.
//
//   RC_ASSIGN_OR_RETURN(auto process, CoordinatorProcess::Start(folder, config, report_fd));
//   return process->Run();
#ifndef RECYCLE_APP_COORDINATOR_PROCESS_H_
#define RECYCLE_APP_COORDINATOR_PROCESS_H_

#include <cstdint>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "recycle/app/checkpoint_committer.h"
#include "recycle/app/checkpoint_source.h"
#include "recycle/app/commands.h"
#include "recycle/app/coordinator_fault.h"
#include "recycle/app/event_queue.h"
#include "recycle/app/job_config.h"
#include "recycle/app/job_recorder.h"
#include "recycle/app/job_records.h"
#include "recycle/app/launcher_link.h"
#include "recycle/app/run_folder.h"
#include "recycle/app/run_history.h"
#include "recycle/base/clock.h"
#include "recycle/base/exit_code.h"
#include "recycle/base/status.h"
#include "recycle/coordinator/coordinator.h"
#include "recycle/data/corpus.h"
#include "recycle/rpc/control_server.h"
#include "recycle/store/store.h"

namespace recycle {

// Plans for a job: the first one as FirstPlan gives it, kept for as long as exactly its places are
// dead, unless by measured costs the planner has a faster one; the planner's for every other set of
// dead places.
MakePlanFunction PlansOf(const JobConfig& config);

class CoordinatorProcess {
 public:
  // Opens the store, begins a term, listens, and writes the address file. The job resumes from the
  // checkpoint of iteration `arguments.resume_from`, if there is one and no earlier coordinator of
  // this launch has led. Errors: kUnavailable (no store, no port), or what the config does not
  // allow.
  static StatusOr<std::unique_ptr<CoordinatorProcess>> Start(const RunFolder& folder,
                                                             const JobConfig& config,
                                                             const CoordinatorArguments& arguments);
  ~CoordinatorProcess();

  // Until the job is over, and the exit code tells how it ended; or until another coordinator
  // leads: kFenced.
  ExitCode Run();

 private:
  // What earlier coordinators have left.
  struct Estate {
    std::unique_ptr<Store> store;
    JobRecords records;
    RunHistory history;
  };

  CoordinatorProcess(const RunFolder& folder, const JobConfig& config,
                     const CoordinatorOptions& options, int report_fd, Estate estate,
                     std::optional<Sampler> sampler, const PreparedCorpus& corpus);

  Status Listen();
  // Leads the job to its end. False: another coordinator leads.
  bool Lead();
  // A sign of life for the launcher, the proof of the term, the address file. False: another
  // coordinator leads.
  bool Tick();
  // Blocks until an event, the launcher, or `deadline`.
  void Wait(std::optional<TimePoint> deadline);
  void HandleEvents();
  void Apply(const Event& event);
  // Makes the record durable, or tries again later.
  void Commit();
  // The job is over in good order: the next coordinator has to know, whose workers are gone.
  void CommitEnd(const EndJob& end);
  void CarryOut(const Effect& effect);
  void OnIteration(const AnnounceIteration& iteration);
  // What the process itself remembers of an event, beside the core.
  void Note(const Event& event);
  JobRecorder::Traffic CountTraffic() const;
  // False: another coordinator leads.
  bool AwaitExits();
  ExitCode LeaveFenced();
  void Choose(const ChooseCheckpoint& question);
  void Start(const StartWorker& start);
  void GoOnFrom(const AnnounceRestored& restored);
  // Checkpoints that have become complete, or will not.
  void RecordCheckpoints();
  // Says that calls were refused; not more often than every few seconds, however many there are.
  void TellRefusals();
  void PublishStatus();
  ExitCode CodeOf(const EndJob& end, bool every_fault_fired) const;

  const RunFolder folder_;
  const JobConfig config_;
  const Clock& clock_;
  LauncherLink launcher_;
  JobRecorder recorder_;
  std::unique_ptr<Store> store_;
  JobRecords records_;
  const RunHistory history_;
  EventQueue queue_;
  Coordinator core_;
  CoordinatorFaults faults_;
  TimePoint next_tick_;
  bool lost_term_ = false;
  struct Commitment {
    GenerationRecord record;
    TimePoint since;
    TimePoint next_attempt;
  };
  std::optional<Commitment> committing_;
  std::optional<EndJob> end_;
  std::vector<WorkerId> leaving_;  // those that end in good order with the job
  TimePoint told_recorded_;        // when the last-stage workers were told last
  std::set<WorkerId> exited_;      // by waitpid, or with their agent
  std::map<WorkerId, std::int64_t> link_bytes_;
  std::int64_t told_refusals_ = 0;
  TimePoint next_refusals_;  // the next event about them is not before
  bool saw_bug_ = false;     // a process ended with exit code 70

  std::mutex status_mutex_;
  std::string status_;  // guarded by status_mutex_: the answer to `recycle status`

  CheckpointSource checkpoints_;
  std::optional<CheckpointCommitter> committer_;  // absent without checkpoints
  std::unique_ptr<ControlServer> server_;         // last: its handlers use the rest
};

}  // namespace recycle

#endif  // RECYCLE_APP_COORDINATOR_PROCESS_H_
