// Strict reading of JSON: every value has a path for messages ("costs.stages[2].forward"), objects
// know their keys, nothing is converted silently. Used by the readers of files.
#ifndef RECYCLE_PLAN_JSON_FIELDS_H_
#define RECYCLE_PLAN_JSON_FIELDS_H_

#include <cstdint>
#include <limits>
#include <nlohmann/json.hpp>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "recycle/base/status.h"

namespace recycle {

// Parses a whole document. Error: kInvalidArgument with the byte and line where it stops being
// JSON.
StatusOr<nlohmann::json> ParseJson(std::string_view text);

// A value and where it stands. Does not own the value. Every error is kInvalidArgument.
class JsonValue {
 public:
  JsonValue(const nlohmann::json& value, std::string path)
      : value_(&value), path_(std::move(path)) {}

  const std::string& path() const { return path_; }
  bool is_number() const { return value_->is_number(); }

  StatusOr<double> Number() const;
  StatusOr<bool> Boolean() const;
  StatusOr<std::string> Text() const;
  // A whole number in [0, max].
  StatusOr<int> Whole(int max = std::numeric_limits<int>::max()) const;
  // The entries of a list.
  StatusOr<std::vector<JsonValue>> List() const;
  StatusOr<std::vector<JsonValue>> ListOf(std::size_t size) const;
  // A list of texts, read without a path for every entry: lists of actions are long.
  StatusOr<std::vector<std::string>> Texts() const;

  // OK for an object all of whose keys are among `known`; names the nearest known key else.
  Status CheckKeys(const std::vector<std::string_view>& known) const;
  // The members of an object; the caller has called CheckKeys.
  bool Has(std::string_view key) const;
  StatusOr<JsonValue> Get(std::string_view key) const;

  // An error about this value: "<path>: <rule>, not <value>".
  Status Refuse(std::string_view rule) const;

 private:
  const nlohmann::json* value_;
  std::string path_;
};

// Reads the list `key` of `owner` into `out`, an entry at a time; an absent key leaves it empty.
template <typename T, typename Read>
Status ReadOptionalList(const JsonValue& owner, std::string_view key, std::vector<T>& out,
                        Read read) {
  if (!owner.Has(key)) return OkStatus();
  RC_ASSIGN_OR_RETURN(const JsonValue list, owner.Get(key));
  RC_ASSIGN_OR_RETURN(const std::vector<JsonValue> entries, list.List());
  out.reserve(entries.size());
  for (const JsonValue& entry : entries) {
    RC_ASSIGN_OR_RETURN(T item, read(entry));
    out.push_back(std::move(item));
  }
  return OkStatus();
}

}  // namespace recycle

#endif  // RECYCLE_PLAN_JSON_FIELDS_H_
