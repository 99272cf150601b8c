#!/usr/bin/env bash
# Standard NBD clients on files of a segment store: nbdcopy, nbdinfo, requests past the end, a full
# store, a restart of nbdkit and agent, the errors at start. usage:
#   nbd_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH NBDKIT_PLUGIN
# Exit status 77 (skipped) without nbdkit.

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 NBD_PLUGIN=$6
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
# shellcheck source=tests/integration/nbd_common.sh
source "$here/nbd_common.sh"
setup_nbd
pool="$SCRATCH/pool"

# ---- the object: nothing but the run time
if readelf -d "$NBD_PLUGIN" | grep -E 'NEEDED.*(absl|rocksdb|spdlog)' >"$SCRATCH/needed.log"; then
  fail "the nbdkit plug-in drags in libraries" "$SCRATCH/needed.log"
fi

# ---- help and parameters
run_ok help 30 nbdkit "$NBD_PLUGIN" --help
require_match help 'socket=PATH;;dir=NAME;;create=true;;timeout=SECONDS;;pulse agent --socket' "$SCRATCH/help.log"
run_ok dump 30 nbdkit "$NBD_PLUGIN" --dump-plugin
require_match dump 'thread_model=parallel;;name=pulse' "$SCRATCH/dump.log"
refused no-socket 'socket=PATH is missing' dir=d file=f
refused no-dir 'dir=NAME is missing' socket="$agent_socket"
refused no-agent 'no agent at;;pulse agent --socket' socket="$agent_socket" dir=d file=f
refused unknown 'no parameter sise;;size=' socket="$agent_socket" dir=d file=f sise=1G
refused word 'no parameter writable' socket="$agent_socket" dir=d file=f writable
refused bad-size 'size=lots' socket="$agent_socket" dir=d file=f create=true size=lots
refused bad-timeout 'timeout=soon' socket="$agent_socket" dir=d file=f timeout=soon
refused create-alone 'size=SIZE' socket="$agent_socket" dir=d file=f create=true

run_ok create-pool 120 "$PULSE" pool create "$pool" --size 256M --segment 1M
start_agent "$agent_socket"
refused no-store 'refused' socket="$agent_socket" dir=d file=f
stop_agent "$AGENT" "$AGENT_LOG"
start_agent "$agent_socket" --store "$pool"
refused no-file 'no file d/f;;create=true size=SIZE' socket="$agent_socket" dir=d file=f
refused no-directory 'no directory d' socket="$agent_socket" dir=d
refused slash 'no name for a directory' socket="$agent_socket" dir=d/e file=f create=true size=1M
refused file-slash 'no name for a file' socket="$agent_socket" dir=d file=e/f create=true size=1M
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
require_same copy-out "$SCRATCH/in" "$SCRATCH/out"
# Requests longer than a part of the plug-in, and odd ones.
run_ok copy-large 300 nbdcopy --request-size=$((16 << 20)) "$URI" "$SCRATCH/out.large"
require_same "read in large requests, it is something else" "$SCRATCH/in" "$SCRATCH/out.large"
run_ok copy-sync 300 nbdcopy --synchronous "$URI" "$SCRATCH/out.sync"
require_same "read by one request at a time, it is something else" "$SCRATCH/in" "$SCRATCH/out.sync"

# ---- a client that goes past the end, by itself and in the middle of a request
run_ok past-end 60 "$here/nbd_requests.py" "$SOCKET_DIR/copy.sock" f past-end "$size"
run_ok copy-again 300 nbdcopy "$URI" "$SCRATCH/out.again"
require_same "requests past the end have changed the file" "$SCRATCH/in" "$SCRATCH/out.again"

# ---- the file outlives nbdkit and the agent
end_server
stop_agent "$AGENT" "$AGENT_LOG"
start_agent "$agent_socket" --store "$pool"
refused other-size "$size bytes and not;;leave size=" socket="$agent_socket" dir=d file=f \
  create=true size=1M
serve again dir=d file=f
run_ok copy-restarted 300 nbdcopy "$URI" "$SCRATCH/out.restarted"
require_same "after a restart, the file is something else" "$SCRATCH/in" "$SCRATCH/out.restarted"
end_server

# ---- read-only, by the plug-in's parameter and by nbdkit's
serve read-only dir=d file=f readonly
run_ok read-only 60 nbdinfo "$URI"
require_match read-only 'is_read_only: true' "$SCRATCH/read-only.log"
expect_error read-only-write 'read.?only' nbdcopy "$SCRATCH/in" "$URI"
run_ok read-only-rude 60 "$here/nbd_requests.py" "$SOCKET_DIR/read-only.sock" f read-only
run_ok read-only-out 300 nbdcopy "$URI" "$SCRATCH/out.read-only"
require_same "a read-only export" "$SCRATCH/in" "$SCRATCH/out.read-only"
end_server
serve minus-r --readonly dir=d file=f
run_ok minus-r 60 "$here/nbd_requests.py" "$SOCKET_DIR/minus-r.sock" f read-only
end_server
echo "nbd_test: ok"
