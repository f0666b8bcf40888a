// What an executor process needs to know, out of the run folder alone: the resolved config, the
// prepared corpus, and the names of its own files. Needs no libtorch.
#ifndef RECYCLE_APP_EXECUTOR_SETUP_H_
#define RECYCLE_APP_EXECUTOR_SETUP_H_

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "recycle/app/job_config.h"
#include "recycle/app/run_folder.h"
#include "recycle/base/ids.h"
#include "recycle/base/status.h"
#include "recycle/data/corpus.h"
#include "recycle/executor/executor_options.h"
#include "recycle/nn/model_options.h"

namespace recycle {

ModelOptions ModelOptionsOf(const JobConfig& config);

// How often a worker says that it lives: a tenth of the failure timeout, so that silence means
// something; at most 200 ms.
std::chrono::milliseconds HeartbeatInterval(const JobConfig& config);

// The corpus of a run, as corpus.json of its folder tells every process of the job.
Status WriteCorpusFile(const PreparedCorpus& corpus, const RunFolder& folder);
StatusOr<PreparedCorpus> ReadCorpusFile(const RunFolder& folder);

// What must be in the environment of recycle-executor before its libraries load. Without it,
// processes that share the cores fall to a few percent of their speed: libgomp and OpenBLAS start a
// thread per core each, and spin.
std::vector<std::pair<std::string, std::string>> OneThreadEnvironment();

// The processes that an executor belongs to, for faults that hit them; 0: it has none.
struct ParentProcesses {
  int agent = 0;
  int launcher = 0;
};

// The options of `worker` in the run of `folder`, owned by `agent`.
StatusOr<ExecutorOptions> ExecutorOptionsOf(const JobConfig& config, const RunFolder& folder,
                                            WorkerId worker, int agent,
                                            const ParentProcesses& parents);

}  // namespace recycle

#endif  // RECYCLE_APP_EXECUTOR_SETUP_H_
