// `recycle train`: checks the job, prepares the corpus and the run folder, starts the coordinator
// and the agents, shows progress, and sees to it that nothing is left when the job is over.
//
// One thread, one loop over signals, the coordinator's line and the grace period. The launcher is
// the root of the job: every other process dies with it (child_process.h), and as a sub-reaper it
// is also the one that reaps what its agents leave behind.
//
// The coordinator may die: another one is started and takes over; training goes on meanwhile. One
// that gives no sign of life (frozen, or starved) is killed first: two would write the same files.
// After kDeathsAllowed deaths within kDeathWindow the job ends.
//
// SIGTERM, SIGINT, or SIGHUP unless it is ignored (nohup): the running iteration is finished within
// launch.grace_s and the job stops with everything written; a second signal, or the end of the
// grace, kills at once. Either way the exit code is 143 or 130.
#ifndef RECYCLE_APP_LAUNCHER_H_
#define RECYCLE_APP_LAUNCHER_H_

#include <poll.h>
#include <sys/types.h>

#include <chrono>
#include <list>
#include <optional>
#include <string>
#include <vector>

#include "recycle/app/job_config.h"
#include "recycle/app/run_folder.h"
#include "recycle/app/spawner.h"
#include "recycle/app/terminal.h"
#include "recycle/app/training_progress.h"
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
  static constexpr int kDeathsAllowed = 5;
  static constexpr std::chrono::seconds kDeathWindow{60};
  // A new coordinator may take so long for its first words, at least.
  static constexpr std::chrono::seconds kStartPatience{10};

  struct Child {
    std::string name;  // "coordinator", "agent 0"
    pid_t pid = 0;
  };
  // A coordinator and this process's line to it.
  struct Coordinator {
    pid_t pid = 0;
    int socket = -1;  // -1 once it is closed
    LineSplitter lines;
    TimePoint last_heard;
    bool was_heard = false;
    bool leads = false;  // it has sent its address
  };

  Status StartCoordinator();
  Status StartAgents();
  Status Loop();
  Status ReadCoordinators(const std::vector<pollfd>& ready);
  Status OnCoordinatorLine(Coordinator& coordinator, const std::string& line);
  void OnSignal(int number);
  void OnChildrenEnded();
  void OnCoordinatorEnded(const Coordinator& coordinator, int wait_status);
  // Replaces coordinators that have died, and a single one that is silent.
  Status WatchCoordinator();
  // How long `coordinator` may be silent.
  Duration Patience(const Coordinator& coordinator) const;
  bool IsWatched() const;
  Status FillCoordinators();
  std::optional<TimePoint> NextDeadline() const;
  void KillAll();
  int ExitCodeNow() const;

  const JobConfig config_;
  const RunFolder folder_;
  const int resume_from_;
  const std::string launch_;  // tells the coordinators of this start from those of earlier ones
  const Clock& clock_;
  Terminal& terminal_;
  TrainingProgress progress_;
  int signals_ = -1;                     // signalfd
  std::list<Coordinator> coordinators_;  // running; the newest one is the last
  bool agents_started_ = false;
  bool job_over_ = false;                  // a coordinator has sent the summary
  std::vector<TimePoint> deaths_;          // of coordinators, within the window
  std::vector<Child> children_;            // agents that run
  std::optional<int> coordinator_status_;  // wait status of the one that ended the job
  Status start_failure_;                   // an agent that cannot do its work at all
  std::optional<int> stop_signal_;         // the first SIGINT or SIGTERM
  std::optional<TimePoint> grace_over_;
  bool killed_ = false;  // by a second signal or the end of the grace
};

}  // namespace recycle

#endif  // RECYCLE_APP_LAUNCHER_H_
