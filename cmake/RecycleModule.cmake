# recycle_module(NAME [DEPS targets...])
#
# Makes the library recycle_NAME out of every *.cc in the current folder, and the test binary
# NAME_test out of every *_test.cc there. Mains (*_main.cc), benchmarks (*_benchmark.cc) and tests
# stay out of the library. DEPS are linked publicly; a module is named recycle_<module>.
function(recycle_module NAME)
  cmake_parse_arguments(ARG "" "" "DEPS;TEST_DEPS" ${ARGN})
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
  if(tests)
    recycle_test(${NAME}_test SOURCES ${tests} DEPS recycle_${NAME} ${ARG_TEST_DEPS})
  endif()
endfunction()

# recycle_test(NAME SOURCES files... DEPS targets...): a GoogleTest binary registered with CTest.
function(recycle_test NAME)
  cmake_parse_arguments(ARG "" "" "SOURCES;DEPS" ${ARGN})
  add_executable(${NAME} ${ARG_SOURCES})
  target_link_libraries(${NAME} PRIVATE ${ARG_DEPS} GTest::gmock GTest::gtest_main)
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
