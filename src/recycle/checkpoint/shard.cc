#include "recycle/checkpoint/shard.h"

#include <fcntl.h>
#include <fmt/format.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstring>
#include <filesystem>
#include <map>
#include <utility>

#include "recycle/base/check.h"
#include "recycle/base/sha256.h"
#include "recycle/checkpoint/durable_file.h"
#include "recycle/checkpoint/safetensors.h"

namespace recycle {
namespace {

// Keys of a shard's metadata.
constexpr std::string_view kSha256Key = "sha256.";
constexpr std::string_view kLayerKey = "layer.";
constexpr const char* kIterationKey = "iteration";
constexpr const char* kGenerationKey = "generation";
constexpr const char* kSquaredNormKey = "squared_norm";

constexpr std::size_t kChunkBytes = std::size_t{1} << 22;

// A file open for reading at any place.
class ReadableFile {
 public:
  static StatusOr<ReadableFile> Open(const std::string& path) {
    const int file = open(path.c_str(), O_RDONLY | O_CLOEXEC);
    if (file < 0) {
      return absl::NotFoundError(
          fmt::format("'{}' cannot be read: {}", path, std::strerror(errno)));
    }
    struct stat status {};
    RC_CHECK(fstat(file, &status) == 0) << path;
    return ReadableFile(path, file, static_cast<std::uint64_t>(status.st_size));
  }
  ~ReadableFile() {
    if (file_ >= 0) close(file_);
  }
  ReadableFile(ReadableFile&& other) noexcept
      : path_(std::move(other.path_)), file_(std::exchange(other.file_, -1)), size_(other.size_) {}
  ReadableFile(const ReadableFile&) = delete;
  ReadableFile& operator=(const ReadableFile&) = delete;
  ReadableFile& operator=(ReadableFile&&) = delete;

  std::uint64_t size() const { return size_; }

  Status Read(std::uint64_t begin, std::span<std::byte> destination) const {
    while (!destination.empty()) {
      const ssize_t count =
          pread(file_, destination.data(), destination.size(), static_cast<off_t>(begin));
      if (count > 0) {
        begin += static_cast<std::uint64_t>(count);
        destination = destination.subspan(static_cast<std::size_t>(count));
      } else if (count == 0) {
        return absl::DataLossError(
            fmt::format("'{}' is cut off: it ends at byte {} of a tensor", path_, begin));
      } else if (errno != EINTR) {
        return absl::DataLossError(
            fmt::format("'{}' cannot be read at byte {}: {}", path_, begin, std::strerror(errno)));
      }
    }
    return OkStatus();
  }

 private:
  ReadableFile(std::string path, int file, std::uint64_t size)
      : path_(std::move(path)), file_(file), size_(size) {}

  std::string path_;
  int file_ = -1;
  std::uint64_t size_ = 0;
};

StatusOr<SafetensorsHeader> ReadHeader(const std::string& path) {
  RC_ASSIGN_OR_RETURN(const ReadableFile file, ReadableFile::Open(path));
  std::string first(std::min<std::uint64_t>(kSafetensorsLengthBytes, file.size()), '\0');
  RC_RETURN_IF_ERROR(file.Read(0, std::as_writable_bytes(std::span(first))));
  RC_ASSIGN_OR_RETURN(const std::uint64_t length, DecodeSafetensorsLength(first, file.size()));
  std::string json(length, '\0');
  RC_RETURN_IF_ERROR(file.Read(kSafetensorsLengthBytes, std::as_writable_bytes(std::span(json))));
  return DecodeSafetensorsHeader(json, file.size());
}

SafetensorsHeader HeaderOf(const ShardStamp& stamp, const std::vector<StateTensor>& tensors) {
  SafetensorsHeader header;
  header.metadata = {{"format", "pt"},  // what readers of this format look for
                     {kIterationKey, std::to_string(stamp.iteration)},
                     {kGenerationKey, std::to_string(stamp.generation)}};
  if (stamp.squared_norm) {  // in so many digits that it is the same number again
    header.metadata[kSquaredNormKey] = fmt::format("{}", *stamp.squared_norm);
  }
  std::uint64_t next = 0;
  for (const StateTensor& tensor : tensors) {
    header.tensors.push_back({.name = tensor.name,
                              .dtype = tensor.dtype,
                              .shape = tensor.shape,
                              .begin = next,
                              .end = next + tensor.bytes.size()});
    next += tensor.bytes.size();
    header.metadata[std::string(kSha256Key) + tensor.name] = Sha256Of(tensor.bytes);
    header.metadata[std::string(kLayerKey) + tensor.name] = std::to_string(tensor.layer);
  }
  return header;
}

// Hands out a shard's bytes in order, and says when half of them are through.
class ShardStream {
 public:
  ShardStream(DurableFile& file, std::uint64_t total, const std::function<void()>& half)
      : file_(file), total_(total), half_(half) {}

