#include "recycle/checkpoint/manifest.h"

#include <fmt/format.h>

#include <algorithm>
#include <nlohmann/json.hpp>
#include <set>
#include <utility>

#include "recycle/base/sha256.h"
#include "recycle/checkpoint/safetensors.h"

namespace recycle {
namespace {

using Json = nlohmann::ordered_json;

constexpr std::string_view kFormat = "recycle-checkpoint/1";

Status BadManifest(const std::string& what) {
  return absl::DataLossError("not a checkpoint's manifest: " + what);
}

bool IsMoment(std::string_view name) {
  return name.starts_with(kFirstMoment) || name.starts_with(kSecondMoment);
}

// A file of the folder itself: a manifest cannot point anywhere else.
bool IsFileName(const std::string& name) {
  return !name.empty() && name != "." && name != ".." && name.find('/') == std::string::npos;
}

bool IsSha256(const std::string& text) {
  return text.size() == 64 && text.find_first_not_of("0123456789abcdef") == std::string::npos;
}

Json ToJson(const ManifestTensor& tensor) {
  return {{"name", tensor.name},   {"dtype", tensor.dtype},  {"shape", tensor.shape},
          {"layer", tensor.layer}, {"file", tensor.file},    {"begin", tensor.begin},
          {"end", tensor.end},     {"sha256", tensor.sha256}};
}

// A field of `json`; it must be there.
StatusOr<Json> Field(const Json& json, const char* key) {
  const auto found = json.find(key);
  if (found == json.end()) return BadManifest(fmt::format("'{}' is missing", key));
  return *found;
}

StatusOr<std::string> Text(const Json& json, const char* key) {
  RC_ASSIGN_OR_RETURN(const Json field, Field(json, key));
  if (!field.is_string())
    return BadManifest(fmt::format("'{}' is {}, not text", key, field.dump()));
  return field.get<std::string>();
}

template <typename Number>
StatusOr<Number> Whole(const Json& json, const char* key) {
  RC_ASSIGN_OR_RETURN(const Json field, Field(json, key));
  if (!field.is_number_unsigned() || !std::in_range<Number>(field.get<std::uint64_t>())) {
    return BadManifest(fmt::format("'{}' is {}, not a whole number from 0", key, field.dump()));
  }
  return static_cast<Number>(field.get<std::uint64_t>());
}

StatusOr<Json> List(const Json& json, const char* key) {
  RC_ASSIGN_OR_RETURN(Json field, Field(json, key));
  if (!field.is_array()) return BadManifest(fmt::format("'{}' is no list", key));
  return field;
}

StatusOr<ManifestTensor> TensorFromJson(const Json& json) {
  if (!json.is_object()) return BadManifest("a tensor is no JSON object");
  ManifestTensor tensor;
  RC_ASSIGN_OR_RETURN(tensor.name, Text(json, "name"));
  RC_ASSIGN_OR_RETURN(tensor.dtype, Text(json, "dtype"));
  RC_ASSIGN_OR_RETURN(const Json shape, List(json, "shape"));
  for (const Json& size : shape) {
    RC_ASSIGN_OR_RETURN(const auto value, Whole<std::int64_t>(Json{{"shape", size}}, "shape"));
    tensor.shape.push_back(value);
  }
  RC_ASSIGN_OR_RETURN(tensor.layer, Whole<int>(json, "layer"));
  RC_ASSIGN_OR_RETURN(tensor.file, Text(json, "file"));
  RC_ASSIGN_OR_RETURN(tensor.begin, Whole<std::uint64_t>(json, "begin"));
  RC_ASSIGN_OR_RETURN(tensor.end, Whole<std::uint64_t>(json, "end"));
  RC_ASSIGN_OR_RETURN(tensor.sha256, Text(json, "sha256"));
  return tensor;
}

StatusOr<ManifestFile> FileFromJson(const Json& json) {
  if (!json.is_object()) return BadManifest("a file is no JSON object");
  ManifestFile file;
  RC_ASSIGN_OR_RETURN(file.name, Text(json, "name"));
  RC_ASSIGN_OR_RETURN(file.bytes, Whole<std::uint64_t>(json, "bytes"));
  RC_ASSIGN_OR_RETURN(file.sha256, Text(json, "sha256"));
  return file;
}

StatusOr<Manifest> FieldsFromJson(const Json& json) {
  Manifest manifest;
  RC_ASSIGN_OR_RETURN(manifest.iteration, Whole<int>(json, "iteration"));
  RC_ASSIGN_OR_RETURN(manifest.generation, Whole<std::int64_t>(json, "generation"));
  RC_ASSIGN_OR_RETURN(const Json loss, Field(json, "loss"));
  if (loss.is_number()) manifest.loss = loss.get<double>();
  RC_ASSIGN_OR_RETURN(const Json identity, Field(json, "identity"));
  if (!identity.is_object()) return BadManifest("'identity' is no JSON object");
  for (const auto& [key, value] : identity.items()) {
    RC_ASSIGN_OR_RETURN(manifest.identity[key], Text(identity, key.c_str()));
  }
  RC_ASSIGN_OR_RETURN(const Json files, List(json, "files"));
  for (const Json& file : files) {
    RC_ASSIGN_OR_RETURN(ManifestFile read, FileFromJson(file));
    manifest.files.push_back(std::move(read));
  }
  RC_ASSIGN_OR_RETURN(const Json tensors, List(json, "tensors"));
  for (const Json& tensor : tensors) {
    RC_ASSIGN_OR_RETURN(ManifestTensor read, TensorFromJson(tensor));
    manifest.tensors.push_back(std::move(read));
  }
  return manifest;
}

Status CheckTensor(const ManifestTensor& tensor,
                   const std::map<std::string, std::uint64_t>& file_bytes) {
  const auto file = file_bytes.find(tensor.file);
  if (file == file_bytes.end()) {
    return BadManifest(
        fmt::format("tensor '{}' is in file '{}', which is not listed", tensor.name, tensor.file));
  }
  if (tensor.begin > tensor.end || tensor.end > file->second) {
    return BadManifest(fmt::format("tensor '{}' is at bytes {} to {} of a file of {}", tensor.name,
                                   tensor.begin, tensor.end, file->second));
  }
  RC_ASSIGN_OR_RETURN(const std::uint64_t bytes, TensorBytes(tensor.dtype, tensor.shape));
  if (bytes != tensor.num_bytes()) {
    return BadManifest(fmt::format("tensor '{}' has {} bytes, but its shape needs {}", tensor.name,
                                   tensor.num_bytes(), bytes));
  }
  return IsSha256(tensor.sha256)
             ? OkStatus()
             : BadManifest(fmt::format("tensor '{}' has no SHA-256", tensor.name));
}

Status Check(const Manifest& manifest) {
  if (manifest.iteration < 1) return BadManifest(fmt::format("iteration {}", manifest.iteration));
  std::map<std::string, std::uint64_t> file_bytes;
  for (const ManifestFile& file : manifest.files) {
    if (!IsFileName(file.name) || !IsSha256(file.sha256) ||
        !file_bytes.emplace(file.name, file.bytes).second) {
      return BadManifest(
          fmt::format("file '{}' is no file name, is there twice or has no SHA-256", file.name));
    }
  }
  std::set<std::string_view> names;
  for (const ManifestTensor& tensor : manifest.tensors) {
    RC_RETURN_IF_ERROR(CheckTensor(tensor, file_bytes));
    if (!names.insert(tensor.name).second) {
      return BadManifest(fmt::format("tensor '{}' is there twice", tensor.name));
    }
  }
  return OkStatus();
}

}  // namespace

const ManifestTensor* Manifest::FindTensor(std::string_view name) const {
  const auto found = std::find_if(tensors.begin(), tensors.end(),
                                  [name](const ManifestTensor& t) { return t.name == name; });
  return found == tensors.end() ? nullptr : &*found;
}

std::uint64_t Manifest::num_bytes() const {
  std::uint64_t bytes = 0;
  for (const ManifestTensor& tensor : tensors) bytes += tensor.num_bytes();
  return bytes;
}

void TensorListHash::Add(std::string_view name, std::string_view sha256) {
  lines_.append(name).append(1, '\0').append(sha256).append("\n");
}

std::string TensorListHash::HexDigest() const {
  Sha256 hash;
  hash.Update(lines_);
  return hash.HexDigest();
}

std::string StateSha256(const Manifest& manifest) {
  TensorListHash hash;
  for (const ManifestTensor& tensor : manifest.tensors) hash.Add(tensor.name, tensor.sha256);
  return hash.HexDigest();
}

std::string ParametersSha256(const Manifest& manifest) {
  TensorListHash hash;
  for (const ManifestTensor& tensor : manifest.tensors) {
    if (!IsMoment(tensor.name)) hash.Add(tensor.name, tensor.sha256);
  }
  return hash.HexDigest();
}

std::string ManifestToJson(const Manifest& manifest) {
  Json json;
  json["format"] = kFormat;
  json["iteration"] = manifest.iteration;
  json["generation"] = manifest.generation;
  json["loss"] = manifest.loss ? Json(*manifest.loss) : Json(nullptr);
  json["state_sha256"] = StateSha256(manifest);
  json["parameters_sha256"] = ParametersSha256(manifest);
  json["identity"] = manifest.identity;
  json["files"] = Json::array();
  for (const ManifestFile& file : manifest.files) {
    json["files"].push_back({{"name", file.name}, {"bytes", file.bytes}, {"sha256", file.sha256}});
  }
  json["tensors"] = Json::array();
  for (const ManifestTensor& tensor : manifest.tensors) json["tensors"].push_back(ToJson(tensor));
  return json.dump(1) + "\n";
}

StatusOr<Manifest> ManifestFromJson(std::string_view text) {
  const Json json = Json::parse(text, nullptr, /*allow_exceptions=*/false);
  if (!json.is_object()) return BadManifest("it is no JSON object");
  const auto format = json.find("format");
  if (format == json.end() || *format != kFormat) {
    return BadManifest(fmt::format("its format is {}, but this program reads \"{}\"",
                                   format == json.end() ? "not stated" : format->dump(), kFormat));
  }
  RC_ASSIGN_OR_RETURN(Manifest manifest, FieldsFromJson(json));
  RC_RETURN_IF_ERROR(Check(manifest));
  for (const auto& [key, computed] : {std::pair("state_sha256", StateSha256(manifest)),
                                      std::pair("parameters_sha256", ParametersSha256(manifest))}) {
    const auto stated = json.find(key);
    if (stated == json.end() || *stated != computed) {
      return BadManifest(fmt::format("its {} is not that of its tensors", key));
    }
  }
  return manifest;
}

}  // namespace recycle
