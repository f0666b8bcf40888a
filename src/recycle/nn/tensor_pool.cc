#include "recycle/nn/tensor_pool.h"

#include <sys/mman.h>

#include <cstdlib>
#include <iterator>
#include <new>

#include "recycle/base/check.h"

namespace recycle {
namespace {

constexpr std::size_t kAlignment = 64;
constexpr std::size_t kSmallestBlock = std::size_t{128} << 10;
constexpr std::size_t kPageSize = 4096;
constexpr std::size_t kSlack = std::size_t{16} << 20;

std::size_t RoundUp(std::size_t bytes, std::size_t unit) {
  return (bytes + unit - 1) / unit * unit;
}

// An eighth more.
std::size_t Widened(std::size_t bytes) { return bytes + bytes / 8; }

}  // namespace

// Before the memory that is handed out.
struct alignas(kAlignment) TensorPool::Header {
  std::size_t bytes = 0;     // asked for
  std::size_t capacity = 0;  // with this header; 0: malloc's
};

TensorPool::~TensorPool() {
  for (const auto& [capacity, blocks] : free_) {
    for (Header* block : blocks) munmap(block, capacity);
  }
}

void* TensorPool::Take(std::size_t bytes) {
  const std::size_t needed = sizeof(Header) + bytes;
  Header* block = nullptr;
  if (needed < kSmallestBlock) {
    block = static_cast<Header*>(std::aligned_alloc(kAlignment, RoundUp(needed, kAlignment)));
    RC_CHECK(block != nullptr) << bytes << " bytes";
    new (block) Header();
  } else {
    const std::size_t capacity = RoundUp(needed, kPageSize);
    const std::lock_guard lock(mutex_);
    block = TakeFree(capacity);
    if (block == nullptr) block = Map(capacity);
    usage_.in_use += block->capacity;
  }
  block->bytes = bytes;
  return block + 1;
}

void TensorPool::Give(void* memory) {
  Header* const block = static_cast<Header*>(memory) - 1;
  if (block->capacity == 0) return std::free(block);
  const std::lock_guard lock(mutex_);
  usage_.in_use -= block->capacity;
  free_[block->capacity].push_back(block);
}

std::size_t TensorPool::SizeOf(const void* memory) {
  return (static_cast<const Header*>(memory) - 1)->bytes;
}

TensorPool::Usage TensorPool::usage() const {
  const std::lock_guard lock(mutex_);
  return usage_;
}

// The one freed last: the caches may still have it.
TensorPool::Header* TensorPool::TakeFree(std::size_t capacity) {
  const auto fitting = free_.lower_bound(capacity);
  if (fitting == free_.end() || fitting->first > Widened(capacity)) return nullptr;
  Header* const block = fitting->second.back();
  fitting->second.pop_back();
  if (fitting->second.empty()) free_.erase(fitting);
  return block;
}

TensorPool::Header* TensorPool::Map(std::size_t capacity) {
  while (!free_.empty() && usage_.held + capacity > Widened(usage_.in_use + capacity) + kSlack) {
    const auto largest = std::prev(free_.end());
    Header* const block = largest->second.back();
    largest->second.pop_back();
    if (largest->second.empty()) free_.erase(largest);
    Unmap(block);
  }
  void* const memory =
      mmap(nullptr, capacity, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  RC_CHECK(memory != MAP_FAILED) << capacity << " bytes";
  usage_.held += capacity;
  Header* const block = new (memory) Header();
  block->capacity = capacity;
  return block;
}

void TensorPool::Unmap(Header* block) {
  usage_.held -= block->capacity;
  RC_CHECK(munmap(block, block->capacity) == 0);
}

}  // namespace recycle
