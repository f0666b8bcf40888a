// `recycle config`: every key with its default, or a job checked and printed as resolved.
#ifndef RECYCLE_APP_CONFIG_COMMAND_H_
#define RECYCLE_APP_CONFIG_COMMAND_H_

#include <ostream>
#include <string>
#include <vector>

#include "recycle/base/status.h"

namespace recycle {

struct ConfigArguments {
  std::string config_path;
  std::vector<std::string> overrides;
  bool defaults = false;  // print all keys instead
  bool markdown = false;  // print docs/CONFIG.md instead
  bool operator==(const ConfigArguments&) const = default;
};

// Error: as LoadJobConfig, or kInvalidArgument when neither a job nor --defaults is given.
Status RunConfigCommand(const ConfigArguments& arguments, std::ostream& out);

}  // namespace recycle

#endif  // RECYCLE_APP_CONFIG_COMMAND_H_
