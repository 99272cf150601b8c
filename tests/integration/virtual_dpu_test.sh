#!/usr/bin/env bash
# `pulse agent --profile`: hosts work with an agent that plays a card, and bad profiles are refused.
# usage: virtual_dpu_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5
# shellcheck source=tests/integration/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
setup_scratch
socket="$SOCKET_DIR/agent.sock"

# ---- bad input
expect_error unknown-profile 'bf7;;known are bf2, bf3, none' \
  "$PULSE" agent --socket "$socket" --profile bf7
expect_error unknown-printed 'bf7;;known are' "$PULSE" agent --print-profile bf7
expect_error absent-file "$SCRATCH/none.toml" \
  "$PULSE" agent --socket "$socket" --profile "$SCRATCH/none.toml"
run_ok print-none 20 "$PULSE" agent --print-profile none
require_match print-none '^name = "none";;^core_speed = 1' "$SCRATCH/print-none.log"
run_ok print 20 "$PULSE" agent --print-profile bf2
mine="$SCRATCH/mine.toml"
sed -e 's/^cores = .*/cores = 0/' "$SCRATCH/print.log" >"$mine"
line=$(grep -n '^cores' "$mine" | cut -d: -f1)
expect_error out-of-range "mine.toml:$line:.*cpu.cores;;from 1 to 1024" \
  "$PULSE" agent --socket "$socket" --profile "$mine"
{ cat "$SCRATCH/print.log" && echo 'turbo = true'; } >"$mine"
line=$(grep -n '^turbo' "$mine" | cut -d: -f1)
expect_error unknown-key "mine.toml:$line:.*unknown key" \
  "$PULSE" agent --socket "$socket" --profile "$mine"
expect_error no-socket 'socket' "$PULSE" agent --profile bf2
expect_error bench-none 'none' "$PULSE" bench vdpu --profile none

# serve NAME [OPTIONS]: a database is filled and compacted through the agent, and read without it.
serve() {
  local name=$1 options=${2:-} db="$SCRATCH/db-$1"
  run_ok "$name-fill" 300 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$db" 20000 1000 31 \
    --fs-uri "pulse://$socket${options:+?$options}"
  run_ok "$name-verify" 120 "$DB_CHECK" verify "$db" 20000 1000 31
  is_alive "$AGENT" || fail "$name: the agent died" "$AGENT_LOG"
  rm -rf "$db"
  note "$name: served"
}

# ---- a built-in profile, on the mover that copies; more cores than there are
start_agent "$socket" --profile bf2 --cpus 0
grep -q 'profile bf2 (8 cores at 0.455' "$AGENT_LOG" || fail "the profile is not named" "$AGENT_LOG"
grep -q 'mover vmread' "$AGENT_LOG" || fail "a card shares no memory" "$AGENT_LOG"
grep -q '8 cores at 0.455.*may use 1' "$AGENT_LOG" || fail "no word of missing CPUs" "$AGENT_LOG"
serve bf2
serve bf2-shared 'mover=shared&io=buffered'
stop_agent "$AGENT" "$AGENT_LOG"

# ---- a file, with a slow link and every engine
sed -e 's/^name = .*/name = "slow"/' -e 's/^latency_us = .*/latency_us = 2000/' \
  -e 's/^core_speed = .*/core_speed = 0.1/' -e 's/^cores = .*/cores = 1/' \
  "$SCRATCH/print.log" >"$mine"
for engine in io_uring threads; do
  start_agent "$socket" --profile "$mine" --engine $engine
  grep -q 'profile slow (1 core at 0.1' "$AGENT_LOG" || fail "the file is not used" "$AGENT_LOG"
  serve "slow-$engine"
  stop_agent "$AGENT" "$AGENT_LOG"
done

# ---- a host that dies with transfers under way, and one that comes after it
start_agent "$socket" --profile "$mine"
start "$SCRATCH/victim.log" env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$SCRATCH/db-victim" 2000000 \
  1000 32 --acked "$SCRATCH/acked" --fs-uri "pulse://$socket"
victim=$STARTED
under_way() { (($(read_count "$SCRATCH/acked") >= 30000)); }
await 120 under_way || fail "the fill does not get on" "$SCRATCH/victim.log"
kill -9 "$victim"
serve after-a-death
stop_agent "$AGENT" "$AGENT_LOG"

# ---- none is as if it were not given
start_agent "$socket" --profile none
if grep -q profile "$AGENT_LOG"; then fail "a profile where none is" "$AGENT_LOG"; fi
grep -q 'mover shared' "$AGENT_LOG" || fail "another mover than usual" "$AGENT_LOG"
stop_agent "$AGENT" "$AGENT_LOG"