  void Append(std::span<const std::byte> bytes) {
    const std::uint64_t middle = total_ / 2;
    if (done_ < middle && done_ + bytes.size() >= middle) {
      const auto first = static_cast<std::size_t>(middle - done_);
      Pass(bytes.first(first));
      half_();
      bytes = bytes.subspan(first);
    }
    Pass(bytes);
  }
  std::string HexDigest() { return hash_.HexDigest(); }

 private:
  void Pass(std::span<const std::byte> bytes) {
    file_.Append(bytes);
    hash_.Update(bytes);
    done_ += bytes.size();
  }

  DurableFile& file_;
  const std::uint64_t total_;
  const std::function<void()>& half_;
  std::uint64_t done_ = 0;
  Sha256 hash_;
};

StatusOr<std::string> MetadataOf(const SafetensorsHeader& header, std::string_view key,
                                 const std::string& tensor) {
  const auto found = header.metadata.find(std::string(key) + tensor);
  if (found != header.metadata.end()) return found->second;
  return absl::DataLossError(
      fmt::format("it is no shard of a checkpoint: its metadata lack '{}{}'", key, tensor));
}

template <typename Number>
Status ReadNumber(const SafetensorsHeader& header, const char* key, Number& number) {
  RC_ASSIGN_OR_RETURN(const std::string text, MetadataOf(header, key, ""));
  const auto parsed = std::from_chars(text.data(), text.data() + text.size(), number);
  if (parsed.ec == std::errc() && parsed.ptr == text.data() + text.size()) return OkStatus();
  return absl::DataLossError(fmt::format("its metadata have '{}' for '{}'", text, key));
}

StatusOr<ShardStamp> StampOf(const std::string& path) {
  RC_ASSIGN_OR_RETURN(const SafetensorsHeader header, ReadHeader(path));
  ShardStamp stamp;
  RC_RETURN_IF_ERROR(ReadNumber(header, kIterationKey, stamp.iteration));
  RC_RETURN_IF_ERROR(ReadNumber(header, kGenerationKey, stamp.generation));
  if (header.metadata.contains(kSquaredNormKey)) {
    RC_RETURN_IF_ERROR(ReadNumber(header, kSquaredNormKey, stamp.squared_norm.emplace()));
  }
  return stamp;
}

Status At(const std::string& path, const Status& status) {
  return {status.code(), fmt::format("'{}': {}", path, std::string(status.message()))};
}

StatusOr<std::vector<ManifestTensor>> Describe(const std::string& path) {
  RC_ASSIGN_OR_RETURN(const SafetensorsHeader header, ReadHeader(path));
  std::vector<ManifestTensor> tensors;
  for (const SafetensorsEntry& entry : header.tensors) {
    ManifestTensor tensor{.name = entry.name,
                          .dtype = entry.dtype,
                          .shape = entry.shape,
                          .layer = 0,
                          .file = std::filesystem::path(path).filename().string(),
                          .begin = header.data_begin + entry.begin,
                          .end = header.data_begin + entry.end,
                          .sha256 = ""};
    RC_ASSIGN_OR_RETURN(tensor.sha256, MetadataOf(header, kSha256Key, entry.name));
    RC_ASSIGN_OR_RETURN(const std::string layer, MetadataOf(header, kLayerKey, entry.name));
    const auto parsed = std::from_chars(layer.data(), layer.data() + layer.size(), tensor.layer);
    if (parsed.ec != std::errc() || parsed.ptr != layer.data() + layer.size()) {
      return absl::DataLossError(
          fmt::format("the layer of tensor '{}' is '{}'", entry.name, layer));
    }
    tensors.push_back(std::move(tensor));
  }
  return tensors;
}

}  // namespace

std::string ShardName(const ShardStamp& stamp, const std::vector<StateTensor>& tensors) {
  RC_CHECK(!tensors.empty()) << "a shard without a tensor";
  const auto [first, last] = std::minmax_element(
      tensors.begin(), tensors.end(),
      [](const StateTensor& a, const StateTensor& b) { return a.layer < b.layer; });
  return fmt::format("layers-{:05}-{:05}.g{}.safetensors", first->layer, last->layer,
                     stamp.generation);
}

StatusOr<ManifestFile> WriteShard(const std::string& path, const ShardStamp& stamp,
                                  const std::vector<StateTensor>& tensors,
                                  const ShardHooks& hooks) {
  const SafetensorsHeader header = HeaderOf(stamp, tensors);
  const std::string head = EncodeSafetensorsHeader(header);
  const std::uint64_t total =
      head.size() + (header.tensors.empty() ? 0 : header.tensors.back().end);
  DurableFile file(path);
  ShardStream stream(file, total, hooks.half_written);
  stream.Append(std::as_bytes(std::span(head)));
  for (const StateTensor& tensor : tensors) stream.Append(tensor.bytes);
  RC_RETURN_IF_ERROR(file.Commit(hooks.before_rename));
  return ManifestFile{.name = std::filesystem::path(path).filename().string(),
                      .bytes = total,
                      .sha256 = stream.HexDigest()};
}

StatusOr<std::vector<ManifestTensor>> DescribeShard(const std::string& path) {
  StatusOr<std::vector<ManifestTensor>> tensors = Describe(path);
  return tensors.ok() ? std::move(tensors) : At(path, tensors.status());
}

StatusOr<ShardStamp> ReadStamp(const std::string& path) {
  StatusOr<ShardStamp> stamp = StampOf(path);
  return stamp.ok() ? std::move(stamp) : At(path, stamp.status());
}

Status ReadTensors(const std::string& folder, const std::vector<TensorRead>& reads) {
  std::map<std::string, ReadableFile> files;
  for (const TensorRead& read : reads) {
    RC_CHECK(read.destination.size() == read.tensor.num_bytes()) << read.tensor.name;
    const std::string path = folder + "/" + read.tensor.file;
    auto file = files.find(read.tensor.file);
    if (file == files.end()) {
      RC_ASSIGN_OR_RETURN(ReadableFile opened, ReadableFile::Open(path));
      file = files.emplace(read.tensor.file, std::move(opened)).first;
    }
    RC_RETURN_IF_ERROR(file->second.Read(read.tensor.begin, read.destination));
    const std::string sha256 = Sha256Of(read.destination);
    if (sha256 != read.tensor.sha256) {
      return absl::DataLossError(
          fmt::format("'{}': tensor '{}' is damaged: its SHA-256 is {}, but the manifest says {}",
                      path, read.tensor.name, sha256, read.tensor.sha256));
    }
  }
  return OkStatus();
}

Status VerifyFile(const std::string& folder, const ManifestFile& file) {
  const std::string path = folder + "/" + file.name;
  RC_ASSIGN_OR_RETURN(const ReadableFile open_file, ReadableFile::Open(path));
  if (open_file.size() != file.bytes) {
    return absl::DataLossError(fmt::format("'{}' has {} bytes, but the manifest says {}: it is {}",
                                           path, open_file.size(), file.bytes,
                                           open_file.size() < file.bytes ? "cut off" : "another"));
  }
  Sha256 hash;
  std::vector<std::byte> chunk(std::min<std::uint64_t>(kChunkBytes, file.bytes));
  for (std::uint64_t begin = 0; begin < file.bytes; begin += chunk.size()) {
    const std::uint64_t count = std::min<std::uint64_t>(chunk.size(), file.bytes - begin);
    const std::span<std::byte> part(chunk.data(), count);
    RC_RETURN_IF_ERROR(open_file.Read(begin, part));
    hash.Update(part);
  }
  if (hash.HexDigest() == file.sha256) return OkStatus();
  return absl::DataLossError(
      fmt::format("'{}' is damaged: its SHA-256 is not the manifest's {}", path, file.sha256));
}

}  // namespace recycle
