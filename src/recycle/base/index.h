// Index(n): a count or an id, which this project keeps signed, as the index of a container.
#ifndef RECYCLE_BASE_INDEX_H_
#define RECYCLE_BASE_INDEX_H_

#include <cstddef>
#include <cstdint>

namespace recycle {

// `value` is not negative. Thread-safe.
constexpr std::size_t Index(std::int64_t value) { return static_cast<std::size_t>(value); }

}  // namespace recycle

#endif  // RECYCLE_BASE_INDEX_H_
