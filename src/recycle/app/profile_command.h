// `recycle profile`: runs the job for a while without faults and reports what it measured.
//
// Standard output has the report and nothing else; the run's own lines go to standard error.
#ifndef RECYCLE_APP_PROFILE_COMMAND_H_
#define RECYCLE_APP_PROFILE_COMMAND_H_

#include <string>
#include <vector>

namespace recycle {

struct ProfileArguments {
  std::string config_path;
  std::vector<std::string> overrides;  // --set path.to.key=value, in order
  int iterations = 100;                // that are run
  std::string run_dir;                 // empty: a temporary folder, removed afterwards
  bool json = false;                   // print one JSON object
  std::string output;                  // file for that object; empty: none
  bool operator==(const ProfileArguments&) const = default;
};

// The fewest iterations that leave something to measure.
inline constexpr int kLeastProfileIterations = 5;

// How many of `iterations` are left out at the beginning: memory and caches warm up in them.
int WarmUpIterations(int iterations);

// Returns the exit code; that of `recycle train` where the run itself ends badly.
int RunProfile(const ProfileArguments& arguments);

}  // namespace recycle

#endif  // RECYCLE_APP_PROFILE_COMMAND_H_
