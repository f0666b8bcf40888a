#include "recycle/nn/arithmetic.h"

#include <ATen/Version.h>
#include <dlfcn.h>
#include <elf.h>
#include <fmt/format.h>
#include <link.h>

#include <algorithm>
#include <array>
#include <cstddef>
#include <map>
#include <span>
#include <string_view>

#include "recycle/base/sha256.h"

namespace recycle {
namespace {

// Objects whose code computes; the program itself has the empty name.
constexpr std::array<std::string_view, 6> kLibraries = {"libtorch_cpu.", "libopenblas", "libblas.",
                                                        "libdnnl.",      "libsleef.",   "libm."};
constexpr std::size_t kShownDigits = 8;

bool Computes(std::string_view path) {
  if (path.empty()) return true;
  const std::string_view name = path.substr(path.rfind('/') + 1);
  for (const std::string_view library : kLibraries) {
    if (name.starts_with(library)) return true;
  }
  return false;
}

std::size_t AlignUp4(std::size_t size) { return (size + 3) / 4 * 4; }

// The note that the linker has left to tell builds apart; empty if there is none.
std::string_view BuildId(std::span<const char> notes) {
  while (notes.size() >= sizeof(ElfW(Nhdr))) {
    ElfW(Nhdr) header;
    std::copy_n(notes.data(), sizeof(header), reinterpret_cast<char*>(&header));
    const std::size_t name = AlignUp4(header.n_namesz);
    const std::size_t size = sizeof(header) + name + AlignUp4(header.n_descsz);
    if (size > notes.size()) break;
    if (header.n_type == NT_GNU_BUILD_ID) {
      return {notes.data() + sizeof(header) + name, header.n_descsz};
    }
    notes = notes.subspan(size);
  }
  return {};
}

using BuildIds = std::map<std::string, std::string>;  // by path

int NoteObject(dl_phdr_info* object, std::size_t /*size*/, void* build_ids) {
  if (!Computes(object->dlpi_name)) return 0;
  for (const ElfW(Phdr) & segment : std::span(object->dlpi_phdr, object->dlpi_phnum)) {
    if (segment.p_type != PT_NOTE) continue;
    const auto* const notes = reinterpret_cast<const char*>(object->dlpi_addr + segment.p_vaddr);
    const std::string_view id = BuildId({notes, segment.p_memsz});
    if (!id.empty()) (*static_cast<BuildIds*>(build_ids))[object->dlpi_name] = id;
  }
  return 0;
}

std::string BuildHash() {
  BuildIds build_ids;
  dl_iterate_phdr(NoteObject, &build_ids);
  Sha256 hash;
  for (const auto& [path, id] : build_ids) hash.Update(std::as_bytes(std::span(id)));
  return hash.HexDigest().substr(0, kShownDigits);
}

// libtorch says it in a line of its own.
std::string TorchKernels() {
  constexpr std::string_view kLabel = "CPU capability usage: ";
  const std::string config = at::show_config();
  const std::size_t begin = config.find(kLabel);
  if (begin == std::string::npos) return "unknown";
  const std::size_t end = config.find_first_of(", \n", begin + kLabel.size());
  return config.substr(begin + kLabel.size(), end - begin - kLabel.size());
}

// Not every BLAS is OpenBLAS.
std::string BlasKernels() {
  using CoreName = char* (*)();
  const auto name = reinterpret_cast<CoreName>(dlsym(RTLD_DEFAULT, "openblas_get_corename"));
  return name == nullptr ? "unknown" : name();
}

}  // namespace

std::string Arithmetic() {
  return fmt::format("{} {} {}", TorchKernels(), BlasKernels(), BuildHash());
}

}  // namespace recycle
