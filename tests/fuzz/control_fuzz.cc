// Any bytes at all go through the decoder of the control plane's messages.
#include <cstddef>
#include <cstdint>
#include <string_view>

#include "recycle/testing/control_bytes.h"

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  recycle::JudgeControlBytes({reinterpret_cast<const char*>(data), size});
  return 0;
}
