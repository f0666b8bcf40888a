// The agent of one host (launch.agents stand-ins of it on one machine): it owns the executors of
// its pipelines. It starts a spawner, tells it which places to fill, and passes on what waitpid
// says, which is the proof of a death that the coordinator needs no second opinion for. With
// resilience.respawn it starts the dead anew (respawn.h).
//
// When the agent ends, the kernel ends its spawner and its executors.
#ifndef RECYCLE_APP_AGENT_H_
#define RECYCLE_APP_AGENT_H_

#include <vector>

#include "recycle/app/job_config.h"
#include "recycle/base/ids.h"

namespace recycle {

// The workers of agent `agent`: pipelines are dealt round robin, so pipeline k belongs to agent
// k mod launch.agents. Ascending.
std::vector<WorkerId> WorkersOfAgent(const JobConfig& config, int agent);

}  // namespace recycle

#endif  // RECYCLE_APP_AGENT_H_
