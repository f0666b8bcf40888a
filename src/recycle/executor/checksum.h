// A cheap checksum over bytes, for what peers must agree on to the bit: it has to see corrupted or
// different bits, not malice.
//
//   std::uint64_t hash = Checksum(std::as_bytes(first), 0);
//   hash = Checksum(std::as_bytes(second), hash);   // of both, in this order
//
// Pure, thread-safe.
#ifndef RECYCLE_EXECUTOR_CHECKSUM_H_
#define RECYCLE_EXECUTOR_CHECKSUM_H_

#include <cstddef>
#include <cstdint>
#include <span>

namespace recycle {

// Depends on the order of the bytes; `seed` makes a chain of it.
std::uint64_t Checksum(std::span<const std::byte> bytes, std::uint64_t seed);

}  // namespace recycle

#endif  // RECYCLE_EXECUTOR_CHECKSUM_H_
