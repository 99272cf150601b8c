#!/usr/bin/env bash
# Agents and hosts that die, leave, come together or misbehave. usage:
#   agent_lifecycle_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch

socket="$SOCKET_DIR/agent.sock"
acked="$SCRATCH/acked"
keys=100000
if [[ ${PULSE_TEST_LONG:-} == 1 ]]; then keys=200000; fi

# start_fill DB [URI]: a long fill in the background, returns once it is well under way. One that
# was through before that was seen begins again.
start_fill() {
  local db=$1 uri=${2:-pulse://$socket}
  fill_log="$SCRATCH/fill.$(basename "$db").log"
  for _ in 1 2 3 4 5; do
    rm -rf "$acked" "$db"
    start "$fill_log" env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$db" $keys 1000 21 \
      --acked "$acked" --fs-uri "$uri"
    filler=$STARTED
    await 120 fill_gets_on || fail "the fill does not get on" "$fill_log"
    if is_alive "$filler"; then return; fi
    wait "$filler" || fail "the fill ended early" "$fill_log"
  done
  fail "the fill was always through before it was seen under way"
}
# await_fill WHAT: it finishes by itself, and well, after its agent WHAT.
await_fill() {
  local rc=0
  await 200 is_gone "$filler" || fail "the host hangs after its agent $1" "$fill_log"
  wait "$filler" || rc=$?
  if ((rc != 0)); then fail "an operation failed when the agent $1: status $rc" "$fill_log"; fi
}
fill_gets_on() { is_gone "$filler" || (($(read_count "$acked") >= 10000)); }

# verify_acked NAME DB: every acknowledged key is there without the plug-in.
verify_acked() {
  local name=$1 db=$2 count
  count=$(read_count "$acked")
  run_ok "$name-verify" 120 "$DB_CHECK" verify "$db" $keys 1000 21 --first "$count"
  note "$name: all $count acknowledged keys are there without the plug-in"
}

# verify_all NAME DB: the fill went to its end, and all its keys are there.
verify_all() {
  (($(read_count "$acked") == keys)) || fail "$1: the fill ended early" "$fill_log"
  verify_acked "$1" "$2"
}

fds_are_back() { (($(count_fds "$AGENT") <= fds_before)); }

require_agent() {
  is_alive "$AGENT" || fail "$1: the agent died" "$AGENT_LOG"
}

# serve_one NAME: the agent still serves a new client from beginning to end.
serve_one() {
  local db="$SCRATCH/serve-$1"
  run_ok "$1-serve" 120 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$db" 8000 1000 22 \
    --fs-uri "pulse://$socket"
  run_ok "$1-serve-verify" 120 "$DB_CHECK" verify "$db" 8000 1000 22
  require_agent "$1"
  rm -rf "$db"
}

require_fds_back() {
  await 30 fds_are_back ||
    fail "$1: the agent holds $(count_fds "$AGENT") descriptors, $fds_before before" "$AGENT_LOG"
}

start_agent "$socket"
serve_one first # whatever the agent opens once and keeps is open from here on
sleep 1 # what the agent closes in its own time is closed
fds_before=$(count_fds "$AGENT")

# 1. The host is killed in the middle of a fill, three times.
for round in 1 2 3; do
  db="$SCRATCH/killed-$round"
  start_fill "$db"
  kill -9 "$filler" 2>/dev/null
  await 30 is_gone "$filler" || fail "the host cannot be killed"
  require_agent "host killed"
  require_fds_back "host killed"
  verify_acked "host killed $round" "$db"
  rm -rf "$db"
done
serve_one after-killed-host
require_fds_back "after serving again"
note "host killed: the agent lives, has freed its $fds_before descriptors, and serves the next one"

# 2. A client that sends garbage, in the right version, lest it is refused for that alone.
protocol=$(sed -nE 's/.*kProtocolVersion = ([0-9]+);.*/\1/p' "$here/../../src/channel/wire.h")
[[ -n "$protocol" ]] || fail "wire.h does not say the protocol's version"
if command -v python3 >/dev/null; then
  run_ok hostile 120 python3 "$here/hostile_client.py" "$socket" 1 "$protocol"
  require_agent "hostile client"
  require_fds_back "hostile client"
  # Hostile while another client is being served.
  start_fill "$SCRATCH/beside"
  run_ok hostile-beside 120 python3 "$here/hostile_client.py" "$socket" 2 "$protocol"
  require_agent "hostile client beside a fill"
  is_alive "$filler" || (($(read_count "$acked") == keys)) ||
    fail "the hostile client broke another session" "$fill_log"
  await 200 is_gone "$filler" || fail "the fill beside a hostile client hangs" "$fill_log"
  wait "$filler" || fail "the fill beside a hostile client failed" "$fill_log"
  verify_acked "hostile client" "$SCRATCH/beside"
  rm -rf "$SCRATCH/beside"
  require_fds_back "hostile client"
  serve_one after-hostile
  note "hostile client: refused, nobody else noticed"
else
  skip_part "hostile client: python3 is not installed"
fi

# 3. Two programs at once on one agent.
for i in 1 2; do
  start "$SCRATCH/pair.$i.log" env LD_PRELOAD="$PLUGIN" "$DB_BENCH" --fs_uri="pulse://$socket" \
    --db="$SCRATCH/pair.$i" --seed=$i --num=30000 --value_size=1000 --write_buffer_size=2097152 \
    --target_file_size_base=2097152 --level0_file_num_compaction_trigger=2 \
    --max_background_jobs=4 --compression_type=none \
    --benchmarks=fillrandom,overwrite,compact,verifychecksum
  pair[i]=$STARTED
done
for i in 1 2; do
  await 200 is_gone "${pair[i]}" || fail "two programs: number $i hangs" "$SCRATCH/pair.$i.log"
  wait "${pair[i]}" || fail "two programs: number $i failed" "$SCRATCH/pair.$i.log"
  run_ok "pair.$i-with" 120 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" scan "$SCRATCH/pair.$i" \
    --fs-uri "pulse://$socket"
  run_ok "pair.$i-without" 120 "$DB_CHECK" scan "$SCRATCH/pair.$i"
  [[ "$(grep '^scan:' "$SCRATCH/pair.$i-with.log")" == \
    "$(grep '^scan:' "$SCRATCH/pair.$i-without.log")" ]] || fail "two programs: $i scans differently"
  rm -rf "$SCRATCH/pair.$i"
done
require_agent "two programs"
require_fds_back "two programs"
note "two programs at once: both right"

# 4. SIGTERM without clients, then with one: drained, status 0, nothing acknowledged is lost.
stop_agent "$AGENT" "$AGENT_LOG"
if is_listening "$socket"; then fail "somebody still listens on $socket"; fi
note "SIGTERM while idle: status 0"
start_agent "$socket"
start_fill "$SCRATCH/drained"
stop_agent "$AGENT" "$AGENT_LOG"
await_fill drained
verify_all "agent stopped under load" "$SCRATCH/drained"
rm -rf "$SCRATCH/drained"

# 5. The agent is killed under load: the host says so and finishes by itself; nothing fails.
# Where the fill was nearly through when it was killed, it is tried again.
for _ in 1 2 3 4 5; do
  start_agent "$socket"
  start_fill "$SCRATCH/orphan"
  kill -9 "$AGENT"
  await 30 is_gone "$AGENT" || fail "the agent cannot be killed"
  left=$((keys - $(read_count "$acked")))
  await_fill died
  verify_all "agent killed under load" "$SCRATCH/orphan"
  rm -rf "$SCRATCH/orphan"
  if ((left > keys / 2)); then break; fi
done
require_match "agent killed" 'lost the agent' "$fill_log"

# 6. The socket file a killed agent left behind does not stop the next one.
[[ -S "$socket" ]] || note "the killed agent left no socket file"
start_agent "$socket"
serve_one after-stale-socket
stop_agent "$AGENT" "$AGENT_LOG"
note "passed"
