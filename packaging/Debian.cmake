# The packages that `cpack -G DEB` makes, one for each component.
set(libraries_package libpulsedb${PULSE_ABI_VERSION})
set(CPACK_GENERATOR DEB)
set(CPACK_PACKAGE_NAME pulsedb)
set(CPACK_PACKAGE_VENDOR PulseDB)
set(CPACK_PACKAGE_CONTACT "PulseDB <maintainers@pulsedb.invalid>" CACHE STRING "Maintainer of the packages")
set(CPACK_PACKAGE_DESCRIPTION_SUMMARY "I/O of storage programs on an agent, off their cores")
set(CPACK_PACKAGING_INSTALL_PREFIX /usr)
set(CPACK_STRIP_FILES ON)
set(CPACK_INSTALL_DEFAULT_DIRECTORY_PERMISSIONS
  OWNER_READ OWNER_WRITE OWNER_EXECUTE GROUP_READ GROUP_EXECUTE WORLD_READ WORLD_EXECUTE)
set(CPACK_DEB_COMPONENT_INSTALL ON)
set(CPACK_COMPONENTS_ALL runtime plugin libraries development)
set(CPACK_COMPONENTS_GROUPING IGNORE)
set(CPACK_DEBIAN_FILE_NAME DEB-DEFAULT)
set(CPACK_DEBIAN_COMPRESSION_TYPE xz)
set(CPACK_DEBIAN_PACKAGE_CONTROL_STRICT_PERMISSION ON)
# Versions of libraries as dpkg knows them: a package of another release of Debian cannot be installed where
# they are not.
set(CPACK_DEBIAN_PACKAGE_SHLIBDEPS ON)
set(CPACK_DEBIAN_PACKAGE_GENERATE_SHLIBS ON)

set(CPACK_DEBIAN_RUNTIME_PACKAGE_NAME pulsedb)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SECTION database)
set(CPACK_DEBIAN_RUNTIME_PACKAGE_RECOMMENDS "pulsedb-rocksdb, libcurl4")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_SUGGESTS "nbdkit, python3-matplotlib, python3-jinja2")
set(CPACK_DEBIAN_RUNTIME_DESCRIPTION "PulseDB: agent, servers, benchmarks
pulse runs the agent that reads, writes and syncs for other programs, a server of
Redis's protocol over RocksDB, and an in-memory store.")
set(CPACK_DEBIAN_RUNTIME_PACKAGE_CONTROL_EXTRA
  "${CMAKE_CURRENT_LIST_DIR}/debian/postinst;${CMAKE_CURRENT_LIST_DIR}/debian/prerm;${CMAKE_CURRENT_LIST_DIR}/debian/postrm")

set(CPACK_DEBIAN_PLUGIN_PACKAGE_NAME pulsedb-rocksdb)
set(CPACK_DEBIAN_PLUGIN_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_PLUGIN_DESCRIPTION "PulseDB: plug-in for RocksDB ${PULSE_ROCKSDB_VERSION}
Compactions and flushes of databases that are opened on pulse:// have their I/O done
by an agent. Linked, or preloaded into programs on the shared librocksdb.")

set(CPACK_DEBIAN_LIBRARIES_PACKAGE_NAME ${libraries_package})
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_SECTION libs)
set(CPACK_DEBIAN_LIBRARIES_PACKAGE_RECOMMENDS libcurl4)
set(CPACK_DEBIAN_LIBRARIES_DESCRIPTION "PulseDB: libraries
The file library, the in-memory store for programs that embed or serve it, the client
of one that shares its memory, compression and filters on all processors, and the graph
database for programs that embed it.")

set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_NAME libpulsedb-dev)
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_SECTION libdevel)
set(same "(= ${PROJECT_VERSION})")
set(CPACK_DEBIAN_DEVELOPMENT_PACKAGE_DEPENDS
  "${libraries_package} ${same}, pulsedb-rocksdb ${same}, libabsl-dev, librocksdb-dev")
set(CPACK_DEBIAN_DEVELOPMENT_DESCRIPTION "PulseDB: headers, for CMake and pkg-config
What programs need that are built with PulseDB's libraries or plug-in.")

include(CPack)
