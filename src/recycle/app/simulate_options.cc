#include "recycle/app/simulate_options.h"

#include <fmt/format.h>

#include "recycle/app/option_checks.h"

namespace recycle {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  recycle simulate --dp 8 --pp 4 --microbatches 16 --model gpt3-6.7b --device a100-80g \\\n"
    "                   --mtbf-hours 500 --mttr-hours 4 --hours 720\n"
    "  recycle simulate --dp 25 --pp 16 --tp 8 --microbatches 64 --cost F=100,I=100,W=100 \\\n"
    "                   --trace fault_trace.json --nodes 400 --policy recycle,oobleck --html "
    "r.html\n"
    "\n"
    "docs/simulator.md has every policy's rules and constants. A bad trace is refused with its\n"
    "line and exit code 2.";

// A number from `least` to `most`.
CLI::Validator RealBetween(double least, double most) {
  const auto check = [least, most](const std::string& text) -> std::string {
    const std::optional<double> number = ParseReal(text);
    if (number && *number >= least && *number <= most) return "";
    return fmt::format("{} is not a number from {} to {}; the nearest valid choice is {}", text,
                       least, most, std::clamp(number.value_or(least), least, most));
  };
  return {check, ""};
}

void AddSimulatedJob(CLI::App& command, SimulateArguments& arguments) {
  command.add_option("--dp", arguments.dp, "Data-parallel pipelines")
      ->check(IntegerBetween(1, 10'000))
      ->type_name("N")
      ->required();
  command.add_option("--pp", arguments.pp, "Pipeline stages")
      ->check(IntegerBetween(1, 10'000))
      ->type_name("N")
      ->required();
  command.add_option("--microbatches", arguments.microbatches, "Micro-batches per pipeline")
      ->check(IntegerBetween(1, 100'000))
      ->type_name("N")
      ->required();
  command.add_option("--tp", arguments.tp, "Tensor-parallel ranks per worker; they fail together")
      ->check(IntegerBetween(1, 10'000))
      ->type_name("N");
  command
      .add_option("--gpus-per-node", arguments.gpus_per_node,
                  "GPUs that fail together, a multiple of --tp (default --tp)")
      ->check(IntegerBetween(1, 10'000))
      ->type_name("G");
  command
      .add_option("--nodes", arguments.nodes,
                  "Nodes of the cluster: for random failures (default: as many as the job has) and "
                  "StepFun's JSON, which lists only those that ever failed")
      ->check(IntegerBetween(1, 1'000'000))
      ->type_name("N");
  command
      .add_option("--micro-batch-size", arguments.micro_batch_size,
                  "Samples per micro-batch (default 1, or the profile's)")
      ->check(IntegerBetween(1, 1'000'000))
      ->type_name("N");
}

void AddCostOptions(CLI::App& command, SimulateArguments& arguments) {
  command
      .add_option("--profile", arguments.profile,
                  "Costs from a file: the `costs` object of a plan file, or Parcae's layer "
                  "profiles (then --model names the entry)")
      ->type_name("FILE");
  command
      .add_option("--model", arguments.model,
                  "Costs from a model's shape: gpt3-medium, -3.35b, -6.7b, -18.4b, -39.1b, -76.1b, "
                  "-145.6b or llama3-405b")
      ->type_name("NAME");
  command
      .add_option("--device", arguments.device,
                  "With --model: a100-80g, h100-80g, h200-141g or a40-48g")
      ->type_name("NAME");
  command.add_option("--sequence", arguments.sequence, "With --model: tokens of a sample")
      ->check(IntegerBetween(1, 10'000'000))
      ->type_name("N");
  command
      .add_option("--cost", arguments.cost,
                  "Costs in milliseconds: F=100,I=105,W=85,send=0,opt=0,allreduce=0")
      ->type_name("COSTS");
  command
      .add_option("--memory-cap", arguments.memory_cap,
                  "Micro-batches a worker may hold in re-routing plans: a number, 1f1b or none "
                  "(default: PP)")
      ->type_name("CAP");
}

void AddSimulatedFailures(CLI::App& command, SimulateArguments& arguments) {
  CLI::Option* trace =
      command
          .add_option("--trace", arguments.trace,
                      "What happens to the nodes: time_ms,add|remove,nodeN; StepFun's JSON; or a "
                      "curve of counts")
          ->type_name("FILE");
  command
      .add_option("--trace-unit", arguments.trace_unit,
                  "Unit of the times of a curve time,count: ms (the default), s or h")
      ->check(OneOf({"ms", "s", "h"}))
      ->type_name("UNIT")
      ->needs(trace);
  command
      .add_option(
          "--start", arguments.start_h,
          "Hour of the trace at which the job starts (default: as soon as it has its nodes)")
      ->check(RealBetween(0, 1e6))
      ->type_name("H")
      ->needs(trace);
  CLI::Option* mtbf = command
                          .add_option("--mtbf-hours", arguments.mtbf_hours,
                                      "Random failures: mean up-time of a node")
                          ->check(PositiveReal())
                          ->type_name("H")
                          ->excludes(trace);
  command
      .add_option("--weibull-shape", arguments.weibull_shape,
                  "Up-times are Weibull with this shape (default 1: exponential)")
      ->check(RealBetween(0.1, 100))
      ->type_name("K")
      ->needs(mtbf);
  command
      .add_option("--mttr-hours", arguments.mttr_hours,
                  "Mean down-time of a node (default 0: repaired at once)")
      ->check(RealBetween(0, 1e6))
      ->type_name("H")
      ->needs(mtbf);
  command
      .add_option("--correlated", arguments.correlated,
                  "Probability that a failure takes the next node too")
      ->check(RealBetween(0, 1))
      ->type_name("P")
      ->needs(mtbf);
  command
      .add_option("--seed", arguments.seed, "Of random failures and of who leaves under a curve")
      ->check(IntegerBetween(0, std::numeric_limits<std::int64_t>::max()))
      ->type_name("S");
  command
      .add_option("--hours", arguments.hours,
                  "How long the job runs (default: until the trace ends; 720 for random failures)")
      ->check(PositiveReal())
      ->type_name("H");
}

void AddPolicyOptions(CLI::App& command, SimulateArguments& arguments) {
  command
      .add_option("--policy", arguments.policy,
                  "recycle, recycle-rerun, recycle-no-stagger, recycle-no-decouple, recycle-naive, "
                  "fault-free, fault-scaled, restart, spares, elastic, bamboo, oobleck, "
                  "oobleck-published, varuna; several with commas (default: all)")
      ->type_name("NAMES");
  command.add_flag(
      "--no-moves", arguments.no_moves,
      "recycle: live workers do not take over dead places, nodes come back to their own");
  command.add_flag("--search", arguments.search,
                   "recycle: the planner's whole portfolio for every failure count (slow)");
  command.add_option("--set", arguments.set, "Override a constant, e.g. --set recycle.detect_s=1")
      ->type_name("NAME=VALUE")
      ->allow_extra_args(false);
  command
      .add_option("--audit", arguments.audit,
                  "Write every interval, a JSON object a line, and its plans to FILE.plans/")
      ->type_name("FILE");
  command.add_flag("--json", arguments.json, "Print one JSON object");
  command.add_option("--html", arguments.html, "Write the report as a web page")->type_name("FILE");
}

}  // namespace

void AddSimulateOptions(CLI::App& command, SimulateArguments& arguments) {
  command.footer(kFooter);
  AddSimulatedJob(command, arguments);
  AddCostOptions(command, arguments);
  AddSimulatedFailures(command, arguments);
  AddPolicyOptions(command, arguments);
}

}  // namespace recycle
