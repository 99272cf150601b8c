#!/usr/bin/env bash
# Runs the example on a store and an agent of its own: run_files_example.sh PULSE EXAMPLE SCRATCH
set -euo pipefail
pulse=$1 example=$2 scratch=$3
rm -rf "$scratch"
mkdir -p "$scratch"
cd "$scratch" # a socket's path is short by law
agent=
trap '[[ -z "$agent" ]] || kill "$agent" 2>/dev/null || true; wait; rm -rf "$scratch"' EXIT

# Without an agent, and with one that has no store: the remedy is named.
! "$example" ./agent.sock 2>err.log || { echo "opened without an agent" >&2; exit 1; }
grep -q 'pulse agent --socket' err.log
start() {
  "$pulse" agent --socket ./agent.sock "$@" 2>agent.log &
  agent=$!
  for _ in $(seq 1200); do
    grep -q listening agent.log && return 0
    kill -0 "$agent" 2>/dev/null || break
    sleep 0.05
  done
  cat agent.log >&2
  exit 1
}
stop() {
  kill -TERM "$agent"
  wait "$agent"
  agent=
}
start
! "$example" ./agent.sock 2>err.log || { echo "opened without a store" >&2; exit 1; }
grep -q -- '--store' err.log
stop
# An agent whose store is none, or somebody else's, does not start.
! "$pulse" agent --socket ./agent.sock --store ./none 2>err.log || exit 1
grep -q 'pulse pool create' err.log
"$pulse" pool create ./pool --size 64M --segment 1M
start --store ./pool
! "$pulse" agent --socket ./second.sock --store ./pool 2>err.log || exit 1
grep -q "process $agent" err.log
[[ "$("$example" ./agent.sock)" == "agent, please keep this." ]]
stop
# It is still there for the next agent.
start --store ./pool
[[ "$("$example" ./agent.sock)" == "agent, please keep this." ]]
stop
"$pulse" pool check ./pool
