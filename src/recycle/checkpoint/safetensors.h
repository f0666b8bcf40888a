// The header of a safetensors file, as the format is published
// (github.com/huggingface/safetensors, README.md):
//
//   8 bytes  N, little endian: the length of the JSON
//   N bytes  {"name": {"dtype": "F32", "shape": [2, 3], "data_offsets": [begin, end]}, ...,
//             "__metadata__": {"key": "value"}}, padded with spaces at its end
//   rest     the tensors' bytes, little endian, row by row; offsets count from here
//
// Reading is strict: ranges fill the rest of the file without hole or overlap, a range has exactly
// the bytes of its shape, names are unique. Here the JSON is padded so that the tensors begin at a
// multiple of 64 bytes.
//
//   SafetensorsHeader header;
//   header.tensors.push_back({.name = "wte.weight", .dtype = "F32", .shape = {256, 16}, .end =
//   16384}); const std::string head = EncodeSafetensorsHeader(header);
//
// Pure functions; thread-safe.
#ifndef RECYCLE_CHECKPOINT_SAFETENSORS_H_
#define RECYCLE_CHECKPOINT_SAFETENSORS_H_

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "recycle/base/status.h"

namespace recycle {

struct SafetensorsEntry {
  std::string name;
  std::string dtype;  // "F32", "BF16", "I64", ...
  std::vector<std::int64_t> shape;
  std::uint64_t begin = 0;  // bytes, from the end of the header
  std::uint64_t end = 0;
  bool operator==(const SafetensorsEntry&) const = default;
};

struct SafetensorsHeader {
  std::vector<SafetensorsEntry> tensors;  // ascending by place in the file
  std::map<std::string, std::string> metadata;
  std::uint64_t data_begin = 0;  // where the tensors' bytes begin in the file
};

inline constexpr std::size_t kSafetensorsLengthBytes = 8;

// Bytes of one element; nothing for a dtype that is not a whole number of bytes or not known.
std::optional<std::uint64_t> ElementBytes(std::string_view dtype);

// Bytes of a tensor. Error: kDataLoss for an unknown dtype, a negative size or too many elements.
StatusOr<std::uint64_t> TensorBytes(std::string_view dtype, const std::vector<std::int64_t>& shape);

// All bytes before the tensors: length, JSON, padding. `data_begin` of `header` is not looked at.
std::string EncodeSafetensorsHeader(const SafetensorsHeader& header);

// The length of the JSON of a file of `file_bytes`, out of its first 8 bytes. Error: kDataLoss.
StatusOr<std::uint64_t> DecodeSafetensorsLength(std::string_view first_bytes,
                                                std::uint64_t file_bytes);

// The header out of its JSON, for a file of `file_bytes`. Error: kDataLoss with the rule that is
// broken and the tensor it is broken at.
StatusOr<SafetensorsHeader> DecodeSafetensorsHeader(std::string_view json,
                                                    std::uint64_t file_bytes);

}  // namespace recycle

#endif  // RECYCLE_CHECKPOINT_SAFETENSORS_H_
