# PulseDB as an in-tree RocksDB plug-in, for RocksDB's Makefile. README.md says how to use it.
#
# RocksDB's CMake build reads this file too, for the name of the registration function; the sources
# are listed in sources.txt, for both.
pulse_ROOT := $(realpath $(dir $(lastword $(MAKEFILE_LIST)))../..)
ifeq ($(wildcard $(pulse_ROOT)/plugin/pulse/sources.txt),)
  $(error plugin/pulse must be a symbolic link to plugin/pulse in PulseDB's tree, not a copy of it)
endif

# RocksDB puts plugin/pulse/ before each name. That directory is a symbolic link into PulseDB's tree,
# so the kernel resolves ../../src to PulseDB's own sources.
pulse_SOURCES := $(addprefix ../../, $(shell cat $(pulse_ROOT)/plugin/pulse/sources.txt))
pulse_HEADERS := ../../include/pulse/rocksdb.h
pulse_FUNC = pulse_RegisterPlugin

pulse_PKGCONFIG_REQUIRES := absl_status absl_statusor absl_strings absl_cord liburing
# The same again for RocksDB's Java libraries, which take only these flags.
pulse_LDFLAGS := $(shell pkg-config --libs $(pulse_PKGCONFIG_REQUIRES))

# With the default OBJ_DIR the objects would land beside PulseDB's sources, beyond the reach of
# RocksDB's `make clean`.
ifeq ($(OBJ_DIR),.)
  OBJ_DIR := obj
endif

# For PulseDB's own objects only, and after RocksDB's flags: RocksDB before 10.7 is C++17.
pulse_OBJECT_FLAGS := -std=c++20 -I$(pulse_ROOT)/include -I$(pulse_ROOT)/src \
  -DSPDLOG_FMT_EXTERNAL -DFMT_HEADER_ONLY -Wno-unused-parameter -Wno-error
pulse_OBJECTS := $(foreach source,$(pulse_SOURCES), \
  $(OBJ_DIR)/plugin/pulse/$(source:.cc=.o) $(OBJ_DIR)/plugin/pulse/$(source).d)
$(foreach object,$(pulse_OBJECTS),$(eval $(object): CXXFLAGS += $$(pulse_OBJECT_FLAGS)))
