#include "recycle/app/command_line.h"

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <CLI/CLI.hpp>
#include <utility>

#include "recycle/app/check_command.h"
#include "recycle/app/checkpoint_command.h"
#include "recycle/app/config_command.h"
#include "recycle/app/help_texts.h"
#include "recycle/app/option_checks.h"
#include "recycle/app/plan_command.h"
#include "recycle/app/plan_options.h"
#include "recycle/app/profile_command.h"
#include "recycle/app/report_error.h"
#include "recycle/app/simulate_command.h"
#include "recycle/app/simulate_options.h"
#include "recycle/base/utf8.h"
#include "recycle/plan/nearest.h"

namespace recycle {
namespace {

// The arguments of all commands and what the chosen one returned.
struct Invocation {
  TrainArguments train;
  bool resume = false;
  StatusArguments status;
  PlaceArguments join;
  PlaceArguments drain;
  ChaosArguments chaos;
  CoordinatorArguments coordinator;
  AgentArguments agent;
  ProfileArguments profile;
  PlanArguments plan;
  SimulateArguments simulate;
  CheckArguments check;
  ConfigArguments config;
  CheckpointArguments checkpoint;
  int code = 0;
};

void AddSetOption(CLI::App& command, std::vector<std::string>& overrides) {
  command
      .add_option("--set", overrides,
                  "Override a key of the job, e.g. --set train.iterations=10; may be repeated")
      ->type_name("KEY=VALUE")
      ->allow_extra_args(false);
}

// Of the commands that run a job.
void AddJobOptions(CLI::App& command, std::string& config_path,
                   std::vector<std::string>& overrides) {
  command.add_option("job", config_path, "The job's YAML file (docs/CONFIG.md)")
      ->type_name("FILE")
      ->required();
  AddSetOption(command, overrides);
}

void AddTrain(CLI::App& app, const CommandHandlers& handlers, Invocation& call) {
  CLI::App* train = app.add_subcommand("train", "Train the job of a YAML file on this machine");
  train->footer(kTrainFooter);
  TrainArguments& arguments = call.train;
  AddJobOptions(*train, arguments.config_path, arguments.overrides);
  CLI::Option* run_dir =
      train
          ->add_option("--run-dir", arguments.run_dir,
                       "Folder of this run, new or empty (default: a new one under runs/)")
          ->type_name("DIR");
  train->add_option("--inject", arguments.inject, "Inject a fault, see below; may be repeated")
      ->type_name("FAULT")
      ->allow_extra_args(false);
  train->add_flag("--no-inject", arguments.no_inject, "Drop the faults that the job file lists");
  train
      ->add_option("--plan", arguments.plan_file,
                   "Run this plan file's schedule as it is until a worker dies,\n"
                   "or schedule.measure finds a faster one")
      ->type_name("FILE");
  CLI::Option* resume = train->add_flag("--resume", arguments.resume,
                                        "Go on from the newest checkpoint of --run-dir");
  CLI::Option* dry_run = train->add_flag("--dry-run", arguments.dry_run,
                                         "Print memory per worker and the plan, train nothing");
  train->add_flag("--json", arguments.json, "With --dry-run: print one JSON object")
      ->needs(dry_run);
  resume->needs(run_dir)->excludes(dry_run);
  train->callback([&call, &handlers] { call.code = handlers.train(call.train); });
}

void AddProfile(CLI::App& app, const CommandHandlers& handlers, Invocation& call) {
  CLI::App* profile =
      app.add_subcommand("profile", "Run a job for a while and measure what its parts cost");
  ProfileArguments& arguments = call.profile;
  AddJobOptions(*profile, arguments.config_path, arguments.overrides);
  profile->add_option("--iterations", arguments.iterations, "How many to run (100)")
      ->type_name("N")
      ->check(CLI::Range(kLeastProfileIterations, 1'000'000));
  profile
      ->add_option("--run-dir", arguments.run_dir,
                   "Folder of the run (new or empty); default: a temporary one, then removed")
      ->type_name("DIR");
  profile->add_option("--output", arguments.output, "Write the profile to this file")
      ->type_name("FILE");
  profile->add_flag("--json", arguments.json, "Print one JSON object");
  profile->footer(
      "The first tenth of the iterations (2 to 10) warms up and does not count. The file is what\n"
      "recycle plan --profile and recycle simulate --profile read. docs/PROFILE.md says what is\n"
      "measured. The run's own lines go to standard error.");
  profile->callback([&call, &handlers] { call.code = handlers.profile(call.profile); });
}

void AddStatus(CLI::App& app, const CommandHandlers& handlers, Invocation& call) {
  CLI::App* status = app.add_subcommand("status", "Ask a running job how it is doing");
  StatusArguments& arguments = call.status;
  CLI::Option* run_dir =
      status->add_option("--run-dir", arguments.run_dir, "Folder of the run")->type_name("DIR");
  CLI::Option* address = status
                             ->add_option("--address", arguments.address,
                                          "The coordinator's address, as in its run folder")
                             ->type_name("HOST:PORT");
  status
      ->add_option("--job", arguments.job,
                   "With --address: the job's file, whose section security says how to ask")
      ->type_name("FILE")
      ->needs(address);
  status->add_flag("--json", arguments.json, "Print one JSON object");
  status->footer(kStatusFooter);
  run_dir->excludes(address);
  status->callback([&call, &handlers, run_dir, address] {
    if (run_dir->count() + address->count() == 0) {
      throw CLI::RequiredError("status needs --run-dir DIR or --address HOST:PORT",
                               CLI::ExitCodes::RequiredError);
    }
    call.code = handlers.status(call.status);
  });
}

void AddPlaceOptions(CLI::App& command, PlaceArguments& arguments) {
  command.add_option("run-dir", arguments.run_dir, "Folder of the run")
      ->type_name("DIR")
      ->required();
  command.add_option("worker", arguments.worker, "A place of the job, as in 1:2")
      ->type_name("K:I")
      ->required();
}

// Of commands whose workers may run on another machine than the coordinator.
void AddListenOption(CLI::App& command, std::string& listen) {
  command
      .add_option("--listen", listen,
                  "The address of this machine that other workers reach it by (launch.listen)")
      ->type_name("ADDRESS");
}

void AddAgent(CLI::App& app, const CommandHandlers& handlers, Invocation& call) {
  CLI::App* agent = app.add_subcommand("agent", "Run one agent's workers of a job on this machine");
  agent->add_option("run-dir", call.agent.run_dir, "Folder of the run")
      ->type_name("DIR")
      ->required();
  agent->add_option("agent", call.agent.agent, "Its number, from 0 to launch.agents - 1")
      ->type_name("N")
      ->required()
      ->check(CLI::NonNegativeNumber);
  AddListenOption(*agent, call.agent.listen);
  agent->footer(kAgentFooter);
  agent->callback([&call, &handlers] { call.code = handlers.agent(call.agent); });
}

void AddMembership(CLI::App& app, const CommandHandlers& handlers, Invocation& call) {
  CLI::App* join = app.add_subcommand("join", "Take a dead worker's place in a running job");
  AddPlaceOptions(*join, call.join);
  AddListenOption(*join, call.join.listen);
  join->footer(kJoinFooter);
  join->callback([&call, &handlers] { call.code = handlers.join(call.join); });

  CLI::App* drain = app.add_subcommand("drain", "Let a worker leave a running job in good order");
  AddPlaceOptions(*drain, call.drain);
  drain->footer(kDrainFooter);
  drain->callback([&call, &handlers] { call.code = handlers.drain(call.drain); });
}

void AddChaos(CLI::App& app, const CommandHandlers& handlers, Invocation& call) {
  CLI::App* chaos =
      app.add_subcommand("chaos", "Train under random faults and compare with the unharmed run");
  ChaosArguments& arguments = call.chaos;
  AddJobOptions(*chaos, arguments.config_path, arguments.overrides);
  chaos->add_option("--trials", arguments.trials, "How many trials (20); a run holds several")
      ->type_name("N")
      ->check(CLI::PositiveNumber);
  chaos->add_option("--seed", arguments.seed, "Of the first run (1); the next ones count up")
      ->type_name("S")
      ->check(CLI::NonNegativeNumber);
  chaos->add_option("--run-dir", arguments.run_dir, "Folder of the runs (new or empty)")
      ->type_name("DIR");
  chaos->add_flag("--json", arguments.json, "Print one JSON object; progress goes to stderr");
  chaos->footer(kChaosFooter);
  chaos->callback([&call, &handlers] { call.code = handlers.chaos(call.chaos); });
}

void AddPlan(CLI::App& app, Invocation& call, std::ostream& out, std::ostream& err) {
  CLI::App* plan = app.add_subcommand("plan", "Plan a schedule, with or without failures");
  AddPlanOptions(*plan, call.plan);
  plan->callback(
      [&call, &out, &err] { call.code = ReportError(RunPlanCommand(call.plan, out), err); });
}

void AddSimulate(CLI::App& app, Invocation& call, std::ostream& out, std::ostream& err) {
  CLI::App* simulate =
      app.add_subcommand("simulate", "What failures cost a job, under this and other systems");
  AddSimulateOptions(*simulate, call.simulate);
  simulate->callback([&call, &out, &err] {
    call.code = ReportError(RunSimulateCommand(call.simulate, out), err);
  });
}

void AddCheck(CLI::App& app, Invocation& call, std::ostream& out, std::ostream& err) {
  CLI::App* check = app.add_subcommand("check", "Prove a plan legal and recompute its figures");
  check->add_option("plan", call.check.plan_file, "The plan file (docs/PLAN_FORMAT.md)")
      ->type_name("FILE")
      ->required();
  check->add_flag("--json", call.check.json, "Print one JSON object");
  check->footer(kCheckFooter);
  check->callback([&call, &out, &err] {
    const StatusOr<ExitCode> code = RunCheckCommand(call.check, out);
    call.code = code.ok() ? static_cast<int>(*code) : ReportError(code.status(), err);
  });
}

void AddConfig(CLI::App& app, Invocation& call, std::ostream& out, std::ostream& err) {
  CLI::App* config = app.add_subcommand("config", "Check a job file, or print every key");
  ConfigArguments& arguments = call.config;
  CLI::Option* job =
      config->add_option("job", arguments.config_path, "A job file to check and print as resolved")
          ->type_name("FILE");
  AddSetOption(*config, arguments.overrides);
  CLI::Option* defaults = config->add_flag("--defaults", arguments.defaults,
                                           "Print every key with its default, as YAML");
  CLI::Option* markdown =
      config->add_flag("--markdown", arguments.markdown, "Print docs/CONFIG.md");
  for (CLI::Option* const other : {job, config->get_option("--set"), markdown}) {
    defaults->excludes(other);
    if (other != markdown) markdown->excludes(other);
  }
  config->footer(kConfigFooter);
  config->callback(
      [&call, &out, &err] { call.code = ReportError(RunConfigCommand(call.config, out), err); });
}

void AddCheckpoint(CLI::App& app, Invocation& call, std::ostream& out, std::ostream& err) {
  CLI::App* checkpoint =
      app.add_subcommand("checkpoint", "Look at, prove and rewrite the checkpoints of a run");
  checkpoint->require_subcommand(1);
  checkpoint->footer(kCheckpointFooter);
  CheckpointArguments& arguments = call.checkpoint;
  CLI::App* inspect = checkpoint->add_subcommand("inspect", "Print what they are the state of");
  CLI::App* verify = checkpoint->add_subcommand("verify", "Read every byte, compare every hash");
  CLI::App* convert =
      checkpoint->add_subcommand("convert", "Write one anew, in another number of files");
  for (CLI::App* const command : {inspect, verify, convert}) {
    command->add_option("path", arguments.path, "A run folder, or a checkpoint's folder")
        ->type_name("FOLDER")
        ->required();
  }
  inspect->add_flag("--json", arguments.json, "Print one JSON object");
  convert->add_option("target", arguments.target, "The new folder")
      ->type_name("FOLDER")
      ->required();
  convert->add_option("--files", arguments.files, "In how many files (1)")
      ->type_name("N")
      ->check(IntegerBetween(1, 10'000));
  verify->footer("Exit code 0: undamaged; 1: damaged, or nothing complete; 2: no such folder.");
  inspect->callback([&call, &out, &err] {
    call.code = ReportError(RunCheckpointInspect(call.checkpoint, out), err);
  });
  verify->callback([&call, &out, &err] {
    const StatusOr<ExitCode> code = RunCheckpointVerify(call.checkpoint, out);
    call.code = code.ok() ? static_cast<int>(*code) : ReportError(code.status(), err);
  });
  convert->callback([&call, &out, &err] {
    call.code = ReportError(RunCheckpointConvert(call.checkpoint, out), err);
  });
}

// The processes of a job: started by the launcher, not by people.
void AddProcesses(CLI::App& app, const CommandHandlers& handlers, Invocation& call) {
  CLI::App* coordinator = app.add_subcommand("coordinator", "A job's coordinator")->group("");
  coordinator->add_option("--run-dir", call.coordinator.run_dir)->required();
  coordinator->add_option("--report-fd", call.coordinator.report_fd);
  coordinator->add_option("--resume-from", call.coordinator.resume_from);
  coordinator->add_option("--launch", call.coordinator.launch);
  coordinator->callback([&call, &handlers] { call.code = handlers.coordinator(call.coordinator); });

  CLI::App* executor =
      app.add_subcommand("executor", "One executor: recycle-executor run with these arguments")
          ->group("")
          ->prefix_command();
  executor->set_help_flag();
  executor->callback([&call, &handlers, executor] {
    call.code = handlers.executor(ExecutorArguments{executor->remaining()});
  });
}

// The chosen command, down to its last word, or the program itself.
const CLI::App& Chosen(const CLI::App& app) {
  const std::vector<CLI::App*> chosen = app.get_subcommands();
  return chosen.empty() ? app : Chosen(*chosen.front());
}

// "recycle checkpoint verify".
std::string FullName(const CLI::App& command) {
  const CLI::App* const parent = command.get_parent();
  return parent == nullptr ? command.get_name() : FullName(*parent) + " " + command.get_name();
}

std::vector<std::string> KnownWords(const CLI::App& app, bool options) {
  std::vector<std::string> words;
  if (options) {
    for (const CLI::Option* option : app.get_options()) {
      if (!option->get_positional()) words.push_back(option->get_name());
    }
    return words;
  }
  for (const CLI::App* command : app.get_subcommands([](const CLI::App*) { return true; })) {
    if (!command->get_group().empty()) words.push_back(command->get_name());
  }
  return words;
}

// "--dpp is not an option of plan; the nearest valid choice is --dp".
Status UnexpectedWord(const CLI::App& app) {
  const CLI::App& command = Chosen(app);
  std::vector<std::string> remaining = app.remaining(/*recurse=*/true);
  std::string word = remaining.empty() ? "" : remaining.front();
  const bool is_option = !word.empty() && word.front() == '-';
  if (is_option) word = word.substr(0, word.find('='));
  const std::string owner = FullName(command);
  const std::vector<std::string> known = KnownWords(command, is_option);
  if (!is_option && known.empty()) {
    return absl::InvalidArgumentError(
        fmt::format("{} takes no further word, but got {}; see {} --help", owner, word, owner));
  }
  return absl::InvalidArgumentError(
      fmt::format("{} is not {} of {}; the nearest valid choice is {}", word,
                  is_option ? "an option" : "a command", owner,
                  NearestName(word, std::vector<std::string_view>(known.begin(), known.end()))));
}

Status NoCommand() {
  return absl::InvalidArgumentError(
      "no command is given; try recycle train examples/first-light.yaml, or recycle --help");
}

// What CLI11 found wrong, as one sentence.
int ReportParseError(const CLI::App& app, const CLI::ParseError& error, std::ostream& err) {
  // An unknown word often makes something else go missing: it is the one to name.
  if (!app.remaining(/*recurse=*/true).empty()) return ReportError(UnexpectedWord(app), err);
  const CLI::App& command = Chosen(app);
  if (&command == &app) return ReportError(NoCommand(), err);
  const std::string owner = FullName(command);
  const std::vector<std::string> commands = KnownWords(command, /*options=*/false);
  const std::string what = commands.empty() ? error.what()
                                            : fmt::format("{} needs one more word: {}", owner,
                                                          fmt::join(commands, ", "));
  return ReportError(absl::InvalidArgumentError(fmt::format("{}; see {} --help", what, owner)),
                     err);
}

// No option and no name is ever empty: that is a variable of a script that is not set.
Status CheckWords(const std::vector<std::string>& arguments) {
  for (std::size_t i = 0; i < arguments.size(); ++i) {
    const std::string& word = arguments[i];
    const std::string before = i == 0 ? "recycle" : arguments[i - 1];
    if (word.empty() || (word.starts_with("--") && word.find('=') == word.size() - 1)) {
      const std::string option = word.empty() ? before : word.substr(0, word.size() - 1);
      return absl::InvalidArgumentError(fmt::format(
          "the word after {} is empty, but it must say something; give it a value or leave it out",
          option));
    }
    if (!IsUtf8(word)) {
      return absl::InvalidArgumentError(fmt::format(
          "the word after {} is not UTF-8, but it must be; rename what it names", before));
    }
  }
  return OkStatus();
}

// Results that nobody could write down are no results. `code` otherwise.
int CheckWritten(int code, std::ostream& out, std::ostream& err) {
  if (out.flush() || code != 0) return code;
  return ReportError(
      absl::ResourceExhaustedError(
          "standard output cannot be written (full, or closed); send it somewhere else"),
      err);
}

}  // namespace

int RunCommandLine(const std::vector<std::string>& arguments, const CommandHandlers& handlers,
                   std::ostream& out, std::ostream& err) {
  if (const Status status = CheckWords(arguments); !status.ok()) return ReportError(status, err);
  Invocation call;
  CLI::App app(kDescription, "recycle");
  app.footer(kFooter);
  app.set_version_flag("--version", "recycle " RECYCLE_VERSION);
  app.require_subcommand(1);
  AddTrain(app, handlers, call);
  AddProfile(app, handlers, call);
  AddPlan(app, call, out, err);
  AddSimulate(app, call, out, err);
  AddCheck(app, call, out, err);
  AddStatus(app, handlers, call);
  AddAgent(app, handlers, call);
  AddMembership(app, handlers, call);
  AddChaos(app, handlers, call);
  AddConfig(app, call, out, err);
  AddCheckpoint(app, call, out, err);
  AddProcesses(app, handlers, call);

  std::vector<std::string> reversed(arguments.rbegin(), arguments.rend());
  try {
    app.parse(std::move(reversed));
  } catch (const CLI::Success& asked) {  // --help, --version
    return app.exit(asked, out, err);
  } catch (const CLI::ParseError& error) {
    return ReportParseError(app, error, err);
  }
  // What a job has to say is in its run folder: it does not fail for want of a listener.
  return app.got_subcommand("train") ? call.code : CheckWritten(call.code, out, err);
}

}  // namespace recycle
