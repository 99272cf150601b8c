#!/usr/bin/env bash
# plugin-sources.sh [--check]: writes plugin/pulse/sources.txt, the sources of the in-tree plug-in, which
# RocksDB's Makefile and its CMake build both read; with --check only says whether it is up to date.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

# Of base, agent and link the plug-in takes what it uses; of the other rooms everything but tests.
list_sources() {
  {
    find src/mover src/channel src/uring src/store src/placement src/services/lsm -name '*.cc' \
      ! -name '*_test.cc' ! -name 'test_*' ! -name 'preload*' ! -name 'java_plugin.cc' ! -name 'agent_module.cc' ! -path '*/convert/*'
    printf 'src/%s\n' base/cpu_list.cc base/crc32c.cc base/errors.cc base/file_lock.cc base/json.cc base/log.cc base/private_memory.cc \
      base/trace.cc base/uri_options.cc base/wake_event.cc agent/session.cc agent/status.cc \
      agent/status_server.cc agent/worker.cc link/agent_link.cc link/embedded_link.cc \
      link/socket_link.cc
  } | LC_ALL=C sort
}

list=plugin/pulse/sources.txt
if [[ "${1:-}" == --check ]]; then
  diff "$list" <(list_sources) || {
    echo "plugin-sources: $list is out of date; run scripts/plugin-sources.sh" >&2
    exit 1
  }
else
  list_sources >"$list"
fi
