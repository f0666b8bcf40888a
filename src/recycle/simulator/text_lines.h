// Reading text a line at a time, for the readers of traces: numbered lines, strict numbers, and
// errors that name the line. Used by the readers only.
#ifndef RECYCLE_SIMULATOR_TEXT_LINES_H_
#define RECYCLE_SIMULATOR_TEXT_LINES_H_

#include <charconv>
#include <cmath>
#include <functional>
#include <optional>
#include <string_view>
#include <vector>

#include "recycle/base/status.h"

namespace recycle {

// `text` without blanks (and the \r of Windows) on both sides.
std::string_view Trimmed(std::string_view text);

// The fields of a line between commas, trimmed.
std::vector<std::string_view> Fields(std::string_view line);

// The finite number that the whole of `text` spells.
std::optional<double> NumberIn(std::string_view text);
std::optional<int> WholeIn(std::string_view text);

// "line 7: <message>", with the code of `status`.
Status AtLine(int line, const Status& status);

// Calls `read` with every line that is not blank until one is refused; errors get the line's number
// in front. The last line must end as lines do: a file that was cut off is refused.
Status ForEachLine(std::string_view text, const std::function<Status(std::string_view)>& read);

}  // namespace recycle

#endif  // RECYCLE_SIMULATOR_TEXT_LINES_H_
