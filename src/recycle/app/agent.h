// The agent of one host (launch.agents stand-ins of it on one machine): it owns the executors of
// its pipelines. It starts a spawner, tells it which places to fill, and passes on what waitpid
// says, which is the proof of a death that the coordinator needs no second opinion for. With
// resilience.respawn it starts the dead anew (respawn.h).
//
// It ends when the job is over: when the leader's address, which it has seen, is gone from the run
// folder, or nobody has led for ten minutes. Then the kernel ends its spawner and its executors.
#ifndef RECYCLE_APP_AGENT_H_
#define RECYCLE_APP_AGENT_H_

#include <vector>

#include "recycle/app/job_config.h"
#include "recycle/base/ids.h"

namespace recycle {

// Pipelines are dealt round robin: the agent of a worker of pipeline k is k mod `agents`.
int AgentOf(WorkerId worker, int agents);

// The workers of agent `agent`, ascending.
std::vector<WorkerId> WorkersOfAgent(const JobConfig& config, int agent);

}  // namespace recycle

#endif  // RECYCLE_APP_AGENT_H_
