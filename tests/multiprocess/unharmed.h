// What every survived failure has to show, whatever failed: the losses, norms and samples of the
// unharmed run, and by the trace that nothing ran twice but the work of the dead.
#ifndef RECYCLE_TESTS_MULTIPROCESS_UNHARMED_H_
#define RECYCLE_TESTS_MULTIPROCESS_UNHARMED_H_

#include <map>
#include <set>
#include <vector>

#include "job.h"
#include "recycle/base/ids.h"
#include "recycle/plan/action.h"

namespace recycle::testing {

// F, I or W of a micro-batch in an iteration; B is two of them.
struct Work {
  int iteration = 0;
  Action part;
  auto operator<=>(const Work&) const = default;
};

// Who did it and when; a regeneration is no work done.
struct Execution {
  WorkerId worker;
  int generation = 0;
};

std::vector<Action> PartsOf(const Action& action);

// By the trace, each in the order of time.
std::map<Work, std::vector<Execution>> Executions(const Job& job);

std::set<WorkerId> LostWorkers(const Job& job);

// GoogleTest expectations. The unharmed run of the same options is made once per test binary.
void ExpectUnharmedResults(const Job& job, const JobOptions& options, int lost_workers);
// The same of a job in which workers come back.
void ExpectUnharmedNumbers(const Job& job, const JobOptions& options);

}  // namespace recycle::testing

#endif  // RECYCLE_TESTS_MULTIPROCESS_UNHARMED_H_
