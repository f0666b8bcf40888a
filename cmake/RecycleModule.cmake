# recycle_module(NAME [TORCH] [DEPS targets...])
#
# Makes the library recycle_NAME out of every *.cc in the current folder, and the test binary
# NAME_test out of every *_test.cc there. Mains (*_main.cc), benchmarks (*_benchmark.cc) and tests
# stay out of the library. DEPS are linked publicly; a module is named recycle_<module>. TORCH: its
# sources include libtorch.
function(recycle_module NAME)
  cmake_parse_arguments(ARG "TORCH" "" "DEPS;TEST_DEPS" ${ARGN})
  set(torch "")
  if(ARG_TORCH)
    set(torch TORCH)
  endif()
  file(GLOB sources CONFIGURE_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/*.cc)
  set(tests ${sources})
  list(FILTER tests INCLUDE REGEX "_test\\.cc$")
  list(FILTER sources EXCLUDE REGEX "_(test|main|benchmark)\\.cc$")
  if(NOT sources)  # headers alone
    file(CONFIGURE OUTPUT ${CMAKE_CURRENT_BINARY_DIR}/empty.cc CONTENT "")
    set(sources ${CMAKE_CURRENT_BINARY_DIR}/empty.cc)
  endif()
  add_library(recycle_${NAME} STATIC ${sources})
  target_link_libraries(recycle_${NAME} PUBLIC recycle_options ${ARG_DEPS})
  if(ARG_TORCH)
    recycle_precompile(recycle_${NAME} torch)
  else()
    recycle_precompile(recycle_${NAME} plain)
  endif()
  if(tests)
    recycle_test(${NAME}_test ${torch} SOURCES ${tests} DEPS recycle_${NAME} ${ARG_TEST_DEPS})
  endif()
endfunction()

# Tests spend more time in the compiler than in their own code.
set(RECYCLE_TEST_OPTIONS -O1)

# recycle_test(NAME [TORCH] SOURCES files... DEPS targets...): a GoogleTest binary registered with CTest.
function(recycle_test NAME)
  cmake_parse_arguments(ARG "TORCH" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
  target_compile_options(${NAME} PRIVATE ${RECYCLE_TEST_OPTIONS})
  if(ARG_TORCH)
    recycle_precompile(${NAME} torch_test)
  else()
    recycle_precompile(${NAME} test)
  endif()
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/tests)
  add_test(NAME ${NAME} COMMAND ${NAME} WORKING_DIRECTORY ${CMAKE_SOURCE_DIR})
endfunction()

# recycle_benchmark(NAME SOURCES files... DEPS targets...): a program under bench/, not run by CTest.
function(recycle_benchmark NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} recycle_options)
  set_target_properties(${NAME} PROPERTIES RUNTIME_OUTPUT_DIRECTORY ${CMAKE_BINARY_DIR}/bench)
endfunction()
