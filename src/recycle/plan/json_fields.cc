#include "recycle/plan/json_fields.h"

#include <fmt/format.h>

#include <algorithm>
#include <cmath>

#include "recycle/plan/nearest.h"

namespace recycle {
namespace {

using nlohmann::json;

// Runs over a text and keeps nothing but the place and the kind of its first error. It also refuses
// keys that are given twice, of which a DOM would silently keep one.
class ErrorFinder : public nlohmann::json_sax<json> {
 public:
  explicit ErrorFinder(std::string_view text) : text_(text) {}
  bool null() override { return true; }
  bool boolean(bool /*value*/) override { return true; }
  bool number_integer(number_integer_t /*value*/) override { return true; }
  bool number_unsigned(number_unsigned_t /*value*/) override { return true; }
  bool number_float(number_float_t /*value*/, const string_t& /*text*/) override { return true; }
  bool string(string_t& /*value*/) override { return true; }
  bool binary(binary_t& /*value*/) override { return true; }
  bool start_array(std::size_t /*size*/) override { return true; }
  bool end_array() override { return true; }
  bool start_object(std::size_t /*size*/) override {
    keys_.emplace_back();
    return true;
  }
  bool end_object() override {
    keys_.pop_back();
    return true;
  }
  bool key(string_t& value) override {
    for (const std::string& other : keys_.back()) {
      if (other != value) continue;
      message_ = fmt::format("key \"{}\" is given twice in one object", value);
      return false;
    }
    constexpr std::size_t kMaxKeys = 100;  // no object of any of our formats has as many
    if (keys_.back().size() == kMaxKeys) {
      message_ = fmt::format("an object has more than {} keys", kMaxKeys);
      return false;
    }
    keys_.back().push_back(value);
    return true;
  }
  bool parse_error(std::size_t position, const std::string& last_token,
                   const json::exception& error) override {
    const std::string_view what = error.what();
    const bool cut_off = what.find("unexpected end of input") != std::string_view::npos;
    message_ =
        fmt::format("not JSON at byte {}, line {}{}", position, LineOf(position),
                    cut_off ? ": the text is cut off" : " near '" + Printable(last_token) + "'");
    return false;
  }
  const std::string& message() const { return message_; }

 private:
  std::ptrdiff_t LineOf(std::size_t position) const {
    const std::string_view before = text_.substr(0, position);
    return 1 + std::count(before.begin(), before.end(), '\n');
  }
  static std::string Printable(std::string_view token) {
    std::string text;
    for (const char c : token.substr(0, 40)) text += c >= ' ' && c <= '~' ? c : '?';
    return text;
  }

  std::string_view text_;
  std::string message_;
  std::vector<std::vector<std::string>> keys_;
};

}  // namespace

StatusOr<json> ParseJson(std::string_view text) {
  ErrorFinder errors(text);
  if (!json::sax_parse(text, &errors)) return absl::InvalidArgumentError(errors.message());
  return json::parse(text, nullptr, /*allow_exceptions=*/false);
}

Status JsonValue::Refuse(std::string_view rule) const {
  constexpr std::size_t kLongest = 60;
  std::string value = value_->dump(-1, ' ', true, json::error_handler_t::replace);
  if (value.size() > kLongest) value = value.substr(0, kLongest) + "...";
  return absl::InvalidArgumentError(fmt::format("{}: {}, not {}", path_, rule, value));
}

StatusOr<double> JsonValue::Number() const {
  if (!value_->is_number()) return Refuse("must be a number");
  const double number = value_->get<double>();
  if (!std::isfinite(number)) return Refuse("must be a finite number");
  return number;
}

StatusOr<bool> JsonValue::Boolean() const {
  if (!value_->is_boolean()) return Refuse("must be true or false");
  return value_->get<bool>();
}

StatusOr<std::string> JsonValue::Text() const {
  if (!value_->is_string()) return Refuse("must be a text");
  return value_->get<std::string>();
}

StatusOr<int> JsonValue::Whole(int max) const {
  const bool whole = value_->is_number_integer();
  const bool fits =
      whole && (value_->is_number_unsigned()
                    ? value_->get<std::uint64_t>() <= static_cast<std::uint64_t>(max)
                    : value_->get<std::int64_t>() >= 0 && value_->get<std::int64_t>() <= max);
  if (!fits) return Refuse(fmt::format("must be a whole number from 0 to {}", max));
  return value_->get<int>();
}

StatusOr<std::vector<JsonValue>> JsonValue::List() const {
  if (!value_->is_array()) return Refuse("must be a list");
  std::vector<JsonValue> entries;
  entries.reserve(value_->size());
  for (std::size_t i = 0; i < value_->size(); ++i) {
    entries.emplace_back((*value_)[i], fmt::format("{}[{}]", path_, i));
  }
  return entries;
}

StatusOr<std::vector<JsonValue>> JsonValue::ListOf(std::size_t size) const {
  if (!value_->is_array() || value_->size() != size) {
    return Refuse(fmt::format("must be a list of {} entries", size));
  }
  return List();
}

StatusOr<std::vector<std::string>> JsonValue::Texts() const {
  if (!value_->is_array()) return Refuse("must be a list of texts");
  std::vector<std::string> texts;
  texts.reserve(value_->size());
  for (const json& entry : *value_) {
    if (!entry.is_string()) {
      return JsonValue(entry, fmt::format("{}[{}]", path_, texts.size())).Refuse("must be a text");
    }
    texts.push_back(entry.get<std::string>());
  }
  return texts;
}

Status JsonValue::CheckKeys(const std::vector<std::string_view>& known) const {
  if (!value_->is_object()) return Refuse("must be an object");
  for (const auto& [key, value] : value_->items()) {
    if (std::find(known.begin(), known.end(), key) != known.end()) continue;
    const std::string owner = path_.empty() ? "" : " of " + path_;
    return absl::InvalidArgumentError(fmt::format("unknown key \"{}\"{}: did you mean \"{}\"?", key,
                                                  owner, NearestName(key, known)));
  }
  return OkStatus();
}

bool JsonValue::Has(std::string_view key) const { return value_->contains(key); }

StatusOr<JsonValue> JsonValue::Get(std::string_view key) const {
  const std::string path = path_.empty() ? std::string(key) : fmt::format("{}.{}", path_, key);
  const auto found = value_->find(key);
  if (found == value_->end()) return absl::InvalidArgumentError(path + ": missing");
  return JsonValue(*found, path);
}

}  // namespace recycle
