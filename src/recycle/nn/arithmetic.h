// On what the bits of this process's results depend beside its input: this build and the libraries
// that compute for it, and the kinds of processor for which those have chosen their kernels.
#ifndef RECYCLE_NN_ARITHMETIC_H_
#define RECYCLE_NN_ARITHMETIC_H_

#include <string>

namespace recycle {

// "AVX512 SkylakeX 5d0c1f8e": kernels of libtorch and of OpenBLAS, and a hash of the build. Equal
// strings, equal bits (with one thread). Thread-safe.
std::string Arithmetic();

}  // namespace recycle

#endif  // RECYCLE_NN_ARITHMETIC_H_
