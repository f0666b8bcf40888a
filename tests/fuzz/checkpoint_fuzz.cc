// Any bytes at all as a safetensors file and as a manifest: an error is fine, a crash is not, and
// what is accepted must survive being written and read again.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "recycle/base/check.h"
#include "recycle/checkpoint/manifest.h"
#include "recycle/checkpoint/safetensors.h"

namespace recycle {
namespace {

StatusOr<SafetensorsHeader> Decode(std::string_view file, std::uint64_t file_bytes) {
  RC_ASSIGN_OR_RETURN(const std::uint64_t length, DecodeSafetensorsLength(file, file_bytes));
  return DecodeSafetensorsHeader(file.substr(kSafetensorsLengthBytes, length), file_bytes);
}

void JudgeSafetensors(std::string_view file) {
  const StatusOr<SafetensorsHeader> header = Decode(file, file.size());
  if (!header.ok()) return;
  const std::string head = EncodeSafetensorsHeader(*header);
  const std::uint64_t data = file.size() - header->data_begin;
  const StatusOr<SafetensorsHeader> again = Decode(head, head.size() + data);
  RC_CHECK(again.ok()) << again.status();
  RC_CHECK(again->tensors == header->tensors && again->metadata == header->metadata) << head;
}

void JudgeManifest(std::string_view text) {
  const StatusOr<Manifest> manifest = ManifestFromJson(text);
  if (!manifest.ok()) return;
  const StatusOr<Manifest> again = ManifestFromJson(ManifestToJson(*manifest));
  RC_CHECK(again.ok() && *again == *manifest) << text;
}

}  // namespace
}  // namespace recycle

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  const std::string_view bytes(reinterpret_cast<const char*>(data), size);
  recycle::JudgeSafetensors(bytes);
  recycle::JudgeManifest(bytes);
  return 0;
}
