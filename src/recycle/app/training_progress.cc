#include "recycle/app/training_progress.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <algorithm>
#include <cmath>
#include <set>
#include <utility>

#include "recycle/app/job_conversion.h"
#include "recycle/app/numbers.h"

namespace recycle {
namespace {

std::string Join(const std::vector<std::string>& words, std::string_view separator) {
  return fmt::format("{}", fmt::join(words, separator));
}

std::string CauseSentence(const std::string& cause) {
  static const std::map<std::string, std::string> kSentences = {
      {"link", "its links broke"},           {"process", "its process ended"},
      {"words", "it told of a fatal error"}, {"notice", "it was told to leave"},
      {"silence", "no sign of life"},        {"progress", "no progress"},
      {"corruption", "wrong state"}};
  const auto found = kSentences.find(cause);
  return found == kSentences.end() ? cause : found->second;
}

// "I 1.05 F, W 0.85 F", over all stages.
std::string CostsText(const Json& stages) {
  double forward = 0;
  double input = 0;
  double weight = 0;
  for (const Json& stage : stages) {
    forward += stage.at(0).get<double>();
    input += stage.at(1).get<double>();
    weight += stage.at(2).get<double>();
  }
  return fmt::format("I {:.2f} F, W {:.2f} F", input / forward, weight / forward);
}

// Absent: the plan stays.
std::optional<std::string> CostsLine(const Json& event) {
  if (event.at("event") != "costs_measured" || !event.at("replanned").get<bool>()) {
    return std::nullopt;
  }
  const double gain =
      event.at("period_before").get<double>() / event.at("period_after").get<double>() - 1;
  return fmt::format(
      "the plan was made for {}; measured: {} (off by up to {:.0f}%): another plan gets {:.1f}% "
      "more done",
      CostsText(event.at("planned")), CostsText(event.at("measured")),
      100 * event.at("deviation").get<double>(), 100 * gain);
}

// How a step or a worker's computing turned out.
std::optional<std::string> ComputingLine(const Json& event) {
  const std::string name = event.at("event");
  if (name == "costs_measured") return CostsLine(event);
  if (name == "rollback") {
    return fmt::format("stage {} goes back to its step of iteration {}: {}",
                       event.at("stage").get<int>(), event.at("iteration").get<int>(),
                       event.at("why").get<std::string>());
  }
  if (name == "straggler") {
    return fmt::format(
        "worker {} is slow: its actions take {:.1f} x as long as its peers', and it "
        "gets fewer micro-batches",
        event.at("worker").get<std::string>(), event.at("score").get<double>());
  }
  if (name == "straggler_over") {
    return fmt::format("worker {} is as fast as its peers again",
                       event.at("worker").get<std::string>());
  }
  if (name == "sums_redone") {
    return fmt::format("stage {} sums iteration {} again: {}", event.at("stage").get<int>(),
                       event.at("iteration").get<int>(), event.at("why").get<std::string>());
  }
  if (name == "step_skipped") {
    return fmt::format("iteration {} ends without a step: {}", event.at("iteration").get<int>(),
                       event.at("why").get<std::string>());
  }
  return std::nullopt;
}

int StageOf(const std::string& worker) {
  const StatusOr<WorkerId> parsed = ParseWorkerId(worker);
  return parsed.ok() ? parsed->stage.value() : -1;
}

}  // namespace

TrainingProgress::TrainingProgress(const JobConfig& config, std::string run_dir)
    : config_(config), run_dir_(std::move(run_dir)) {}

std::string TrainingProgress::Headline() const {
  const int sequences =
      config_.parallel.data * config_.batch.micro_batches * config_.batch.micro_batch_size;
  return fmt::format(
      "training with {} x {} = {}, {} of {} tokens; run folder: {}",
      Count(config_.parallel.data, "pipeline"), Count(config_.parallel.pipeline, "stage"),
      Count(config_.parallel.data * config_.parallel.pipeline, "worker"),
      Count(config_.train.iterations, "iteration"),
      WithThousands(static_cast<double>(sequences) * config_.model.sequence), run_dir_);
}

std::vector<std::string> TrainingProgress::OnEvent(const Json& event) {
  const std::string name = event.at("event");
  if (name == "fault_injected") {
    return {fmt::format("fault injected: {}", event.at("fault").get<std::string>())};
  }
  if (name == "fault_missed") {
    return {fmt::format("fault did not fire: {}", event.at("fault").get<std::string>())};
  }
  if (name == "failure_detected") {
    unresumed_losses_.push_back(event);
    dead_.insert(event.at("worker"));
    failed_.push_back(event.at("worker"));
  }
  if (name == "leader" && event.at("term") > 1) {
    return {fmt::format("a new coordinator leads (pid {}, term {})", event.at("pid").get<int>(),
                        event.at("term").get<std::int64_t>())};
  }
  if (name == "worker_left") dead_.insert(event.at("worker"));
  if (name == "generation") {
    live_ = event.at("live").get<std::vector<std::string>>();
    std::erase_if(dead_, [this](const std::string& worker) {
      return std::count(live_.begin(), live_.end(), worker) > 0;
    });
  }
  if (name == "snapshot") snapshot_ = event.at("iteration").get<int>();
  if (const std::optional<std::string> line = CheckpointLine(event)) return {*line};
  if (name == "link_restored") {
    return {fmt::format("link {} broke between two live workers and was made anew",
                        event.at("link").get<std::string>())};
  }
  if (name == "resumed") {
    trains_ = true;
    std::vector<std::string> lines = RiskLines();
    if (!unresumed_losses_.empty()) lines.insert(lines.begin(), FailureLine(event));
    unresumed_losses_.clear();
    return lines;
  }
  if (const std::optional<std::string> line = ReturnLine(event)) return {*line};
  if (name == "calls_refused") {
    return {fmt::format("{} to the coordinator refused, last: {}",
                        Count(event.at("count").get<std::int64_t>(), "call"),
                        event.at("last").get<std::string>())};
  }
  if (const std::optional<std::string> line = ComputingLine(event)) return {*line};
  if (name == "job_finished" && event.at("how") != "done") {
    const std::string how = event.at("how");
    const bool unsaved = how == "stage_lost" && config_.checkpoint.every == 0;
    return {fmt::format(
        "job over ({}): {}{}", how, event.at("reason").get<std::string>(),
        unsaved ? "; with checkpoint.every set, a job goes back to a checkpoint then" : "")};
  }
  return {};
}

std::optional<std::string> TrainingProgress::CheckpointLine(const Json& event) {
  const std::string name = event.at("event");
  if (name == "checkpoint") {
    checkpoint_ = event.at("iteration").get<int>();
    return fmt::format("checkpoint of iteration {} is complete: {:.1f} MB in {:.0f} ms",
                       *checkpoint_, event.at("bytes").get<double>() / 1e6,
                       event.at("ms").get<double>());
  }
  if (name == "restored") {
    const int iteration = event.at("iteration");
    const bool from_memory = event.at("from") == "memory";
    snapshot_ = from_memory ? std::optional(iteration) : std::nullopt;
    if (!from_memory) checkpoint_ = iteration;
    if (!trains_) resumed_from_ = checkpoint_;
    const int lost = event.at("lost_iterations");
    return fmt::format("every stage has the state of the {} of iteration {}{}",
                       from_memory ? "snapshot in memory" : "checkpoint", iteration,
                       lost > 0 ? fmt::format("; {} done again", Count(lost, "iteration")) : "");
  }
  return std::nullopt;
}

// Workers that leave as they were asked to, and places that come back or do not.
std::optional<std::string> TrainingProgress::ReturnLine(const Json& event) {
  const std::string name = event.at("event");
  const std::string worker = event.value("worker", "");
  if (name == "worker_left") {
    return fmt::format("worker {} left after iteration {}, as it was asked to; nothing runs again",
                       worker, event.at("iteration").get<int>());
  }
  if (name == "rejoin_started") {
    return fmt::format("worker {} comes back: it copies the state of {} in the background", worker,
                       event.at("donor").get<std::string>());
  }
  if (name == "rejoined") {
    dead_.erase(worker);
    return fmt::format("worker {} is back: {:.1f} MB from {} in {:.0f} ms; {} now", worker,
                       event.at("copy_bytes").get<double>() / 1e6,
                       event.at("donor").get<std::string>(), event.at("copy_ms").get<double>(),
                       Count(static_cast<std::int64_t>(live_.size()), "worker"));
  }
  if (name == "rejoin_abandoned") {
    return fmt::format("worker {} does not come back: {}", worker,
                       event.at("reason").get<std::string>());
  }
  if (name == "role_change") {
    return fmt::format("worker {} becomes worker {}: {}", event.at("from").get<std::string>(),
                       event.at("to").get<std::string>(), event.at("reason").get<std::string>());
  }
  if (name == "worker_parked") {
    return fmt::format("worker {} has died {} times: it is parked and not started any more", worker,
                       event.at("deaths").get<int>());
  }
  return std::nullopt;
}

std::string TrainingProgress::FailureLine(const Json& resumed) const {
  std::vector<std::string> losses;
  for (const Json& loss : unresumed_losses_) {
    losses.push_back(
        fmt::format("worker {} lost in iteration {} ({}), noticed by {} after {:.0f} ms",
                    loss.at("worker").get<std::string>(), loss.at("iteration").get<int>(),
                    CauseSentence(loss.at("cause")), loss.at("detected_by").get<std::string>(),
                    loss.at("detect_ms").get<double>()));
  }
  std::vector<std::string> peers;
  for (const auto& [worker, count] : resumed.at("rerouted_to").items()) {
    peers.push_back(fmt::format("{} ({})", worker, count.get<int>()));
  }
  const Json& replayed = resumed.at("replayed_actions");
  return fmt::format(
      "{}; micro-batches go to {}; training resumed {:.0f} ms later with {}{}", Join(losses, "; "),
      peers.empty() ? "nobody" : Join(peers, ", "), resumed.at("resume_ms").get<double>(),
      Count(static_cast<std::int64_t>(live_.size()), "worker"),
      replayed.is_null()
          ? ""
          : fmt::format(", {} repeated", Count(replayed.get<std::int64_t>(), "action")));
}

std::vector<std::string> TrainingProgress::RiskLines() const {
  std::map<int, int> live_per_stage;
  for (const std::string& worker : live_) ++live_per_stage[StageOf(worker)];
  const std::optional<int> newest = std::max(checkpoint_, snapshot_);
  std::vector<std::string> lines;
  int least = config_.parallel.data;
  for (const auto& [stage, live] : live_per_stage) {
    least = std::min(least, live);
    if (live == 1) {
      lines.push_back(fmt::format(
          "stage {}: 1 live worker, the next loss there {}", stage,
          newest ? fmt::format("restores from iteration {}", *newest) : "ends the job"));
    }
  }
  if (lines.empty()) {
    lines.push_back(fmt::format("every stage has {} live workers or more: any {} can be lost now",
                                least, Count(least - 1, "worker")));
  }
  return lines;
}

std::string TrainingProgress::LogLine(const Json& metrics) const {
  const std::int64_t iteration = metrics.at("iteration");
  const int samples =
      config_.parallel.data * config_.batch.micro_batches * config_.batch.micro_batch_size;
  std::string line = fmt::format(
      "iteration {:8}/{:8} | consumed samples: {:12} | elapsed time per iteration (ms): {:.1f} | "
      "tokens per second: {:.1f} | learning rate: {:.6E} | global batch size: {:5} | "
      "lm loss: {:.6E} | grad norm: {:.3f} | live workers: {} | generation: {} |",
      iteration, config_.train.iterations, iteration * samples,
      metrics.at("iteration_ms").get<double>(), metrics.at("tokens_per_s").get<double>(),
      metrics.at("lr").get<double>(), samples, NumberOf(metrics.at("loss")),
      NumberOf(metrics.at("grad_norm")), metrics.at("workers_live").get<int>(),
      metrics.at("generation").get<std::int64_t>());
  if (metrics.contains("validation_loss")) {
    line += fmt::format(" lm loss validation: {:.6E} |", NumberOf(metrics["validation_loss"]));
  }
  return line;
}

std::string TrainingProgress::LiveLine(const Json& metrics) const {
  const int iteration = metrics.at("iteration");
  const double left_s =
      (config_.train.iterations - iteration) * metrics.at("iteration_ms").get<double>() / 1e3;
  return fmt::format("iteration {}/{}  loss {:.4f}  {} tokens/s  {}/{} workers  {} left", iteration,
                     config_.train.iterations, NumberOf(metrics.at("loss")),
                     WithThousands(metrics.at("tokens_per_s")),
                     metrics.at("workers_live").get<int>(),
                     config_.parallel.data * config_.parallel.pipeline, ClockText(left_s));
}

std::string TrainingProgress::PlanCommand() const {
  std::string command =
      fmt::format("recycle plan --dp {} --pp {} --microbatches {}", config_.parallel.data,
                  config_.parallel.pipeline, config_.batch.micro_batches);
  std::set<int> live_stages;
  for (const std::string& worker : live_) live_stages.insert(StageOf(worker));
  // There is no plan for a stage without workers.
  const bool can_plan = static_cast<int>(live_stages.size()) == config_.parallel.pipeline;
  if (!dead_.empty() && can_plan) command += fmt::format(" --failed {}", fmt::join(dead_, ","));
  if (!HasStaggeredSteps(config_)) command += " --no-stagger";  // as it trained
  return command + " --html plan.html";
}

std::vector<std::string> TrainingProgress::Closing(const Json& summary) const {
  const int iterations = summary.at("iterations");
  std::string first = Count(iterations, "iteration");
  if (resumed_from_) first += fmt::format(", {} of them in this run,", iterations - *resumed_from_);
  std::vector<std::string> lines = {
      fmt::format("{} in {:.1f} s", first, summary.at("wall_s").get<double>())};
  if (!summary.at("final_loss").is_null()) {
    lines.push_back(fmt::format("  loss      {:.4f} at the start, {:.4f} at the end",
                                NumberOf(summary.at("first_loss")),
                                summary.at("final_loss").get<double>()));
  }
  const int failures = summary.at("failures");
  lines.push_back(fmt::format("  failures  {}{}, {} repeated", failures,
                              failures > 0 ? fmt::format(" ({})", Join(failed_, ", ")) : "",
                              Count(summary.at("replayed_actions"), "action")));
  if (const int lost = summary.at("lost_iterations"); lost > 0) {
    lines.back() += fmt::format("; {} done again", Count(lost, "iteration"));
  }
  const Json& speed = summary.at("tokens_per_s");
  if (!speed.at("fault_free").is_null()) {
    const double before = speed["fault_free"];
    std::string line = fmt::format("  speed     {} tokens/s", WithThousands(before));
    if (failures > 0) line += " before the failure";
    if (failures > 0 && !speed.at("now").is_null()) {
      const double after = speed["now"];
      line += fmt::format(", {} after it ({:.0f}%)", WithThousands(after), after / before * 100);
    }
    lines.push_back(line);
  }
  if (config_.log.trace) {
    lines.push_back(fmt::format("  look next {}/trace.json: open it at ui.perfetto.dev", run_dir_));
  }
  lines.push_back(fmt::format("            {}", PlanCommand()));
  return lines;
}

std::string WithThousands(double value) {
  std::string digits = fmt::format("{:.0f}", std::abs(value));
  for (int at = static_cast<int>(digits.size()) - 3; at > 0; at -= 3) {
    digits.insert(static_cast<std::size_t>(at), 1, ',');
  }
  return value < 0 ? fmt::format("-{}", digits) : digits;
}

std::string ClockText(double seconds) {
  const auto whole = static_cast<std::int64_t>(std::llround(seconds));
  const std::int64_t hours = whole / 3600;
  const std::int64_t minutes = whole / 60 % 60;
  if (hours > 0) return fmt::format("{}:{:02}:{:02}", hours, minutes, whole % 60);
  return fmt::format("{}:{:02}", minutes, whole % 60);
}

}  // namespace recycle
