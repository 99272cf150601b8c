#!/usr/bin/env bash
# run_ops_rocksdb_example.sh PROGRAM SCRATCH: the database has the lines that match, in their order,
# also of a compressed log and of a second one, and RocksDB reads it without the plug-in.
set -euo pipefail
program=$1
scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch"
fail() { echo "FAIL: $*" >&2; exit 1; }
for i in $(seq 40000); do echo "line $i of a log, service $((i % 17)) answered after $((i * 7919 % 1000)) ms"; done >"$scratch/log"
grep '7[0-9] of' "$scratch/log" >"$scratch/expected"
"$program" '7[0-9] of' "$scratch/db" <"$scratch/log" >"$scratch/out"
grep -q "^$(wc -l <"$scratch/expected") records; [1-9][0-9]* bytes written by the agent" "$scratch/out" ||
  fail "$(cat "$scratch/out")"
"$program" --print "$scratch/db" | cmp - "$scratch/expected"

# The second log is gzip, the blocks are compressed on an agent's CPU of its own where there is one.
uri=pulse:// host=()
cpus=($(taskset -pc $$ | sed 's/.*: //' | tr ',' '\n' |
  while IFS=- read -r a b; do seq "$a" "${b:-$a}"; done))
if ((${#cpus[@]} > 1)); then
  host=(taskset -c "${cpus[0]}")
  uri="pulse://?agent_cpus=${cpus[1]}&compression=agent"
fi
gzip -c "$scratch/log" | "${host[@]}" "$program" 'service 3 ' "$scratch/db" "$uri" >"$scratch/out"
grep 'service 3 ' "$scratch/log" >>"$scratch/expected"
"$program" --print "$scratch/db" | cmp - "$scratch/expected"

# The reason of a failure is said: a rule that is none, and a damaged log.
"$program" '(' "$scratch/db" <"$scratch/log" 2>"$scratch/err" && fail "a rule that is none was taken"
grep -q 'missing' "$scratch/err" || fail "$(cat "$scratch/err")"
gzip -c "$scratch/log" >"$scratch/log.gz"
head -c 50000 "$scratch/log.gz" >"$scratch/cut.gz"
"$program" 'x' "$scratch/db" <"$scratch/cut.gz" 2>"$scratch/err" && fail "a log that is cut off was taken"
grep -q 'ends' "$scratch/err" || fail "$(cat "$scratch/err")"
rm -rf "$scratch"
