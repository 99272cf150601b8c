# Every warning is an error. pulse_options carries the flags to each target.
add_library(pulse_options INTERFACE)
target_compile_options(pulse_options INTERFACE -Wall -Wextra -Werror -Wno-unused-parameter
  -Wshadow -Wnon-virtual-dtor)
if(CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # GCC 12 sees overlapping copies in std::string's operator+ where there are none (GCC bug 105651).
  target_compile_options(pulse_options INTERFACE -Wno-restrict)
endif()
if(PULSE_UNITY AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
  # A class of one file may hold what is in that file's unnamed namespace; seen from a file that
  # includes it, GCC takes it for a header's.
  target_compile_options(pulse_options INTERFACE -Wno-subobject-linkage)
endif()
if(PULSE_UNITY AND CMAKE_CXX_COMPILER_ID MATCHES "Clang")
  # Clang sees enumerators of one file's classes shadow another's constants. GCC still warns of real ones.
  target_compile_options(pulse_options INTERFACE -Wno-shadow)
endif()
target_include_directories(pulse_options INTERFACE
  ${PROJECT_SOURCE_DIR}/include ${PROJECT_SOURCE_DIR}/src ${PROJECT_SOURCE_DIR})
if(PULSE_SANITIZE)
  set(CMAKE_CXX_FLAGS_DEBUG "-O1 -g1")
  target_compile_options(pulse_options INTERFACE -fsanitize=${PULSE_SANITIZE}
    -fno-omit-frame-pointer -fno-sanitize-recover=all)
  target_link_options(pulse_options INTERFACE -fsanitize=${PULSE_SANITIZE})
  if(PULSE_SANITIZE MATCHES "undefined")
    # RocksDB is built elsewhere, perhaps without type information.
    target_compile_options(pulse_options INTERFACE -fno-sanitize=vptr)
  endif()
  if(PULSE_SANITIZE MATCHES "thread" AND CMAKE_CXX_COMPILER_ID STREQUAL "GNU")
    # ThreadSanitizer does not model the doorbell's fences. They order one side's store before its own
    # load, which no race report depends on.
    target_compile_options(pulse_options INTERFACE -Wno-tsan)
  endif()
endif()

if(PULSE_FUZZ)
  if(NOT CMAKE_CXX_COMPILER_ID MATCHES "Clang")
    message(FATAL_ERROR "PULSE_FUZZ needs clang: -DCMAKE_CXX_COMPILER=clang++; scripts/fuzz.sh does it")
  endif()
  target_compile_options(pulse_options INTERFACE -fsanitize=fuzzer-no-link)
endif()

# Most of what a file costs are headers and the templates in them. Files of one target must therefore
# not use one name for two things, not even in unnamed namespaces.
function(pulse_unity target)
  if(PULSE_UNITY)
    set_target_properties(${target} PROPERTIES UNITY_BUILD ON UNITY_BUILD_BATCH_SIZE 6)
  endif()
endfunction()

function(pulse_library name)
  add_library(${name} STATIC ${ARGN})
  pulse_unity(${name})
  target_link_libraries(${name} PUBLIC pulse_options)
  set_target_properties(${name} PROPERTIES CXX_VISIBILITY_PRESET hidden
    VISIBILITY_INLINES_HIDDEN ON)
endfunction()

# pulse_shared_library(target NAME EXPORTS sources...): lib/libNAME.so for programs that are built elsewhere.
# Everything but the run time is inside, hidden but for the names that the version script EXPORTS lists.
# docs/reference/abi.md says what its version promises.
function(pulse_shared_library target name exports)
  add_library(${target} SHARED ${ARGN})
  target_link_libraries(${target} PRIVATE pulse_options)
  target_include_directories(${target} INTERFACE
    $<BUILD_INTERFACE:${PROJECT_SOURCE_DIR}/include> $<INSTALL_INTERFACE:${CMAKE_INSTALL_INCLUDEDIR}>)
  target_link_options(${target} PRIVATE
    -Wl,--version-script=${CMAKE_CURRENT_SOURCE_DIR}/${exports} -Wl,--as-needed -Wl,-z,now -Wl,-z,defs)
  set_target_properties(${target} PROPERTIES OUTPUT_NAME ${name}
    VERSION ${PROJECT_VERSION} SOVERSION ${PULSE_ABI_VERSION}
    CXX_VISIBILITY_PRESET hidden VISIBILITY_INLINES_HIDDEN ON
    LINK_DEPENDS ${CMAKE_CURRENT_SOURCE_DIR}/${exports})
endfunction()

# pulse_no_rtti(targets...): for what the in-tree plug-in is made of, since RocksDB's Release build has no
# run-time type information.
function(pulse_no_rtti)
  foreach(target ${ARGN})
    target_compile_options(${target} PRIVATE $<$<COMPILE_LANGUAGE:CXX>:-fno-rtti>)
  endforeach()
endfunction()

# pulse_own_program(target): exports the name by which a preloaded plug-in knows PulseDB's own programs.
function(pulse_own_program target)
  target_link_options(${target} PRIVATE -Wl,--export-dynamic-symbol=pulse_own_program)
endfunction()

# pulse_precompile(target headers...): parses these once for the target, and what nearly every file
# includes. For targets of many files; half of what they take is headers.
function(pulse_precompile target)
  target_precompile_headers(${target} PRIVATE <algorithm> <functional> <map> <memory> <mutex> <random>
    <string> <thread> <vector> <absl/status/statusor.h> <absl/strings/str_cat.h> ${ARGN})
  # The first for ccache; the second since such headers no longer count as the system's.
  target_compile_options(${target} PRIVATE
    $<$<CXX_COMPILER_ID:GNU>:-fpch-preprocess -Wno-stringop-overflow>)
endfunction()

# pulse_test(name SOURCES... LIBS libs... [TIMEOUT seconds] [SHARDS n]): a GoogleTest program run by
# ctest; in n parts that may run at the same time. What takes long is in TestSeconds.cmake.
function(pulse_test name)
  if(NOT PULSE_BUILD_TESTS)
    return()
  endif()
  cmake_parse_arguments(T "" "TIMEOUT;SHARDS" "SOURCES;LIBS" ${ARGN})
  add_executable(${name} ${T_SOURCES})
  pulse_unity(${name})
  target_link_libraries(${name} PRIVATE pulse_options ${T_LIBS} GTest::gtest GTest::gmock
    GTest::gtest_main)
  # What is tested is optimised as it will be used; the tests themselves are built faster.
  target_compile_options(${name} PRIVATE $<IF:$<CONFIG:Debug>,-O0,-O1>)
  # Worth it from some compilations on.
  list(LENGTH T_SOURCES files)
  if((PULSE_UNITY AND files GREATER 12) OR (NOT PULSE_UNITY AND files GREATER 3))
    pulse_precompile(${name} <gmock/gmock.h> <gtest/gtest.h>)
  endif()
  if(NOT T_TIMEOUT)
    set(T_TIMEOUT 300)
  endif()
  if(PULSE_SANITIZE)  # which makes some tests ten times as slow
    math(EXPR T_TIMEOUT "3 * ${T_TIMEOUT}")
  endif()
  if(NOT T_SHARDS)
    add_test(NAME ${name} COMMAND ${name})
    set_tests_properties(${name} PROPERTIES TIMEOUT ${T_TIMEOUT})
    pulse_test_cost(${name})
    return()
  endif()
  math(EXPR last "${T_SHARDS} - 1")
  foreach(shard RANGE ${last})
    math(EXPR number "${shard} + 1")
    set(part ${name}_${number}_of_${T_SHARDS})
    add_test(NAME ${part} COMMAND ${name})
    set_tests_properties(${part} PROPERTIES TIMEOUT ${T_TIMEOUT}
      ENVIRONMENT "GTEST_TOTAL_SHARDS=${T_SHARDS};GTEST_SHARD_INDEX=${shard}")
    pulse_test_cost(${part})
  endforeach()
endfunction()
