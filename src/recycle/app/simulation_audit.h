// `--audit FILE`: every interval of every policy as a JSON line, and the plans in force as files in
// FILE.plans/, each written once. Goodput can be recomputed from the lines alone:
//
//   samples = sum of rate * (to_s - from_s - stall_s) * samples per batch - lost_samples
//
// Not thread-safe.
#ifndef RECYCLE_APP_SIMULATION_AUDIT_H_
#define RECYCLE_APP_SIMULATION_AUDIT_H_

#include <map>
#include <memory>
#include <string>

#include "recycle/base/file.h"
#include "recycle/base/status.h"
#include "recycle/simulator/simulation.h"

namespace recycle {

class SimulationAudit {
 public:
  // Makes the folder for plans. Error: kPermissionDenied naming it; kInvalidArgument if it holds
  // plans already.
  static StatusOr<std::unique_ptr<SimulationAudit>> Open(const std::string& path,
                                                         SimulationPlanner& planner);

  // Appends a line; writes its plan if that is new. Errors: the planner's, the file system's.
  Status Add(const Interval& interval);
  // The lines appear as a file. Errors as AtomicFile::Commit.
  Status Commit() { return lines_.Commit(); }

 private:
  SimulationAudit(const std::string& path, SimulationPlanner& planner)
      : lines_(path), folder_(path + ".plans"), planner_(planner) {}
  // The file of a plan, within the folder.
  StatusOr<std::string> FileOf(const PlanInForce& plan);

  AtomicFile lines_;
  const std::string folder_;
  SimulationPlanner& planner_;
  std::map<PlanInForce, std::string> files_;
};

}  // namespace recycle

#endif  // RECYCLE_APP_SIMULATION_AUDIT_H_
