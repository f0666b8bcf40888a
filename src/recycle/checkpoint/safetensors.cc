#include "recycle/checkpoint/safetensors.h"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

namespace recycle {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kMetadata = "__metadata__";
constexpr std::uint64_t kLongestHeader = 100'000'000;  // the format's own limit
constexpr std::size_t kAlignment = 64;

Status BadFile(const std::string& what) {
  return absl::DataLossError("not a safetensors file: " + what);
}

// Parses `text`; a second key of one name at the top is an error (JSON alone would drop one).
StatusOr<Json> ParseUnique(std::string_view text) {
  std::set<std::string> names;
  std::string twice;
  const auto watch = [&](int depth, Json::parse_event_t event, Json& value) {
    if (event == Json::parse_event_t::key && depth == 1 &&
        !names.insert(value.get<std::string>()).second) {
      twice = value.get<std::string>();
    }
    return true;
  };
  Json json = Json::parse(text, watch, /*allow_exceptions=*/false);
  if (json.is_discarded() || !json.is_object()) return BadFile("its header is not a JSON object");
  if (!twice.empty()) return BadFile(fmt::format("tensor '{}' is there twice", twice));
  return json;
}

StatusOr<std::vector<std::int64_t>> ReadSizes(const Json& entry, const char* key,
                                              const std::string& name) {
  const auto found = entry.find(key);
  const Status bad =
      BadFile(fmt::format("{} of tensor '{}' is not a list of whole numbers from 0", key, name));
  if (found == entry.end() || !found->is_array()) return bad;
  std::vector<std::int64_t> sizes;
  for (const Json& size : *found) {
    if (!size.is_number_unsigned()) return bad;
    const auto value = size.get<std::uint64_t>();
    if (value > static_cast<std::uint64_t>(INT64_MAX)) return bad;
    sizes.push_back(static_cast<std::int64_t>(value));
  }
  return sizes;
}

StatusOr<SafetensorsEntry> ReadEntry(const std::string& name, const Json& json) {
  if (!json.is_object()) return BadFile(fmt::format("tensor '{}' is no JSON object", name));
  const auto dtype = json.find("dtype");
  if (dtype == json.end() || !dtype->is_string()) {
    return BadFile(fmt::format("tensor '{}' has no dtype", name));
  }
  SafetensorsEntry entry{.name = name, .dtype = dtype->get<std::string>(), .shape = {}};
  RC_ASSIGN_OR_RETURN(entry.shape, ReadSizes(json, "shape", name));
  RC_ASSIGN_OR_RETURN(const std::vector<std::int64_t> range, ReadSizes(json, "data_offsets", name));
  if (range.size() != 2 || range[0] > range[1]) {
    return BadFile(fmt::format("data_offsets of tensor '{}' are not begin and end", name));
  }
  entry.begin = static_cast<std::uint64_t>(range[0]);
  entry.end = static_cast<std::uint64_t>(range[1]);
  RC_ASSIGN_OR_RETURN(const std::uint64_t bytes, TensorBytes(entry.dtype, entry.shape));
  if (entry.end - entry.begin != bytes) {
    return BadFile(fmt::format("tensor '{}' has {} bytes, but its shape needs {}", name,
                               entry.end - entry.begin, bytes));
  }
  return entry;
}

Status ReadMetadata(const Json& json, std::map<std::string, std::string>& metadata) {
  if (!json.is_object()) return BadFile("__metadata__ is no JSON object");
  for (const auto& [key, value] : json.items()) {
    if (!value.is_string()) return BadFile(fmt::format("__metadata__ '{}' is no text", key));
    metadata[key] = value.get<std::string>();
  }
  return OkStatus();
}

// The ranges fill the bytes [0, data_bytes).
Status CheckRanges(const std::vector<SafetensorsEntry>& tensors, std::uint64_t data_bytes) {
  std::uint64_t next = 0;
  for (const SafetensorsEntry& tensor : tensors) {
    if (tensor.begin != next) {
      return BadFile(fmt::format("tensor '{}' begins at byte {}, but the one before it ends at {}",
                                 tensor.name, tensor.begin, next));
    }
    next = tensor.end;
  }
  if (next == data_bytes) return OkStatus();
  return BadFile(fmt::format("its tensors have {} bytes, but the file holds {}{}", next, data_bytes,
                             data_bytes < next ? ": it is cut off" : ""));
}

}  // namespace

