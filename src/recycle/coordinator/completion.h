// How far the job has come and how it ends: iterations in their order, each once, and the
// parameters at the end, on which all workers must agree.
//
// Not thread-safe; part of the coordinator's core.
#ifndef RECYCLE_COORDINATOR_COMPLETION_H_
#define RECYCLE_COORDINATOR_COMPLETION_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "recycle/base/ids.h"
#include "recycle/coordinator/events.h"
#include "recycle/protocol/messages.h"

namespace recycle {

class Completion {
 public:
  Completion(std::int32_t iterations, std::vector<std::string> canonical_parameters);

  // The job has gone back (or resumes), or another coordinator has recorded so much: `version`
  // iterations are done.
  void RestartAt(std::int32_t version);
  void NoteLastLoss(std::optional<double> loss) { last_loss_ = loss; }

  // Notes the result of an iteration and returns those whose turn it is. Every worker of the last
  // stage reports each iteration: the first report counts.
  std::vector<IterationDone> OnIterationDone(const IterationDone& done);

  void OnFinished(WorkerId worker, const Finished& finished);
  // A new generation begins: whoever is through says so again, when it has done what is left of it.
  void ForgetFinished() { finished_.clear(); }
  bool HasFinished(WorkerId worker) const { return finished_.contains(worker); }
  // Has somebody finished with `version` steps or fewer? Then no iteration from there on has begun.
  bool AnyFinishedAt(std::int32_t version) const;

  // The end of a job whose `members` have all finished: their parameters compared and hashed,
  // SHA-256 over "name\0hex\n" in canonical order. kFailed if two of them disagree or a parameter
  // is missing.
  EndJob Conclude(const std::vector<WorkerId>& members) const;

  std::int32_t iterations_done() const { return next_; }
  std::optional<double> last_loss() const { return last_loss_; }

 private:
  const std::int32_t iterations_;
  const std::vector<std::string> canonical_parameters_;
  std::int32_t next_ = 0;                          // the first iteration without a result
  std::map<std::int32_t, IterationDone> waiting_;  // results ahead of it
  std::optional<double> last_loss_;
  std::map<WorkerId, Finished> finished_;
};

}  // namespace recycle

#endif  // RECYCLE_COORDINATOR_COMPLETION_H_
