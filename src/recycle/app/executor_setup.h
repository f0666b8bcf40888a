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

// Whom an executor belongs to, and where it runs.
struct ExecutorHome {
  int agent = 0;         // below 0: nobody's
  int agent_pid = 0;     // for faults that hit it; 0: none
  int launcher_pid = 0;  // likewise
  std::string listen;    // empty: launch.listen
};

// The options of `worker` in the run of `folder`.
StatusOr<ExecutorOptions> ExecutorOptionsOf(const JobConfig& config, const RunFolder& folder,
                                            WorkerId worker, const ExecutorHome& home);

}  // namespace recycle

#endif  // RECYCLE_APP_EXECUTOR_SETUP_H_
