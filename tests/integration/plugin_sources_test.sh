#!/usr/bin/env bash
# The in-tree plug-in names its sources twice, for RocksDB's Makefile and for its CMake: both must name
# every source that the plug-in is made of.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."

# Of base and agent the plug-in takes what it uses; of the other rooms everything but tests.
wanted() {
  find src/channel src/uring src/store src/placement src/lsm -name '*.cc' ! -name '*_test.cc' ! -name 'test_*' \
    ! -name 'preload*'
  printf 'src/%s\n' base/cpu_list.cc base/errors.cc base/json.cc base/log.cc base/trace.cc \
    base/uri_options.cc agent/session.cc agent/status.cc agent/status_server.cc agent/worker.cc
}
in_make() { grep -oE '(base|channel|uring|agent|store|placement|lsm)/[a-z_]+\.cc' plugin/pulse/pulse.mk | sed 's|^|src/|'; }
in_cmake() { grep -oE 'src/[a-z]+/[a-z_]+\.cc' plugin/pulse/CMakeLists.txt; }

failed=0
for build in make cmake; do
  if ! difference=$(diff <(wanted | sort -u) <("in_$build" | sort -u)); then
    printf 'plugin/pulse, %s build: < is missing, > is too much\n%s\n' "$build" "$difference"
    failed=1
  fi
done
exit "$failed"
