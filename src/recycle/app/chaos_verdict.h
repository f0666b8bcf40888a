// What a run of `recycle chaos` has shown, and whether it is what the unharmed run shows.
//
//   const ChaosEvidence run = ReadEvidence(folder);
//   for (const std::string& problem : Differences(run, reference)) ...
#ifndef RECYCLE_APP_CHAOS_VERDICT_H_
#define RECYCLE_APP_CHAOS_VERDICT_H_

#include <cstdint>
#include <map>
#include <set>
#include <string>
#include <vector>

namespace recycle {

struct ChaosEvidence {
  std::map<int, double> losses;                      // by iteration
  std::map<int, std::vector<std::int64_t>> samples;  // by iteration, ascending, with repetitions
  std::set<std::string> fired;                       // texts of the faults
};

// From the files of a run's folder `root`; what is not there is empty.
ChaosEvidence ReadEvidence(const std::string& root);

// One sentence for each way in which `run` is not `reference`: losses (to 1e-5 of themselves) and
// samples, at the first iteration that differs. Empty: they agree. Pure.
std::vector<std::string> Differences(const ChaosEvidence& run, const ChaosEvidence& reference);

}  // namespace recycle

#endif  // RECYCLE_APP_CHAOS_VERDICT_H_
