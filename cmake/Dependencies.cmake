find_package(PkgConfig REQUIRED)
find_package(Threads REQUIRED)
find_package(CLI11 REQUIRED)
find_package(nlohmann_json REQUIRED)
if(PULSE_BUILD_TESTS)
  find_package(GTest REQUIRED)
endif()
if(PULSE_BUILD_BENCH)
  find_package(benchmark REQUIRED)
endif()
pkg_check_modules(LIBEDIT REQUIRED IMPORTED_TARGET libedit)
pkg_check_modules(LIBURING REQUIRED IMPORTED_TARGET liburing)
if(PULSE_JAVA_PLUGIN)
  # Within the plug-in: other systems' liburing may be older, or not there.
  find_library(LIBURING_ARCHIVE liburing.a REQUIRED)
  set_target_properties(PkgConfig::LIBURING PROPERTIES INTERFACE_LINK_LIBRARIES ${LIBURING_ARCHIVE})
endif()
pkg_check_modules(OPENSSL REQUIRED IMPORTED_TARGET openssl)
pkg_check_modules(CURL REQUIRED IMPORTED_TARGET libcurl)
# Codecs and matchers of services/ops.
pkg_check_modules(ISAL REQUIRED IMPORTED_TARGET libisal)
pkg_check_modules(LIBDEFLATE REQUIRED IMPORTED_TARGET libdeflate)
pkg_check_modules(ZLIB REQUIRED IMPORTED_TARGET zlib)
pkg_check_modules(LZ4 REQUIRED IMPORTED_TARGET liblz4)
pkg_check_modules(ZSTD REQUIRED IMPORTED_TARGET libzstd)
pkg_check_modules(VECTORSCAN REQUIRED IMPORTED_TARGET libhs)
pkg_check_modules(RE2 REQUIRED IMPORTED_TARGET re2)
# Its devices as engines of services/ops: a module of its own, which nothing else needs.
if(PULSE_DPDK)
  pkg_check_modules(DPDK IMPORTED_TARGET libdpdk>=21.11)
  if(NOT DPDK_FOUND)
    message(STATUS "no module for DPDK's devices: libdpdk is not installed (scripts/setup-debian.sh --dpdk)")
  endif()
endif()
if(PULSE_BUILD_APP)
  # For the agent's --metrics; the plug-in does not link it.
  pkg_check_modules(PROMETHEUS REQUIRED IMPORTED_TARGET prometheus-cpp-pull prometheus-cpp-core)
  # The HTTP server that it brings, for the page of graphs, too.
  find_library(CIVETWEB_LIBRARY civetweb REQUIRED)
  find_library(CIVETWEB_CPP_LIBRARY civetweb-cpp REQUIRED)
endif()
# Their headers alone: everything is inlined, so that nothing is linked.
find_path(XXHASH_INCLUDE xxhash.h REQUIRED)
find_path(HIGHWAY_INCLUDE hwy/highway.h REQUIRED)

# Abseil, spdlog and fmt go into the preloadable object statically or as headers, so that it drags no
# shared library of theirs into its host program. Debian's CMake targets would link the shared ones.
pkg_check_modules(ABSL_PC REQUIRED absl_status absl_statusor absl_strings absl_cord absl_flat_hash_map)
add_library(pulse_absl INTERFACE)
foreach(lib ${ABSL_PC_STATIC_LIBRARIES})
  if(lib MATCHES "^absl_")
    find_library(PULSE_LIB_${lib} NAMES lib${lib}.a HINTS ${PULSE_ABSL_ROOT}/lib REQUIRED)
    list(APPEND PULSE_ABSL_LIBS ${PULSE_LIB_${lib}})
  endif()
endforeach()
if(PULSE_ABSL_ROOT)
  target_include_directories(pulse_absl BEFORE INTERFACE ${PULSE_ABSL_ROOT}/include)
endif()
# A shared object that cannot have the static one says so by the property PULSE_SHARED_ABSL.
pkg_check_modules(ABSL_SHARED REQUIRED IMPORTED_TARGET absl_status absl_statusor absl_strings absl_cord
  absl_flat_hash_map absl_time)
target_link_libraries(pulse_absl INTERFACE
  $<IF:$<BOOL:$<TARGET_PROPERTY:PULSE_SHARED_ABSL>>,PkgConfig::ABSL_SHARED,-Wl$<COMMA>--start-group;${PULSE_ABSL_LIBS};-Wl$<COMMA>--end-group>
  Threads::Threads)

find_package(spdlog REQUIRED)
find_package(fmt REQUIRED)
add_library(pulse_spdlog INTERFACE)
target_compile_definitions(pulse_spdlog INTERFACE SPDLOG_FMT_EXTERNAL FMT_HEADER_ONLY)

add_library(rocksdb_dep INTERFACE)
# Looked for each time, since another ROCKSDB_ROOT has another one; what was given stays.
foreach(name ROCKSDB_INCLUDE ROCKSDB_LIB)
  get_property(help CACHE ${name} PROPERTY HELPSTRING)
  if("${help}" MATCHES "^Path to a")  # as find_path and find_library say of what they found
    unset(${name} CACHE)
  endif()
endforeach()
function(pulse_rocksdb_part name find)
  if(NOT DEFINED CACHE{${name}})
    cmake_language(CALL ${find} ${name} ${ARGN} REQUIRED)
  endif()
endfunction()
if(PULSE_JAVA_PLUGIN)
  # Its RocksDB is in the library that the plug-in is attached to.
  pulse_rocksdb_part(ROCKSDB_INCLUDE find_path rocksdb/version.h HINTS ${ROCKSDB_ROOT}/include)
  set(ROCKSDB_LIB "")
elseif(ROCKSDB_ROOT)
  pulse_rocksdb_part(ROCKSDB_INCLUDE find_path rocksdb/version.h PATHS ${ROCKSDB_ROOT}/include NO_DEFAULT_PATH)
  pulse_rocksdb_part(ROCKSDB_LIB find_library rocksdb PATHS ${ROCKSDB_ROOT}/lib ${ROCKSDB_ROOT} NO_DEFAULT_PATH)
else()
  pulse_rocksdb_part(ROCKSDB_INCLUDE find_path rocksdb/version.h)
  pulse_rocksdb_part(ROCKSDB_LIB find_library NAMES librocksdb.so rocksdb)
endif()
target_include_directories(rocksdb_dep SYSTEM INTERFACE ${ROCKSDB_INCLUDE})
target_link_libraries(rocksdb_dep INTERFACE ${ROCKSDB_LIB})

find_program(CCACHE_PROGRAM ccache)
if(CCACHE_PROGRAM)
  # With precompiled headers it has to be told that they may be cached. Checkouts of one machine share
  # what they compile: paths below the project count as relative.
  set(CMAKE_CXX_COMPILER_LAUNCHER ${CMAKE_COMMAND} -E env
    CCACHE_SLOPPINESS=pch_defines,time_macros,include_file_mtime,include_file_ctime
    CCACHE_BASEDIR=${PROJECT_SOURCE_DIR} CCACHE_NOHASHDIR=true ${CCACHE_PROGRAM})
endif()
