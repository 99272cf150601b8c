#!/usr/bin/env bash
# NBD clients of an agent that is killed, and of one that is stopped, in the middle of their I/O:
# each request ends with an error, nbdkit goes on and says what is to be done. usage:
#   nbd_lost_agent_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH NBDKIT_PLUGIN
# Exit status 77 (skipped) without nbdkit.

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 NBD_PLUGIN=$6
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
# shellcheck source=tests/integration/nbd_common.sh
source "$here/nbd_common.sh"
setup_nbd

pool="$SCRATCH/pool"
run_ok create-pool 120 "$PULSE" pool create "$pool" --size 96M --segment 1M
start_agent "$agent_socket" --store "$pool"
size=$((16 << 20))
head -c "$size" /dev/urandom >"$SCRATCH/in"

# begin_io NAME: a reader and a writer, one request after the other, both under way on return. Their
# pids are in IO.
begin_io() {
  local name=$1 mode
  IO=()
  for mode in read write; do
    start "$SCRATCH/$name.$mode.log" "$here/nbd_requests.py" "${URI#*socket=}" f until-error "$mode" \
      "$SCRATCH/$name.$mode.count"
    IO+=("$STARTED")
  done
  for mode in read write; do
    await 60 is_under_way "$SCRATCH/$name.$mode.count" ||
      fail "$name: no $mode request is served" "$SCRATCH/$name.$mode.log"
  done
}
is_under_way() { (($(read_count "$1") >= 20)); }

# require_eio NAME: both ended by themselves, with EIO.
require_eio() {
  local pid
  for pid in "${IO[@]}"; do
    await 60 is_gone "$pid" || fail "$1: a client hangs" "$SERVER_LOG"
    ends_well "$pid" || fail "$1: a client had another error than EIO" "$SCRATCH/$1.write.log"
  done
}

kill_agent() {
  kill -KILL "$AGENT"
  wait "$AGENT" 2>/dev/null
}

# ---- flushed, then killed: the same nbdkit goes on with the next agent
serve killed dir=d file=f create=true size="$size"
run_ok copy-in 120 nbdcopy --flush "$SCRATCH/in" "$URI"
kill_agent
expect_error no-agent 'Failed|error' nbdinfo "$URI"
start_agent "$agent_socket" --store "$pool"
run_ok copy-next 120 nbdcopy "$URI" "$SCRATCH/out"
require_same "flushed, then killed" "$SCRATCH/in" "$SCRATCH/out"

# ---- killed during I/O: EIO, and as writes were acknowledged and not flushed, no more from here
begin_io killed
kill_agent
require_eio killed
is_alive "$SERVER" || fail "nbdkit ended with its agent" "$SERVER_LOG"
require_match killed 'the agent was lost.*pulse agent --store' "$SERVER_LOG"
start_agent "$agent_socket" --store "$pool"
expect_error unflushed 'Failed|error' nbdinfo "$URI"
require_match unflushed 'no flush had followed.*start nbdkit again' "$SERVER_LOG"
end_server
serve restarted dir=d file=f
run_ok copy-again 120 nbdcopy --flush "$SCRATCH/in" "$URI"
run_ok copy-restarted 120 nbdcopy "$URI" "$SCRATCH/out.restarted"
require_same "after a restart" "$SCRATCH/in" "$SCRATCH/out.restarted"
end_server

# ---- stopped during I/O: EIO in time, refused at once, and served again when it goes on
serve stopped dir=d file=f timeout=5
begin_io stopped
kill -STOP "$AGENT"
require_eio stopped
require_match stopped 'no sign of life for 5 s' "$SERVER_LOG"
expect_error stopped-info 'Failed|error' nbdinfo "$URI"
is_alive "$SERVER" || fail "nbdkit ended while its agent was stopped" "$SERVER_LOG"
kill -CONT "$AGENT"
await 60 nbdinfo --size "$URI" >/dev/null 2>&1 || fail "not served again" "$SERVER_LOG"
run_ok copy-continued 120 nbdcopy --flush "$SCRATCH/in" "$URI"
run_ok copy-continued-out 120 nbdcopy "$URI" "$SCRATCH/out.continued"
require_same "after a stop" "$SCRATCH/in" "$SCRATCH/out.continued"

# ---- stopped, and nbdkit is to end: it does, with clients in the middle of requests
begin_io ending
kill -STOP "$AGENT"
end_server
for pid in "${IO[@]}"; do
  await 60 is_gone "$pid" || fail "a client of an nbdkit that has ended hangs"
  wait "$pid" # with EIO, or hung up on
done
kill -CONT "$AGENT"
stop_agent "$AGENT" "$AGENT_LOG"
run_ok check 120 "$PULSE" pool check "$pool"
echo "nbd_lost_agent_test: ok"
