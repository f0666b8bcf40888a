#include "recycle/simulator/text_lines.h"

#include <fmt/format.h>

#include <string>
#include <system_error>

namespace recycle {

std::string_view Trimmed(std::string_view text) {
  constexpr std::string_view kBlanks = " \t\r";
  const std::size_t first = text.find_first_not_of(kBlanks);
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(kBlanks) - first + 1);
}

std::vector<std::string_view> Fields(std::string_view line) {
  std::vector<std::string_view> fields;
  while (true) {
    const std::size_t comma = line.find(',');
    fields.push_back(Trimmed(line.substr(0, comma)));
    if (comma == std::string_view::npos) return fields;
    line.remove_prefix(comma + 1);
  }
}

std::optional<double> NumberIn(std::string_view text) {
  double value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size() || !std::isfinite(value)) {
    return std::nullopt;
  }
  return value;
}

std::optional<int> WholeIn(std::string_view text) {
  int value = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return value;
}

Status AtLine(int line, const Status& status) {
  return {status.code(), fmt::format("line {}: {}", line, std::string(status.message()))};
}

Status ForEachLine(std::string_view text, const std::function<Status(std::string_view)>& read) {
  int number = 0;
  while (!text.empty()) {
    ++number;
    const std::size_t end = text.find('\n');
    const std::string_view line = Trimmed(text.substr(0, end));
    if (!line.empty()) {
      if (const Status status = read(line); !status.ok()) return AtLine(number, status);
    }
    if (end == std::string_view::npos) {
      return AtLine(number, absl::InvalidArgumentError(
                                "the file is cut off: its last line does not end (hint: end it "
                                "with a newline if it is whole)"));
    }
    text.remove_prefix(end + 1);
  }
  return OkStatus();
}

}  // namespace recycle
