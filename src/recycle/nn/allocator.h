// Tunes glibc's allocator for tensors.
#ifndef RECYCLE_NN_ALLOCATOR_H_
#define RECYCLE_NN_ALLOCATOR_H_

namespace recycle {

// Keeps freed blocks of up to 1 GiB in the process instead of giving them back to the kernel, which
// would clear every page again at the next use. Call once at process start, before threads exist.
void TuneAllocator();

}  // namespace recycle

#endif  // RECYCLE_NN_ALLOCATOR_H_
