# Compiler settings that hold for every target.
if(NOT CMAKE_BUILD_TYPE)
  set(CMAKE_BUILD_TYPE RelWithDebInfo CACHE STRING "" FORCE)
endif()
find_program(CCACHE ccache)
if(CCACHE)
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CCACHE})
endif()
set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O2 -g1")
if(RECYCLE_SANITIZE)  # at -O2 the checks cost more time in the compiler than they save at run time
  set(CMAKE_CXX_FLAGS_RELWITHDEBINFO "-O1 -g1")
endif()
set(CMAKE_CXX_FLAGS_RELEASE "-O2")
add_library(recycle_options INTERFACE)
target_include_directories(recycle_options INTERFACE ${CMAKE_SOURCE_DIR}/src)
# gcc 12 takes an empty std::optional for an uninitialized one where it inlines far
# (https://gcc.gnu.org/bugzilla/show_bug.cgi?id=80635).
target_compile_options(recycle_options INTERFACE -Wall -Wextra -Wno-unused-parameter
                       $<$<CXX_COMPILER_ID:GNU>:-Wno-maybe-uninitialized> -Werror -pthread)
if(CMAKE_UNITY_BUILD)
  # Several sources are compiled as one, since headers cost most of the time. A class that has
  # members of a source's own types then looks as if a header had them.
  target_compile_options(recycle_options INTERFACE -Wno-subobject-linkage)
endif()
if(RECYCLE_SANITIZE)
  target_compile_options(recycle_options INTERFACE -fsanitize=${RECYCLE_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(recycle_options INTERFACE -fsanitize=${RECYCLE_SANITIZE})
endif()
