#!/usr/bin/env bash
# pulse-blocks and pulse-pages as processes: agent, host and client, with the host and the agent
# killed in the middle of a load that checks all that it reads. usage:
#   examples_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
# shellcheck source=tests/integration/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
setup_scratch
BLOCKS=$(dirname "$PULSE")/pulse-blocks
PAGES=$(dirname "$PULSE")/pulse-pages
LIB=$(dirname "$PULSE")/../lib
agent_socket="$SOCKET_DIR/agent.sock"
host_socket="$SOCKET_DIR/host.sock"
RANDOM=${PULSE_TEST_SEED:-$$}
note "seed ${PULSE_TEST_SEED:-$$} (repeat with PULSE_TEST_SEED)"
store="$SCRATCH/store"
run_ok create 120 "$PULSE" pool create "$store" --size 96M --segment 1M

says() { grep -q -- "$1" "$2" 2>/dev/null; }
# start_host COMMAND...: waits until it serves. HOST is its pid, PORT its port if it has one. A port
# that it had before may be another program's for a while.
start_host() {
  local end=$((SECONDS + 30))
  while true; do
    HOST_LOG="$SCRATCH/host.$((++HOSTS)).log"
    start "$HOST_LOG" "$@"
    HOST=$STARTED
    await 60 host_has_begun || fail "the host does not serve" "$HOST_LOG"
    if says 'serving at ' "$HOST_LOG"; then break; fi
    wait "$HOST"
    if ! says 'choose another port' "$HOST_LOG" || ((SECONDS >= end)); then
      fail "the host does not serve" "$HOST_LOG"
    fi
    sleep 0.2
  done
  PORT=$(sed -n 's/.*serving at 127.0.0.1:\([0-9]*\).*/\1/p' "$HOST_LOG")
}
HOSTS=0
host_has_begun() { says 'serving at ' "$HOST_LOG" || is_gone "$HOST"; }
# has_client PORT: somebody is connected to it.
has_client() {
  awk -v port="$(printf '%04X' "$1")" \
    'substr($3, 10) == port && $4 == "01" {found = 1} END {exit !found}' /proc/net/tcp
}
kill_process() {
  kill -KILL "$1"
  wait "$1" 2>/dev/null
}
agent_port() { sed -n 's/.*(port \([0-9]*\)).*/\1/p' "$AGENT_LOG"; }

note "the names of old say where the programs are now"
expect_error blocks-moved 'pulse-blocks' "$PULSE" blocks serve --size 16M
expect_error pages-moved 'pulse-pages' "$PULSE" pages load --port 1
expect_error offload-moved 'lib/pulse-blocks-offload.so' "$PULSE" agent --socket "$agent_socket" \
  --store "$store" --offload blocks --serve 0 --serve-host "unix:$host_socket"

note "blocks: one code, two kinds of files"
start_agent "$agent_socket" --store "$store" --tasks 0
start_host "$BLOCKS" serve --agent "$agent_socket" --size 16M
run_ok blocks-fill 60 "$BLOCKS" load --port "$PORT" --fill
run_ok blocks-mixed 60 "$BLOCKS" load --port "$PORT" --reads 0.6 --batch 4 --connections 3 \
  --seconds 1
expect_error blocks-no-file 'no file' "$BLOCKS" load --port "$PORT" --file 7
note "blocks: the agent is killed under a load"
start "$SCRATCH/blocks-killed.log" "$BLOCKS" load --port "$PORT" --reads 0.5 --seconds 5 \
  --json
load=$STARTED
await 60 has_client "$PORT" || fail "the load does not begin" "$SCRATCH/blocks-killed.log"
sleep 0.5 # in the middle of the load
kill_process "$AGENT"
await 30 says 'the agent was lost' "$HOST_LOG" || fail "the host has not lost the agent" "$HOST_LOG"
start_agent "$agent_socket" --store "$store" --tasks 0
ends_well "$load" || fail "the load did not go on" "$SCRATCH/blocks-killed.log"
says 'were refused' "$SCRATCH/blocks-killed.log" || fail "no request was refused" "$SCRATCH/blocks-killed.log"
await 30 says 'agent is back' "$HOST_LOG" || fail "the host has not found the agent" "$HOST_LOG"
run_ok blocks-again 60 "$BLOCKS" load --port "$PORT" --seconds 1
stop_agent "$HOST" "$HOST_LOG"
mkdir "$SCRATCH/plain"
start_host "$BLOCKS" serve --directory "$SCRATCH/plain" --size 16M
run_ok blocks-os 60 "$BLOCKS" load --port "$PORT" --reads 0.6 --seconds 1
stop_agent "$HOST" "$HOST_LOG"
expect_error blocks-both 'in a directory or with an agent' "$BLOCKS" serve
expect_error blocks-nobody 'is the server running' "$BLOCKS" load --port 1

