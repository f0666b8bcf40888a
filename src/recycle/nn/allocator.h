// How this process gets memory: tensors from a pool, the rest from glibc's allocator, tuned.
#ifndef RECYCLE_NN_ALLOCATOR_H_
#define RECYCLE_NN_ALLOCATOR_H_

namespace recycle {

// From now on tensors are made in a pool (tensor_pool.h), and freed blocks of up to 1 GiB of all
// else stay in the process instead of going back to the kernel, which would clear every page again
// at the next use. Call once at process start, before threads exist.
void TuneAllocator();

}  // namespace recycle

#endif  // RECYCLE_NN_ALLOCATOR_H_
