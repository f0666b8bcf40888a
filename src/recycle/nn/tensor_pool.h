// Memory for tensors that is kept when it is freed, for the next tensor of about the same size. One
// micro-batch is like the next, so from the first iteration on nothing is asked of the kernel any
// more, no page is cleared again, and long-lived small objects cannot come between large ones, as
// they do in a heap, where the holes they leave grow with the number of micro-batches.
//
//   TensorPool pool;
//   void* memory = pool.Take(bytes);   // aligned for any vector register
//   pool.Give(memory);
//
// Invariant: when memory is taken from the kernel, what the pool holds is at most an eighth and
// 16 MiB more than what is in use. Thread-safe.
#ifndef RECYCLE_NN_TENSOR_POOL_H_
#define RECYCLE_NN_TENSOR_POOL_H_

#include <cstddef>
#include <map>
#include <mutex>
#include <vector>

namespace recycle {

class TensorPool {
 public:
  // Bytes of blocks of 128 KiB and more; smaller ones are malloc's.
  struct Usage {
    std::size_t in_use = 0;
    std::size_t held = 0;  // those and the free ones
  };

  TensorPool() = default;
  ~TensorPool();  // all memory has been given back
  TensorPool(const TensorPool&) = delete;
  TensorPool& operator=(const TensorPool&) = delete;

  // bytes > 0. What is in it is undefined. Memory that is not there ends the process.
  void* Take(std::size_t bytes);
  void Give(void* memory);
  // The `bytes` it was taken for.
  static std::size_t SizeOf(const void* memory);

  Usage usage() const;

 private:
  struct Header;

  Header* TakeFree(std::size_t capacity);
  Header* Map(std::size_t capacity);
  void Unmap(Header* block);

  mutable std::mutex mutex_;
  std::map<std::size_t, std::vector<Header*>> free_;  // by capacity, the last one freed last
  Usage usage_;
};

}  // namespace recycle

#endif  // RECYCLE_NN_TENSOR_POOL_H_
