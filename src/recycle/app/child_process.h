// Starting the programs of a job so that none of them can outlive it.
//
// Every child asks the kernel for SIGKILL when its parent ends (PR_SET_PDEATHSIG), then looks
// whether the parent is still there. The kernel ties this to the parent's *thread*: start children
// from the main thread only. A SIGKILL also ends a process that is stopped, so a frozen executor
// goes too.
//
//   ChildOptions options;
//   options.argv = {ProgramFolder() + "/recycle", "agent", "--run-dir", run_dir};
//   RC_ASSIGN_OR_RETURN(pid_t pid, StartChild(options));
//
// Not thread-safe: call from a process's main thread, before it has other threads where the child
// does not exec.
#ifndef RECYCLE_APP_CHILD_PROCESS_H_
#define RECYCLE_APP_CHILD_PROCESS_H_

#include <sys/types.h>

#include <string>
#include <utility>
#include <vector>

#include "recycle/base/status.h"

namespace recycle {

struct ChildOptions {
  std::vector<std::string> argv;  // argv[0] is the program's path
  std::vector<int> inherited;     // descriptors the child keeps under the same numbers
  std::vector<std::pair<std::string, std::string>> environment;  // set on top of this process's own
  std::string output_file;         // standard output and error are appended to it; empty: inherited
  bool own_process_group = false;  // a Ctrl-C at the terminal does not reach it
};

// Forks and executes; standard input is /dev/null, signals are at their defaults. Errors:
// kNotFound if the program cannot be executed, kResourceExhausted if no process can be made.
StatusOr<pid_t> StartChild(const ChildOptions& options);

// In a child right after fork: die with `parent`, also when it is gone already.
void DieWithParent(pid_t parent);

// In a child right after fork: no signal blocked or handled any more (SIGINT stays ignored where
// the terminal should not reach it).
void ResetSignals();

// Makes standard output and standard error append to `file`. True if it could be opened.
bool RedirectOutput(const std::string& file);

// The folder of the running program: `recycle` and `recycle-executor` are neighbours.
std::string ProgramFolder();

// The parent of process `pid`; 0 if there is none or it cannot be found out.
pid_t ParentOf(pid_t pid);

// "exit code 75" or "signal 9 (Killed)": a wait status for people.
std::string DescribeWaitStatus(int wait_status);

}  // namespace recycle

#endif  // RECYCLE_APP_CHILD_PROCESS_H_
