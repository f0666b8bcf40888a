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
target_compile_options(recycle_options INTERFACE -Wall -Wextra -Wno-unused-parameter -Werror -pthread)
if(RECYCLE_SANITIZE)
  # The checks hide from gcc what is initialized (std::regex): that warning is the plain build's.
  target_compile_options(recycle_options INTERFACE -fsanitize=${RECYCLE_SANITIZE}
                         -fno-omit-frame-pointer -fno-sanitize-recover=all
                         -Wno-maybe-uninitialized)
  target_link_options(recycle_options INTERFACE -fsanitize=${RECYCLE_SANITIZE})
endif()
