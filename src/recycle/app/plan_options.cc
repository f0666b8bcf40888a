#include "recycle/app/plan_options.h"

#include <fmt/format.h>

#include "recycle/app/option_checks.h"

namespace recycle {
namespace {

constexpr const char* kFooter =
    "Examples:\n"
    "  recycle plan --dp 3 --pp 4 --microbatches 6 --failed 1:2 --text\n"
    "  recycle plan --dp 3 --pp 4 --microbatches 6 --failed 1:2 --html plan.html --out plan.json\n"
    "  recycle plan --dp 8 --pp 8 --microbatches 16 --cost F=1,I=1.05,W=0.85 --memory-cap 1f1b\n"
    "  recycle plan --dp 32 --pp 64 --microbatches 64 --all-failures 512 --out-dir table\n"
    "  recycle plan --table table/table.json --failures 20 --out plan.json\n"
    "\n"
    "A place is pipeline:stage. Exit code 1: there is no such plan (a stage without live workers).";

void AddPlannedJob(CLI::App& command, PlanArguments& arguments) {
  command.add_option("--dp", arguments.dp, "Data-parallel pipelines")
      ->check(IntegerBetween(1, 10'000))
      ->type_name("N");
  command.add_option("--pp", arguments.pp, "Pipeline stages")
      ->check(IntegerBetween(1, 10'000))
      ->type_name("N");
  command.add_option("--microbatches", arguments.microbatches, "Micro-batches per pipeline")
      ->check(IntegerBetween(1, 1'000'000))
      ->type_name("N");
  command.add_option("--tp", arguments.tp, "Tensor-parallel ranks per worker; they fail together")
      ->check(IntegerBetween(1, 10'000))
      ->type_name("N");
  command.add_option("--failed", arguments.failed, "Dead places, e.g. 1:2,0:3")
      ->type_name("PLACES");
  command
      .add_option("--slow", arguments.slow, "Stragglers and how many times slower, e.g. 1:2=1.5")
      ->type_name("PLACE=FACTOR");
  CLI::Option* cost =
      command
          .add_option(
              "--cost", arguments.cost,
              "Durations, e.g. F=1,I=1,W=1,send=0,opt=0,allreduce=0; deferred=1 is the share of "
              "an activation kept from I to W")
          ->type_name("COSTS");
  CLI::Option* profile =
      command
          .add_option("--profile", arguments.profile,
                      "Costs from a file: the object `costs` of a plan file, a plan file, or "
                      "Parcae's layer profiles (then --model names the entry)")
          ->type_name("FILE")
          ->excludes(cost);
  command
      .add_option("--model", arguments.model, "The entry of --profile, such as gpt-2_mbs2_seq1024")
      ->type_name("NAME")
      ->needs(profile);
  command
      .add_option("--memory-cap", arguments.memory_cap,
                  "Micro-batches a worker may hold: a number, 1f1b (PP - i at stage i), or none; "
                  "default: what the profile says, else none")
      ->type_name("CAP");
}

// Failures by number instead of by place, and the table for all numbers.
void AddPlannedFailures(CLI::App& command, PlanArguments& arguments) {
  CLI::Option* failed = command.get_option("--failed");
  CLI::Option* failures =
      command
          .add_option("--failures", arguments.failures,
                      "So many dead workers, at the places where they do least harm")
          ->check(IntegerBetween(0, 100'000'000))
          ->type_name("N")
          ->excludes(failed);
  command
      .add_option_function<int>(
          "--normalize", [&arguments](const int& extra) { arguments.normalize = extra; },
          "Spread the places of --failed by turning live workers into dead ones' places; S extra "
          "failures per stage are allowed (default 0)")
      ->expected(0, 1)
      ->default_str("0")
      ->check(IntegerBetween(0, 1'000'000))
      ->type_name("S")
      ->needs(failed);
  CLI::Option* all = command
                         .add_option("--all-failures", arguments.all_failures,
                                     "The plan table for 0 to N failures, a line each")
                         ->check(IntegerBetween(0, 100'000'000))
                         ->type_name("N")
                         ->excludes(failed)
                         ->excludes(failures);
  command.add_option("--out-dir", arguments.out_dir, "Write the table as DIR/table.json")
      ->type_name("DIR")
      ->needs(all);
  command
      .add_flag("--materialize", arguments.materialize,
                "Build, validate and time every plan of the table in memory")
      ->needs(all);
  CLI::Option* table =
      command
          .add_option("--table", arguments.table,
                      "Expand a plan of this table file, with --failures or --failed")
          ->type_name("FILE")
          ->excludes(all);
  for (const char* job : {"--dp", "--pp", "--microbatches", "--tp", "--slow", "--cost", "--profile",
                          "--model", "--memory-cap", "--method", "--no-decouple", "--no-stagger",
                          "--virtual", "--affinity", "--normalize"}) {
    table->excludes(command.get_option(job));  // the table knows its job
  }
  for (const char* single : {"--out", "--trace", "--html", "--text", "--export"}) {
    all->excludes(command.get_option(single));
  }
}

void AddMethodOptions(CLI::App& command, PlanArguments& arguments) {
  command
      .add_option("--method", arguments.method,
                  "adaptive (the default), gpipe, 1f1b, interleaved, zb-h1, zb-h2, zb-v, naive or "
                  "exact")
      ->type_name("METHOD");
  command.add_flag("--no-decouple", arguments.no_decouple, "Keep I and W in one action (B)");
  command.add_flag("--no-stagger", arguments.no_stagger,
                   "All stages wait for the slowest before they step");
  command
      .add_option("--virtual", arguments.virtual_stages,
                  "Stages per worker (default 2 for interleaved and zb-v, else 1)")
      ->check(IntegerBetween(1, 100))
      ->type_name("N");
  command
      .add_option("--affinity", arguments.affinity,
                  "pool: any peer may run a micro-batch; strict: only orphans move")
      ->type_name("KIND");
  command.add_option("--time-limit", arguments.time_limit_s, "For --method exact")
      ->check(PositiveReal())
      ->type_name("SECONDS");
}

void AddOutputOptions(CLI::App& command, PlanArguments& arguments) {
  command.add_option("--out", arguments.out, "Write the plan as JSON")->type_name("FILE");
  command.add_option("--trace", arguments.trace, "Write a Chrome trace (opens in Perfetto)")
      ->type_name("FILE");
  command.add_option("--html", arguments.html, "Write a picture of the plan as a web page")
      ->type_name("FILE");
  CLI::Option* text = command.add_flag("--text", arguments.text, "Print the plan as a grid");
  CLI::Option* json = command.add_flag("--json", arguments.json, "Print the figures as JSON");
  CLI::Option* csv =
      command
          .add_option(
              "--export", arguments.export_format,
              "torch-csv: print the schedule as PyTorch's pipelining reads it, nothing else")
          ->check(OneOf({"torch-csv"}))
          ->type_name("FORMAT");
  text->excludes(json);
  csv->excludes(text);
  csv->excludes(json);
}

}  // namespace

void AddPlanOptions(CLI::App& command, PlanArguments& arguments) {
  command.footer(kFooter);
  AddPlannedJob(command, arguments);
  AddMethodOptions(command, arguments);
  AddOutputOptions(command, arguments);
  AddPlannedFailures(command, arguments);
}

}  // namespace recycle
