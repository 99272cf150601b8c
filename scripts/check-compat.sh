#!/usr/bin/env bash
# check-compat.sh [REVISION | BUILD_DIRECTORY]: a plug-in and an agent of different revisions work together
# where their versions agree. Builds REVISION (default: the commit before) in build/compat, or takes what
# BUILD_DIRECTORY has, and runs db_bench with its plug-in on this tree's agent, and the other way round.
# Needs this tree's release build (make build) and rocksdb-tools. A whole build takes ten minutes.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
here=build/release
[[ -x $here/bin/pulse ]] || { echo "check-compat: build this tree first: make build" >&2; exit 1; }

other=${1:-HEAD~1}
if [[ ! -d "$other" ]]; then
  revision=$(git rev-parse --verify "$other^{commit}")
  tree=build/compat/$revision
  if [[ ! -d "$tree" ]]; then git worktree add -q --detach "$tree" "$revision"; fi
  cmake -S "$tree" -B "$tree/build/release" -G Ninja -DCMAKE_BUILD_TYPE=RelWithDebInfo -DPULSE_UNITY=ON \
    -DPULSE_BUILD_TESTS=OFF -DPULSE_BUILD_BENCH=OFF >/dev/null
  cmake --build "$tree/build/release" -j "${JOBS:-2}" --target pulse pulse_rocksdb
  other=$tree/build/release
fi

scratch=$(mktemp -d)
agent=0
finish() {
  if ((agent != 0)); then kill "$agent" 2>/dev/null || true; fi
  rm -rf "$scratch"
}
trap finish EXIT

# try NAME PULSE PLUGIN
try() {
  local socket=$scratch/$1.sock
  "$2" agent --socket "$socket" 2>"$scratch/$1.log" &
  agent=$!
  for _ in $(seq 100); do [[ -S $socket ]] && break; sleep 0.1; done
  if ! LD_PRELOAD=$(readlink -f "$3") db_bench --fs_uri="pulse://$socket" --db="$scratch/$1.db" \
    --benchmarks=fillrandom,compact,readrandom --num=50000 --value_size=512 --write_buffer_size=4194304 \
    --compression_type=none >"$scratch/$1.out" 2>&1 || grep -qi 'refused\|error' "$scratch/$1.out"; then
    cat "$scratch/$1.out" "$scratch/$1.log" >&2
    echo "check-compat: $1 do not work together" >&2
    exit 1
  fi
  kill "$agent"
  wait "$agent" || true
  agent=0
  echo "check-compat: $1 work together"
}

try "other-plugin-and-this-agent" "$here/bin/pulse" "$other/lib/libpulse_rocksdb.so"
try "this-plugin-and-other-agent" "$other/bin/pulse" "$here/lib/libpulse_rocksdb.so"
