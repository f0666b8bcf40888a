// `recycle train`: checks the job, prepares the corpus and the run folder, starts the coordinator
// and the agents, shows progress, and sees to it that nothing is left when the job is over.
//
// One thread, one loop over signals, the coordinator's line and the grace period. The launcher is
// the root of the job: every other process dies with it (child_process.h), and as a sub-reaper it
// is also the one that reaps what its agents leave behind.
//
// SIGTERM or SIGINT: the running iteration is finished within launch.grace_s and the job stops with
// everything written; a second signal, or the end of the grace, kills at once. Either way the exit
// code is 143 or 130.
#ifndef RECYCLE_APP_LAUNCHER_H_
#define RECYCLE_APP_LAUNCHER_H_

#include <sys/types.h>

#include <optional>
#include <string>
#include <vector>

#include "recycle/app/job_config.h"
#include "recycle/app/progress.h"
#include "recycle/app/run_folder.h"
#include "recycle/app/spawner.h"
#include "recycle/app/terminal.h"
#include "recycle/base/clock.h"
#include "recycle/base/status.h"

namespace recycle {

class Launcher {
 public:
  // `folder` holds config.yaml and corpus.json. `resume_from`: iteration of the checkpoint to go on
  // from; 0: the job begins.
  Launcher(const JobConfig& config, const RunFolder& folder, int resume_from, const Clock& clock,
           Terminal& terminal);
  // Kills and reaps whatever is left of the job.
  ~Launcher();
  Launcher(const Launcher&) = delete;
  Launcher& operator=(const Launcher&) = delete;

  // Runs the job to its end; the exit code of `recycle train`. Error: a program could not be
  // started.
  StatusOr<int> Run();

 private:
  struct Child {
    std::string name;  // "coordinator", "agent 0"
    pid_t pid = 0;
  };

  Status StartCoordinator();
  Status StartAgents(const std::string& address);
  Status Loop();
  Status OnCoordinatorLine(const std::string& line);
  void OnSignal(int number);
  void OnChildrenEnded();
  void ReadCoordinator(Status& status);
  int TimeoutMs() const;
  void KillAll();
  int ExitCodeNow() const;

  const JobConfig config_;
  const RunFolder folder_;
  const int resume_from_;
  const Clock& clock_;
  Terminal& terminal_;
  Progress progress_;
  int signals_ = -1;      // signalfd
  int coordinator_ = -1;  // socket
  LineSplitter lines_;
  std::vector<Child> children_;            // running; the coordinator is the first one started
  std::optional<int> coordinator_status_;  // wait status, once it ended
  Status start_failure_;                   // an agent that cannot do its work at all
  std::optional<int> stop_signal_;         // the first SIGINT or SIGTERM
  std::optional<TimePoint> grace_over_;
  bool killed_ = false;  // by a second signal or the end of the grace
};

}  // namespace recycle

#endif  // RECYCLE_APP_LAUNCHER_H_
