# PulseDB as an in-tree RocksDB plug-in, for RocksDB's Makefile. README.md says how to use it.
#
# RocksDB's CMake build reads this file too, for the name of the registration function; it takes the
# list of sources from CMakeLists.txt beside it. A source added here must be added there.

# RocksDB puts plugin/pulse/ before each name. That directory is a symbolic link into PulseDB's tree,
# so the kernel resolves ../../src to PulseDB's own sources.
pulse_SOURCES := $(addprefix ../../src/, \
  base/cpu_list.cc base/errors.cc base/json.cc base/log.cc base/trace.cc base/uri_options.cc \
  channel/doorbell.cc channel/handshake.cc channel/host_numbers.cc channel/mover.cc \
  channel/queue_pair.cc channel/region.cc channel/status_message.cc \
  uring/aio_backend.cc uring/file_engine.cc uring/io_backend.cc uring/io_scheduler.cc \
  uring/thread_backend.cc uring/uring_backend.cc \
  store/check.cc store/create.cc store/file_device.cc store/format.cc store/late_writers.cc \
  store/records.cc \
  store/recovery.cc store/segment_map.cc store/state.cc store/store_commit.cc \
  store/store_files.cc store/store_names.cc store/store_open.cc \
  agent/session.cc agent/status.cc agent/status_server.cc agent/worker.cc \
  lsm/agent_crowd.cc lsm/agent_service.cc lsm/agent_tasks.cc lsm/compacting_threads.cc lsm/compaction_debt.cc \
  lsm/compaction_placer.cc lsm/cpu_share.cc lsm/flush_placement.cc lsm/host_fetch.cc lsm/moved_compactions.cc \
  lsm/host_files.cc lsm/host_link.cc lsm/host_load.cc lsm/host_output.cc lsm/host_publish.cc \
  lsm/host_task.cc lsm/host_registry.cc lsm/host_rescue.cc lsm/host_session.cc lsm/host_watch.cc \
  lsm/io_status.cc lsm/job_listener.cc lsm/moved_threads.cc lsm/manifest_records.cc \
  lsm/options.cc lsm/placer_hooks.cc lsm/plain_target.cc lsm/pool.cc lsm/pool_file_system.cc lsm/pool_files.cc \
  lsm/pool_former.cc lsm/pool_guard.cc lsm/pool_io.cc lsm/pool_target.cc lsm/pulse_file_system.cc \
  lsm/register.cc lsm/statistics.cc lsm/task_directory.cc lsm/task_file_system.cc lsm/task_wire.cc \
  lsm/thread_job.cc lsm/thread_waits.cc lsm/whole_task.cc placement/controller.cc)
pulse_HEADERS := ../../include/pulse/rocksdb.h
pulse_FUNC = pulse_RegisterPlugin

pulse_PKGCONFIG_REQUIRES := absl_status absl_statusor absl_strings absl_cord liburing
# The same again for RocksDB's Java libraries, which take only these flags.
pulse_LDFLAGS := $(shell pkg-config --libs $(pulse_PKGCONFIG_REQUIRES))

pulse_ROOT := $(realpath $(dir $(lastword $(MAKEFILE_LIST)))../..)
ifeq ($(wildcard $(pulse_ROOT)/src/lsm/register.cc),)
  $(error plugin/pulse must be a symbolic link to plugin/pulse in PulseDB's tree, not a copy of it)
endif

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
