// Makers of ConfigKey rows, one per type of value. `field` is a generic lambda from a config to the
// member, const or not: [](auto& config) -> auto& { return config.model.layers; }.
#ifndef RECYCLE_APP_CONFIG_VALUES_H_
#define RECYCLE_APP_CONFIG_VALUES_H_

#include <fmt/format.h>
#include <yaml-cpp/yaml.h>

#include <limits>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recycle/app/config_keys.h"
#include "recycle/app/numbers.h"
#include "recycle/base/status.h"

namespace recycle {

// `value` as a person wrote it, for messages: 12, "text", a list, a map, nothing.
std::string DescribeValue(const YAML::Node& value);

// True for a scalar without quotes.
bool IsPlainScalar(const YAML::Node& value);

// At most its first 60 bytes: messages name values, they do not repeat books.
std::string Shortened(const std::string& text);

// "<path> is <value>, but it must be <rule>; the nearest valid choice is <nearest>".
Status BadValue(const std::string& path, const std::string& value, const std::string& rule,
                const std::string& nearest);

// "<path> is <value>, which is not built yet; use <instead>".
Status NotBuiltYet(const std::string& path, const std::string& value, const std::string& instead);

// Text in double quotes, as YAML and JSON read it.
std::string Quoted(const std::string& text);

// Bounds of a real number.
struct RealRange {
  double least = 0;
  double most = std::numeric_limits<double>::max();
  bool open_below = false;  // least itself is not allowed
  bool open_above = false;  // most itself is not allowed

  std::string Rule() const;
  bool Contains(double value) const;
  double Nearest(double value) const;
};

struct IntegerRange {
  std::int64_t least = 0;
  std::int64_t most = std::numeric_limits<std::int32_t>::max();

  std::string Rule() const;
};

struct Words {
  std::vector<std::string_view> built;
  std::vector<std::string_view> planned;  // known, not built yet
};

// Reads for the makers below; errors as in ConfigKey::read.
StatusOr<std::int64_t> ReadInteger(const std::string& path, const YAML::Node& value,
                                   const IntegerRange& range);
StatusOr<double> ReadReal(const std::string& path, const YAML::Node& value, const RealRange& range);
StatusOr<bool> ReadBoolean(const std::string& path, const YAML::Node& value);
StatusOr<std::string> ReadWord(const std::string& path, const YAML::Node& value,
                               const Words& words);
StatusOr<std::string> ReadText(const std::string& path, const YAML::Node& value,
                               const std::string& rule, const std::string& example);

// What a row says besides its type.
struct KeyText {
  std::string path;
  std::string unit;
  std::string meaning;
  std::string example = {};  // only for required keys
};

std::string WordsRule(const Words& words);

// The row of a member that `read_value(path, value)` reads; its `{}` in fmt is how YAML writes it.
template <typename Field, typename ReadValue>
ConfigKey MakeConfigKey(KeyText text, std::string rule, Field field, ReadValue read_value) {
  const auto read = [path = text.path, field, read_value](const YAML::Node& value,
                                                          JobConfig& config) -> Status {
    RC_ASSIGN_OR_RETURN(auto result, read_value(path, value));
    field(config) = static_cast<std::decay_t<decltype(field(config))>>(std::move(result));
    return OkStatus();
  };
  const auto write = [field](const JobConfig& config) { return fmt::format("{}", field(config)); };
  return {std::move(text.path),
          std::move(rule),
          std::move(text.unit),
          std::move(text.meaning),
          std::move(text.example),
          read,
          write};
}

template <typename Field>
ConfigKey IntegerKey(KeyText text, Field field, IntegerRange range) {
  return MakeConfigKey(std::move(text), range.Rule(), field,
                       [range](const std::string& path, const YAML::Node& value) {
                         return ReadInteger(path, value, range);
                       });
}

template <typename Field>
ConfigKey RealKey(KeyText text, Field field, RealRange range) {
  return MakeConfigKey(std::move(text), range.Rule(), field,
                       [range](const std::string& path, const YAML::Node& value) {
                         return ReadReal(path, value, range);
                       });
}

// A switch.
template <typename Field>
ConfigKey BooleanKey(KeyText text, Field field) {
  return MakeConfigKey(std::move(text), "true or false", field, ReadBoolean);
}

// One of some words.
template <typename Field>
ConfigKey WordKey(KeyText text, Field field, const Words& words) {
  return MakeConfigKey(std::move(text), WordsRule(words), field,
                       [words](const std::string& path, const YAML::Node& value) {
                         return ReadWord(path, value, words);
                       });
}

}  // namespace recycle

#endif  // RECYCLE_APP_CONFIG_VALUES_H_