std::optional<std::uint64_t> ElementBytes(std::string_view dtype) {
  constexpr std::array<std::pair<std::string_view, std::uint64_t>, 15> kBytes{{{"BOOL", 1},
                                                                               {"U8", 1},
                                                                               {"I8", 1},
                                                                               {"F8_E5M2", 1},
                                                                               {"F8_E4M3", 1},
                                                                               {"I16", 2},
                                                                               {"U16", 2},
                                                                               {"F16", 2},
                                                                               {"BF16", 2},
                                                                               {"I32", 4},
                                                                               {"U32", 4},
                                                                               {"F32", 4},
                                                                               {"F64", 8},
                                                                               {"I64", 8},
                                                                               {"U64", 8}}};
  for (const auto& [name, bytes] : kBytes) {
    if (name == dtype) return bytes;
  }
  return std::nullopt;
}

StatusOr<std::uint64_t> TensorBytes(std::string_view dtype,
                                    const std::vector<std::int64_t>& shape) {
  const std::optional<std::uint64_t> element = ElementBytes(dtype);
  if (!element) return BadFile(fmt::format("dtype '{}' is not known here", dtype));
  std::int64_t bytes = static_cast<std::int64_t>(*element);
  for (const std::int64_t size : shape) {
    if (size < 0 || __builtin_mul_overflow(bytes, size, &bytes)) {
      return BadFile(fmt::format("a tensor has a size of {}: too many bytes", size));
    }
  }
  return static_cast<std::uint64_t>(bytes);
}

std::string EncodeSafetensorsHeader(const SafetensorsHeader& header) {
  Json json = Json::object();
  if (!header.metadata.empty()) json[std::string(kMetadata)] = header.metadata;
  for (const SafetensorsEntry& tensor : header.tensors) {
    json[tensor.name] = {{"dtype", tensor.dtype},
                         {"shape", tensor.shape},
                         {"data_offsets", {tensor.begin, tensor.end}}};
  }
  std::string text = json.dump();
  const std::size_t rest = (kSafetensorsLengthBytes + text.size()) % kAlignment;
  if (rest != 0) text.append(kAlignment - rest, ' ');
  std::string length(kSafetensorsLengthBytes, '\0');
  for (std::size_t i = 0; i < length.size(); ++i) {
    length[i] = static_cast<char>((text.size() >> (8 * i)) & 0xff);
  }
  return length + text;
}

StatusOr<std::uint64_t> DecodeSafetensorsLength(std::string_view first_bytes,
                                                std::uint64_t file_bytes) {
  if (first_bytes.size() < kSafetensorsLengthBytes || file_bytes < kSafetensorsLengthBytes) {
    return BadFile(fmt::format("it has {} bytes, but the length of the header alone takes 8",
                               std::min<std::uint64_t>(first_bytes.size(), file_bytes)));
  }
  std::uint64_t length = 0;
  for (std::size_t i = kSafetensorsLengthBytes; i-- > 0;) {
    length = length << 8 | static_cast<unsigned char>(first_bytes[i]);
  }
  if (length > kLongestHeader || length > file_bytes - kSafetensorsLengthBytes) {
    return BadFile(fmt::format("its header of {} bytes is longer than {}", length,
                               length > kLongestHeader ? "the format allows" : "the file"));
  }
  return length;
}

StatusOr<SafetensorsHeader> DecodeSafetensorsHeader(std::string_view json_text,
                                                    std::uint64_t file_bytes) {
  SafetensorsHeader header;
  header.data_begin = kSafetensorsLengthBytes + json_text.size();
  if (file_bytes < header.data_begin) return BadFile("its header is longer than the file");
  if (!json_text.starts_with('{')) return BadFile("its header does not begin with '{'");
  RC_ASSIGN_OR_RETURN(const Json json, ParseUnique(json_text));
  for (const auto& [name, value] : json.items()) {
    if (name == kMetadata) {
      RC_RETURN_IF_ERROR(ReadMetadata(value, header.metadata));
      continue;
    }
    RC_ASSIGN_OR_RETURN(SafetensorsEntry entry, ReadEntry(name, value));
    header.tensors.push_back(std::move(entry));
  }
  std::stable_sort(header.tensors.begin(), header.tensors.end(), [](const auto& a, const auto& b) {
    return std::pair(a.begin, a.end) < std::pair(b.begin, b.end);
  });
  RC_RETURN_IF_ERROR(CheckRanges(header.tensors, file_bytes - header.data_begin));
  return header;
}

}  // namespace recycle
