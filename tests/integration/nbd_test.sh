#!/usr/bin/env bash
# Standard NBD clients on files of a segment store: nbdcopy, nbdinfo, requests past the end, a full
# store, a restart of nbdkit and agent, the errors at start. usage:
#   nbd_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH NBDKIT_PLUGIN
# Exit status 77 (skipped) without nbdkit.

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 NBD_PLUGIN=$6
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
for tool in nbdkit nbdcopy nbdinfo; do
  if ! command -v "$tool" >/dev/null; then
    echo "skipped: $tool is not installed (apt packages nbdkit, libnbd-bin)"
    exit 77
  fi
done
[[ -e "$NBD_PLUGIN" ]] || fail "$NBD_PLUGIN is not there; build first"
setup_scratch

pool="$SCRATCH/pool"
agent_socket="$SOCKET_DIR/agent.sock"

# serve NAME ARGUMENTS...: nbdkit with the plug-in; SERVER is its pid, URI its socket.
serve() {
  local name=$1 socket="$SOCKET_DIR/$1.sock"
  shift
  SERVER_LOG="$SCRATCH/$name.server.log"
  URI="nbd+unix:///?socket=$socket"
  rm -f "$socket" # nbdkit leaves it behind
  start "$SERVER_LOG" nbdkit --foreground --unix "$socket" --threads 8 "$NBD_PLUGIN" \
    socket="$agent_socket" "$@"
  SERVER=$STARTED
  local end=$((SECONDS + 30))
  until is_listening "$socket"; do
    is_alive "$SERVER" || fail "$name: nbdkit ended at its start" "$SERVER_LOG"
    if ((SECONDS >= end)); then fail "$name: nbdkit does not listen" "$SERVER_LOG"; fi
    sleep 0.1
  done
}

# end_server: SIGTERM ends nbdkit, whatever state its clients and the agent are in.
end_server() {
  kill -TERM "$SERVER" 2>/dev/null || fail "nbdkit was already gone" "$SERVER_LOG"
  await 60 is_gone "$SERVER" || fail "nbdkit did not end after SIGTERM" "$SERVER_LOG"
  wait "$SERVER"
  local rc=$?
  ((rc == 0)) || fail "nbdkit ended with status $rc" "$SERVER_LOG"
}

# refused NAME 'regex;;...' ARGUMENTS...: nbdkit must not start, and must say why.
refused() {
  local name=$1 patterns=$2
  shift 2
  expect_error "$name" "$patterns" nbdkit --foreground --unix "$SOCKET_DIR/refused.sock" \
    "$NBD_PLUGIN" "$@"
}

uri_of() { printf 'nbd+unix:///%s?socket=%s' "$1" "$SOCKET_DIR/$2.sock"; }

# ---- the object: nothing but the run time
if readelf -d "$NBD_PLUGIN" | grep -E 'NEEDED.*(absl|rocksdb|spdlog)' >"$SCRATCH/needed.log"; then
  fail "the nbdkit plug-in drags in libraries" "$SCRATCH/needed.log"
fi

# ---- help and parameters
run_ok help 30 nbdkit "$NBD_PLUGIN" --help
require_match help 'socket=PATH;;dir=NAME;;create=true;;pulse agent --socket' "$SCRATCH/help.log"
run_ok dump 30 nbdkit "$NBD_PLUGIN" --dump-plugin
require_match dump 'thread_model=parallel;;name=pulse' "$SCRATCH/dump.log"
refused no-socket 'socket=PATH is missing' dir=d file=f
refused no-dir 'dir=NAME is missing' socket="$agent_socket"
refused no-agent 'no agent at;;pulse agent --socket' socket="$agent_socket" dir=d file=f
refused unknown 'no parameter sise;;size=' socket="$agent_socket" dir=d file=f sise=1G
refused word 'no parameter writable' socket="$agent_socket" dir=d file=f writable
refused bad-size 'size=lots' socket="$agent_socket" dir=d file=f create=true size=lots
refused create-alone 'size=SIZE' socket="$agent_socket" dir=d file=f create=true

run_ok create-pool 120 "$PULSE" pool create "$pool" --size 256M --segment 1M
start_agent "$agent_socket"
refused no-store 'refused' socket="$agent_socket" dir=d file=f
stop_agent "$AGENT" "$AGENT_LOG"
start_agent "$agent_socket" --store "$pool"
refused no-file 'no file d/f;;create=true size=SIZE' socket="$agent_socket" dir=d file=f
refused no-directory 'no directory d' socket="$agent_socket" dir=d
refused store-full 'full' socket="$agent_socket" dir=d file=f create=true size=1G
refused still-nothing 'no directory d' socket="$agent_socket" dir=d

# ---- in and out; 24 MiB and a bit: no whole block, more than one request, several connections
size=$(((24 << 20) + 1234))
head -c "$size" /dev/urandom >"$SCRATCH/in"
serve copy dir=d file=f create=true size="$size"
run_ok info 60 nbdinfo "$URI"
require_match info "export-size: $size;;can_multi_conn: true;;can_flush: true;;can_fua: true;;can_zero: true;;can_trim: false;;is_read_only: false;;PulseDB store: d/f" \
  "$SCRATCH/info.log"
run_ok list 60 nbdinfo --list "$URI"
require_match list 'export="f"' "$SCRATCH/list.log"
expect_error other-export 'no such|no export' nbdinfo "$(uri_of other copy)"
require_match server-other 'no export "other"' "$SERVER_LOG"
run_ok copy-in 300 nbdcopy --connections=4 --requests=16 --flush "$SCRATCH/in" "$URI"
run_ok copy-out 300 nbdcopy --connections=4 --requests=16 "$URI" "$SCRATCH/out"
cmp "$SCRATCH/in" "$SCRATCH/out" || fail "what came out is not what went in"
# Requests longer than a part of the plug-in, and odd ones.
run_ok copy-large 300 nbdcopy --request-size=$((16 << 20)) "$URI" "$SCRATCH/out.large"
cmp "$SCRATCH/in" "$SCRATCH/out.large" || fail "read in large requests, it is something else"
run_ok copy-sync 300 nbdcopy --synchronous "$URI" "$SCRATCH/out.sync"
cmp "$SCRATCH/in" "$SCRATCH/out.sync" || fail "read by one request at a time, it is something else"

# ---- a client that goes past the end, by itself and in the middle of a request
run_ok past-end 60 "$here/nbd_past_end.py" "$SOCKET_DIR/copy.sock" f "$size"
run_ok copy-again 300 nbdcopy "$URI" "$SCRATCH/out.again"
cmp "$SCRATCH/in" "$SCRATCH/out.again" || fail "requests past the end have changed the file"

# ---- the file outlives nbdkit and the agent
end_server
stop_agent "$AGENT" "$AGENT_LOG"
start_agent "$agent_socket" --store "$pool"
refused other-size "$size bytes and not;;leave size=" socket="$agent_socket" dir=d file=f \
  create=true size=1M
serve again dir=d file=f
run_ok copy-restarted 300 nbdcopy "$URI" "$SCRATCH/out.restarted"
cmp "$SCRATCH/in" "$SCRATCH/out.restarted" || fail "after a restart, the file is something else"
end_server

# ---- read-only
serve read-only dir=d file=f readonly
run_ok read-only 60 nbdinfo "$URI"
require_match read-only 'is_read_only: true' "$SCRATCH/read-only.log"
expect_error read-only-write 'read.?only' nbdcopy "$SCRATCH/in" "$URI"
end_server
echo "nbd_test: ok"
