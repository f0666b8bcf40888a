// What a person watching a run is told, as plain text: a line per event that matters, a line per
// iteration, what can be lost now, and the words at the end. Pure: lines of the coordinator in
// (launcher_link.h), lines of text out; terminal.h prints them.
//
//   TrainingProgress progress(config, run_dir);
//   for (const std::string& text : progress.OnEvent(event)) terminal.Print(text);
//
// Not thread-safe.
#ifndef RECYCLE_APP_TRAINING_PROGRESS_H_
#define RECYCLE_APP_TRAINING_PROGRESS_H_

#include <map>
#include <optional>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/app/event_writer.h"
#include "recycle/app/job_config.h"

namespace recycle {

class TrainingProgress {
 public:
  TrainingProgress(const JobConfig& config, std::string run_dir);

  // "3 pipelines x 2 stages = 6 workers, 80 iterations of 4,096 tokens; run folder: ..."
  std::string Headline() const;

  // The lines for an event of events.jsonl; none for those that only matter to programs. A failure
  // is one line, told when training has resumed.
  std::vector<std::string> OnEvent(const Json& event);

  // A metrics line as Megatron-LM prints it (same order and separators, people's parsers read it).
  std::string LogLine(const Json& metrics) const;
  // The same in brief, for a line that is written over again and again.
  std::string LiveLine(const Json& metrics) const;

  // Loss, failures and throughput of the run, and where to look next.
  std::vector<std::string> Closing(const Json& summary) const;

 private:
  std::optional<std::string> ReturnLine(const Json& event);
  std::optional<std::string> CheckpointLine(const Json& event);
  std::string FailureLine(const Json& resumed) const;
  std::vector<std::string> RiskLines() const;
  std::string PlanCommand() const;

  const JobConfig config_;
  const std::string run_dir_;
  std::vector<std::string> live_;       // by the last generation
  std::vector<Json> unresumed_losses_;  // failure_detected since training went on last
  std::vector<std::string> failed_;     // in the order of their loss
  std::optional<int> checkpoint_;       // iteration of the newest complete one
  std::optional<int> snapshot_;         // iteration of the newest that counts
  bool trains_ = false;                 // the first generation has resumed
  std::optional<int> resumed_from_;     // with --resume: iterations of the run before
  std::set<std::string> dead_;          // the places without a worker now
};

// 12345.6 -> "12,346".
std::string WithThousands(double value);
// 3725 -> "1:02:05", 32 -> "0:32".
std::string ClockText(double seconds);

}  // namespace recycle

#endif  // RECYCLE_APP_TRAINING_PROGRESS_H_
