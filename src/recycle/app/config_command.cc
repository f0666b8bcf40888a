#include "recycle/app/config_command.h"

#include "recycle/app/config_keys.h"
#include "recycle/app/job_config.h"

namespace recycle {

Status RunConfigCommand(const ConfigArguments& arguments, std::ostream& out) {
  if (arguments.defaults || arguments.markdown) {
    out << (arguments.markdown ? ConfigKeysAsMarkdown() : DefaultsAsYaml());
    return OkStatus();
  }
  if (arguments.config_path.empty()) {
    return absl::InvalidArgumentError(
        "config needs a job file to check, such as examples/first-light.yaml, or --defaults to "
        "print every key");
  }
  RC_ASSIGN_OR_RETURN(const JobConfig config,
                      LoadJobConfig(arguments.config_path, arguments.overrides));
  out << ToYaml(config);
  return OkStatus();
}

}  // namespace recycle
