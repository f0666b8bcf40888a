// The commands of `recycle` as plain functions: the command line (command_line.h) fills a struct of
// arguments and hands over. Every function prints what it has to say and returns an exit code of
// base/exit_code.h.
//
//   int code = RunTrain({.config_path = "job.yaml", .run_dir = "runs/one"});
#ifndef RECYCLE_APP_COMMANDS_H_
#define RECYCLE_APP_COMMANDS_H_

#include <string>
#include <vector>

namespace recycle {

// `recycle train job.yaml ...`
struct TrainArguments {
  std::string config_path;
  std::vector<std::string> overrides;  // --set path.to.key=value, in order
  std::vector<std::string> inject;     // --inject "FAULT", added to the config's own list
  bool no_inject = false;              // drop the faults that the config itself lists
  std::string run_dir;                 // empty: a new folder under runs/
  std::string plan_file;               // --plan: run this schedule as it is; empty: the config's
  bool dry_run = false;                // print memory per worker and the plan, train nothing
  bool json = false;                   // with dry_run: one JSON object
  bool resume = false;                 // go on from the newest checkpoint of run_dir
  bool operator==(const TrainArguments&) const = default;
};

// `recycle status`: one of run_dir and address is given.
struct StatusArguments {
  std::string run_dir;  // its file coordinator.address says where to ask
  std::string address;  // host:port
  std::string job;      // with address: the job's file, for its section security; empty: none
  bool json = false;
  bool operator==(const StatusArguments&) const = default;
};

// `recycle join RUN_DIR K:I` and `recycle drain RUN_DIR K:I`.
struct PlaceArguments {
  std::string run_dir;
  std::string worker;
  std::string listen;  // join: a numeric address of this machine; empty: launch.listen
  bool operator==(const PlaceArguments&) const = default;
};

// `recycle agent RUN_DIR N`: by the launcher, or on another host.
struct AgentArguments {
  std::string run_dir;
  int agent = 0;
  // Where its workers listen: a numeric address of this machine; empty: launch.listen.
  std::string listen;
  bool operator==(const AgentArguments&) const = default;
};

// Further processes of a job. Only the launcher starts them; descriptors are inherited.
struct CoordinatorArguments {
  std::string run_dir;
  int report_fd = -1;   // events and metrics for the launcher, a JSON object a line
  std::string launch;   // names the start of the job that it belongs to; empty: the only one
  int resume_from = 0;  // iteration of the checkpoint that the job goes on from; 0: it begins
  bool operator==(const CoordinatorArguments&) const = default;
};
// `recycle executor ...` becomes `recycle-executor run ...` with the arguments as they are.
struct ExecutorArguments {
  std::vector<std::string> arguments;
  bool operator==(const ExecutorArguments&) const = default;
};

int RunTrain(const TrainArguments& arguments);
int RunStatus(const StatusArguments& arguments);
int RunCoordinatorProcess(const CoordinatorArguments& arguments);
int RunAgent(const AgentArguments& arguments);
int RunExecutorProcess(const ExecutorArguments& arguments);

}  // namespace recycle

#endif  // RECYCLE_APP_COMMANDS_H_
