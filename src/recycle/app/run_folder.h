// Where a run keeps what it leaves behind: the names of all its files, in one place.
//
//   RC_ASSIGN_OR_RETURN(RunFolder folder, RunFolder::Create("", "examples/job.yaml", clock));
//   WriteFileAtomically(folder.Config(), ToYaml(config));
//
// docs/RUN_FOLDER.md says what the files hold. A value; thread-safe.
#ifndef RECYCLE_APP_RUN_FOLDER_H_
#define RECYCLE_APP_RUN_FOLDER_H_

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/clock.h"
#include "recycle/base/ids.h"
#include "recycle/base/status.h"

namespace recycle {

class RunFolder {
 public:
  // Makes the folder of a new run with its sub-folders. An empty `path` stands for
  // runs/<date>-<time>-<name of the config file>. What a run has left there that was ended before
  // it began is taken over. Errors: kAlreadyExists if there is anything else, kInvalidArgument if
  // another run has it, kPermissionDenied if it cannot be written; all name the path.
  static StatusOr<RunFolder> Create(const std::string& path, const std::string& config_path,
                                    const Clock& clock);
  // The folder of a run that has ended, to go on with it. Errors: kNotFound as Open;
  // kInvalidArgument if the run still runs.
  static StatusOr<RunFolder> Reopen(const std::string& path);
  // The folder of a run that exists. Error: kNotFound if there is no config.yaml in it.
  static StatusOr<RunFolder> Open(const std::string& path);
  // The trace of the run so far gets a name of its own, trace-<n>.json: trace.json will be the next
  // start's.
  Status KeepTrace() const;
  // Undoes Create for a run that could not start: what Create made is gone.
  void Discard() const;

  const std::string& root() const { return root_; }  // absolute
  std::string Config() const { return File("config.yaml"); }
  std::string Corpus() const { return File("corpus.json"); }
  std::string Metrics() const { return File("metrics.jsonl"); }
  std::string Events() const { return File("events.jsonl"); }
  std::string Samples() const { return File("samples.jsonl"); }
  std::string Trace() const { return File("trace.json"); }
  std::string Summary() const { return File("summary.json"); }
  std::string Checkpoints() const { return File("checkpoints"); }
  std::string Store() const { return File("store.sqlite"); }
  std::string Address() const { return File("coordinator.address"); }
  std::string Plan(Generation generation) const;  // plans/g<N>.json
  // plans/g<N>_t<T>.json, T from 1; `iteration` from 0.
  std::string RestPlan(Generation generation, std::int32_t iteration) const;
  std::string Log(std::string_view process) const;  // logs/<process>.log
  std::string ExecutorLog(WorkerId worker) const;   // logs/executor-<k>-<i>.log
  std::string TracePart(WorkerId worker) const;     // logs/trace/<k>-<i>.jsonl
  std::string ProfilePart(WorkerId worker) const;   // logs/profile-<k>-<i>.jsonl
  std::string FaultFolder() const { return File("logs/faults"); }
  std::string FaultStamp(int fault, WorkerId worker) const;  // fault-<fault>-<k>-<i>.json

 private:
  // Makes this process the one that runs the job of the folder, until it ends. Error:
  // kInvalidArgument: another one does.
  Status Claim() const;
  explicit RunFolder(std::string root) : root_(std::move(root)) {}
  std::string File(std::string_view name) const { return root_ + "/" + std::string(name); }

  std::string root_;
  bool made_root_ = false;
};

// Makes a new folder for the runs of `command` among the temporary files:
// recycle-<command>-<random>. Error: kPermissionDenied.
StatusOr<std::string> MakeTemporaryFolder(std::string_view command);

}  // namespace recycle

#endif  // RECYCLE_APP_RUN_FOLDER_H_
