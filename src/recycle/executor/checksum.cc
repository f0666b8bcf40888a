#include "recycle/executor/checksum.h"

#include <cstring>

#include "recycle/base/prng.h"

namespace recycle {

std::uint64_t Checksum(std::span<const std::byte> bytes, std::uint64_t seed) {
  std::uint64_t hash = seed;
  std::size_t i = 0;
  for (; i + sizeof(std::uint64_t) <= bytes.size(); i += sizeof(std::uint64_t)) {
    std::uint64_t word = 0;
    std::memcpy(&word, &bytes[i], sizeof(word));
    hash = (hash ^ word) * 0x9fb21c651e98df25U;
    hash ^= hash >> 29;
  }
  std::uint64_t rest = 0;
  if (i < bytes.size()) std::memcpy(&rest, &bytes[i], bytes.size() - i);
  return Mix64(hash ^ Mix64(rest));
}

}  // namespace recycle
