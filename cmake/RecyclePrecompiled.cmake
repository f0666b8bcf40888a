# Precompiled headers: the standard library and the few heavy packages that most sources include
# anyway. They are a matter of build time alone: every source still includes what it uses (lint
# compiles without them). One for sources without libtorch, one with it, and one for tests each.
#
# recycle_precompile(TARGET plain|torch|test|torch_test)
set(RECYCLE_PRECOMPILED_plain
  <algorithm> <array> <chrono> <cmath> <condition_variable> <cstdint> <filesystem> <fstream>
  <functional> <map> <memory> <mutex> <optional> <set> <span> <sstream> <string> <string_view>
  <thread> <utility> <variant> <vector> <absl/status/statusor.h> <fmt/format.h>)
set(RECYCLE_PRECOMPILED_torch ${RECYCLE_PRECOMPILED_plain} <ATen/core/Tensor.h>
  <ATen/ops/add.h> <ATen/ops/empty.h>)
set(RECYCLE_PRECOMPILED_test ${RECYCLE_PRECOMPILED_plain} <gmock/gmock.h> <gtest/gtest.h>)
set(RECYCLE_PRECOMPILED_torch_test ${RECYCLE_PRECOMPILED_torch} <gmock/gmock.h> <gtest/gtest.h>)

function(recycle_precompile TARGET SET)
  set(donor recycle_precompiled_${SET})
  if(NOT TARGET ${donor})
    file(CONFIGURE OUTPUT ${CMAKE_BINARY_DIR}/precompiled/${SET}.cc CONTENT "")
    add_library(${donor} OBJECT ${CMAKE_BINARY_DIR}/precompiled/${SET}.cc)
    target_link_libraries(${donor} PRIVATE recycle_options absl::statusor fmt::fmt
                          Threads::Threads)
    if(SET MATCHES test)
      target_link_libraries(${donor} PRIVATE GTest::gmock)
      target_compile_options(${donor} PRIVATE ${RECYCLE_TEST_OPTIONS})
    endif()
    if(SET MATCHES torch)
      target_link_libraries(${donor} PRIVATE ${TORCH_LIBRARIES})
    endif()
    target_precompile_headers(${donor} PRIVATE ${RECYCLE_PRECOMPILED_${SET}})
  endif()
  target_precompile_headers(${TARGET} REUSE_FROM ${donor})
  target_link_libraries(${TARGET} PRIVATE absl::statusor fmt::fmt Threads::Threads)
  target_compile_options(${TARGET} PRIVATE -Winvalid-pch)
endfunction()
