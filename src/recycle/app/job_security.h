// What protects a job's control plane, out of the section `security` of its config.
// docs/SECURITY.md tells against whom.
//
//   RC_ASSIGN_OR_RETURN(const RpcSecurity security, LoadSecurity(config));
//   auto client = ControlClient::Connect(address, security, timeout);
//
// Files are read anew by every call, so that a token or a certificate can be replaced while a job
// runs: what a process connects or listens with is what the files hold then. Errors are
// kInvalidArgument: a sentence that names the key, the file, the rule and what to do.
//
// Thread-safe: functions.
#ifndef RECYCLE_APP_JOB_SECURITY_H_
#define RECYCLE_APP_JOB_SECURITY_H_

#include <optional>
#include <string>
#include <string_view>

#include "recycle/app/job_config.h"
#include "recycle/base/status.h"
#include "recycle/rpc/rpc_security.h"

namespace recycle {

// The rules between keys: no listener that other machines can reach without a token; files that
// belong together are all there or none. Reads no file.
Status CheckSecurityKeys(const JobConfig& config);

// Reads and checks the files that the processes of the job need among themselves.
StatusOr<RpcSecurity> LoadSecurity(const JobConfig& config);

// The same for the store; absent for an etcd that is spoken to in the clear.
StatusOr<std::optional<TlsTexts>> LoadEtcdTls(const JobConfig::Security& security);

// May, and can, this machine's workers listen on `listen`, which `name` gives ("--listen")? A
// numeric address of this machine; if others reach it the job needs a token.
Status CheckListenHere(const JobConfig& config, std::string_view name, const std::string& listen);

// All that would keep the processes of the job from listening and connecting: the files above, and
// whether launch.listen is an address of this machine.
Status CheckSecurity(const JobConfig& config);

}  // namespace recycle

#endif  // RECYCLE_APP_JOB_SECURITY_H_