note "pages: the host is killed under a load; nothing that was acknowledged is lost"
serve=("$PAGES" serve --agent "$agent_socket" --log "$SCRATCH/log" --pages 512)
start_host "${serve[@]}"
serve+=(--port "$PORT")
start "$SCRATCH/pages-load.log" "$PAGES" load --port "$PORT" --reads 0.5 --seconds 5 --reconnect \
  --json
load=$STARTED
for ((i = 0; i < 4; i++)); do
  sleep "0.$((5 + RANDOM % 5))"
  kill_process "$HOST"
  start_host "${serve[@]}"
done
ends_well "$load" || fail "the load has found something wrong" "$SCRATCH/pages-load.log"
says '"verified":1024' "$SCRATCH/pages-load.log" || fail "not all was verified" "$SCRATCH/pages-load.log"
stop_agent "$HOST" "$HOST_LOG"
expect_error pages-count 'there are 512 pages' "$PAGES" serve --agent "$agent_socket" \
  --log "$SCRATCH/log" --pages 600

note "pages: the agent answers; the host is killed, and it goes on with what it knows"
stop_agent "$AGENT" "$AGENT_LOG"
start_agent "$agent_socket" --store "$store" --tasks 0 --offload "$LIB/pulse-pages-offload.so" --serve 0 \
  --serve-host "unix:$host_socket"
serve=("$PAGES" serve --agent "$agent_socket" --log "$SCRATCH/log" --pages 512 --ordered
  --socket "$host_socket")
start_host "${serve[@]}"
await 30 says '(port ' "$AGENT_LOG" || fail "the agent does not serve" "$AGENT_LOG"
start "$SCRATCH/pages-offload.log" "$PAGES" load --port "$(agent_port)" --reads 0.8 \
  --seconds 4 --reconnect --json
load=$STARTED
for ((i = 0; i < 2; i++)); do
  sleep "0.$((5 + RANDOM % 5))"
  kill_process "$HOST"
  start_host "${serve[@]}"
done
ends_well "$load" || fail "the load has found something wrong" "$SCRATCH/pages-offload.log"
says '"verified":1024' "$SCRATCH/pages-offload.log" ||
  fail "not all was verified" "$SCRATCH/pages-offload.log"
stop_agent "$HOST" "$HOST_LOG"
stop_agent "$AGENT" "$AGENT_LOG"

note "blocks: reads on the agent, writes on the host"
start_agent "$agent_socket" --store "$store" --tasks 0 --offload "$LIB/pulse-blocks-offload.so" --serve 0 \
  --serve-host "unix:$host_socket"
start_host "$BLOCKS" serve --agent "$agent_socket" --size 16M --ordered --socket "$host_socket"
await 30 says '(port ' "$AGENT_LOG" || fail "the agent does not serve" "$AGENT_LOG"
run_ok blocks-offload 60 "$BLOCKS" load --port "$(agent_port)" --reads 0.7 --batch 4 \
  --connections 3 --seconds 1
kill_process "$HOST"
# What it knows of the files it had from the host.
expect_error blocks-host-down 'lost|reach' "$BLOCKS" load --port "$(agent_port)" --seconds 1
start_host "$BLOCKS" serve --agent "$agent_socket" --size 16M --ordered --socket "$host_socket"
run_ok blocks-host-back 60 "$BLOCKS" load --port "$(agent_port)" --seconds 1
stop_agent "$HOST" "$HOST_LOG"
stop_agent "$AGENT" "$AGENT_LOG"
note "passed"
