// What `recycle --help` and `recycle COMMAND --help` print below the options. Every command has a
// text of its own: without one, CLI11 would print the program's. docs/CLI.md says the same, longer;
// those of plan and simulate stand with their options.
#ifndef RECYCLE_APP_HELP_TEXTS_H_
#define RECYCLE_APP_HELP_TEXTS_H_

namespace recycle {

inline constexpr const char* kDescription =
    "ReCycle trains large models on many workers and keeps training when workers die: a dead\n"
    "worker's micro-batches go to its data-parallel peers, into the bubbles of their schedule.";

inline constexpr const char* kFooter =
    "Examples:\n"
    "  recycle train examples/first-light.yaml            train a small GPT, lose a worker, go on\n"
    "  recycle train job.yaml --inject \"kill 1:1 at F of iteration 5\"\n"
    "  recycle train job.yaml --run-dir runs/NAME --resume    go on from its newest checkpoint\n"
    "  recycle train job.yaml --dry-run                   memory per worker and the plan\n"
    "  recycle profile job.yaml --output profile.json     measure what its parts cost\n"
    "  recycle plan --dp 3 --pp 4 --microbatches 6 --failed 1:2 --text\n"
    "  recycle check plan.json                            is this plan legal, how fast is it\n"
    "  recycle simulate --help                            what failures cost, under which system\n"
    "  recycle config --defaults > job.yaml               a job file with every key explained\n"
    "  recycle status --run-dir runs/NAME                 ask a running job\n"
    "  recycle checkpoint verify runs/NAME                are its checkpoints undamaged\n"
    "  recycle join runs/NAME 1:1                         come back as worker 1:1\n"
    "  recycle chaos job.yaml --trials 50 --seed 1        does training survive random faults\n"
    "\n"
    "`recycle COMMAND --help` explains a command. A worker is written pipeline:stage, as in 1:2.\n"
    "Exit codes: 0 done; 1 the answer is no; 2 bad usage or config; 3 a stage lost all its state;\n"
    "4 coordinator or store not reached; 70 a bug; 129/130/143 after SIGHUP/SIGINT/SIGTERM,\n"
    "all saved.";

inline constexpr const char* kTrainFooter =
    "Examples:\n"
    "  recycle train job.yaml --set train.iterations=10 --set parallel.data=2\n"
    "  recycle train job.yaml --inject \"kill 1:1 at F of iteration 20\"\n"
    "  recycle train job.yaml --no-inject --set checkpoint.every=10 --run-dir runs/NAME\n"
    "  recycle train job.yaml --no-inject --run-dir runs/NAME --resume\n"
    "\n"
    "A fault: WHAT TARGET at POINT[ of iteration N][ on ACTION][ for SECONDSs]\n"
    "         [ and rejoin after SECONDSs]\n"
    "  WHAT    kill, stop, slow xN, drop, diskfull, corrupt\n"
    "  TARGET  a worker 1:2, stage 1, agent:0, all, coordinator, store, link 0:0-0:1\n"
    "  POINT   start, F, I, W, send, recv, all-reduce, commit, step, validate, regroup, "
    "heartbeat,\n"
    "          checkpoint (docs/CLI.md has more)\n"
    "The run folder keeps the losses (metrics.jsonl), what happened (events.jsonl), every action "
    "as\n"
    "executed (trace.json, opens in Perfetto), the plans, and summary.json.";

inline constexpr const char* kCheckFooter =
    "Example:\n"
    "  recycle check plan.json\n"
    "\n"
    "Exit code 0: legal; 1: not legal, or a stated figure is wrong, with the reasons;\n"
    "2: not a plan file.";

inline constexpr const char* kStatusFooter =
    "Examples:\n"
    "  recycle status --run-dir runs/NAME\n"
    "  recycle status --address 127.0.0.1:40213 --json\n"
    "  recycle status --address 192.0.2.10:40213 --job job.yaml\n"
    "\n"
    "Exit code 2: the job's token is refused; 4: no job runs there.";

inline constexpr const char* kAgentFooter =
    "Example, for a job with launch.start_agents false and launch.agents 3, on the second host:\n"
    "  recycle agent runs/NAME 1 --listen 192.0.2.11\n"
    "\n"
    "Agent N starts and watches the workers of pipelines N, N + launch.agents, ...; it ends when "
    "the\n"
    "job is over. The run folder, the program and the corpus have to be there under the same "
    "names\n"
    "as where `recycle train` runs. An address that other machines reach needs "
    "security.token_file.\n"
    "Exit code 0: the job is over; 2: there is no such folder, agent or address; 4: no "
    "coordinator.";

inline constexpr const char* kJoinFooter =
    "Examples:\n"
    "  recycle join runs/NAME 1:1\n"
    "  recycle join runs/NAME 1:1 --listen 192.0.2.11     from another machine\n"
    "\n"
    "This process becomes the worker and stays until the job is over. It copies the state from a\n"
    "live peer in the background and then takes part; nobody waits for it.\n"
    "Exit code 2: the place has a live worker; 4: no job runs there.";

inline constexpr const char* kChaosFooter =
    "Example:\n"
    "  recycle chaos job.yaml --trials 50 --seed 1\n"
    "\n"
    "A trial is one fault, or two at once. It passes if losses, samples and exit code are those "
    "of\n"
    "the unharmed run and no process stays. Exit code 0: all passed; 1: one did not, and the\n"
    "command that repeats its run is printed.";

inline constexpr const char* kDrainFooter =
    "Example:\n"
    "  recycle drain runs/NAME 1:1\n"
    "\n"
    "The worker finishes its iteration and ends with exit code 0: nothing runs again.\n"
    "Exit code 1: it is the last worker of its stage; 2: it does not live; 4: no job runs there.";

inline constexpr const char* kConfigFooter =
    "Examples:\n"
    "  recycle config --defaults > job.yaml               a job file with every key explained\n"
    "  recycle config job.yaml --set train.iterations=10  the job, checked, with all its defaults";

inline constexpr const char* kCheckpointFooter =
    "Examples:\n"
    "  recycle checkpoint inspect runs/NAME\n"
    "  recycle checkpoint verify runs/NAME\n"
    "  recycle checkpoint convert runs/NAME new-folder --files 2\n"
    "\n"
    "docs/CHECKPOINTS.md says what is in them.";

}  // namespace recycle

#endif  // RECYCLE_APP_HELP_TEXTS_H_
