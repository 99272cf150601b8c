#!/usr/bin/env bash
# The distribution's own db_bench on pulse:// by LD_PRELOAD, then the same database without the
# plug-in, key for key. usage:
#   preload_db_bench_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH embedded|external OPTIONS
# OPTIONS are URI options ("sync=strict&engine=threads"), possibly empty. With layout=pool a pool is
# made for them; what is otherwise done without the plug-in is then done with it, and without it the
# databases must not open.

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5 MODE=$6 OPTIONS=${7:-}
# shellcheck source=tests/integration/common.sh
source "$(dirname "${BASH_SOURCE[0]}")/common.sh"
setup_scratch

# All but the first get along with two fifths of the data, unless the test is to be long.
case $MODE/$OPTIONS in
  embedded/) scale=5 ;;
  *) scale=2 ;;
esac
if [[ ${PULSE_TEST_LONG:-} == 1 ]]; then scale=5; fi
many() { echo $(($1 / 5 * scale)); }

socket="$SOCKET_DIR/agent.sock"
# How a database is opened to see whether it is right.
declare -a PLAIN=() PLAIN_URI=()
if [[ "$OPTIONS" == *layout=pool* ]]; then
  pool="$SCRATCH/pool"
  run_ok pool-create 120 "$PULSE" pool create "$pool" --size 3G --segment 1M --no-prefill
  OPTIONS="$OPTIONS&pool=$pool"
fi

case $MODE in
  embedded) uri="pulse://?agent_cpus=0${OPTIONS:+&$OPTIONS}" ;;
  external)
    start_agent "$socket"
    uri="pulse://$socket${OPTIONS:+?$OPTIONS}"
    ;;
  *) fail "unknown mode $MODE" ;;
esac
note "URI $uri"
if [[ "$OPTIONS" == *layout=pool* ]]; then
  PLAIN=(env LD_PRELOAD="$PLUGIN")
  PLAIN_URI=(--fs-uri "$uri")
fi

# plain_check NAME SECONDS ARGUMENTS...: db_check, without the plug-in if that can be.
plain_check() {
  local name=$1 limit=$2
  shift 2
  run_ok "$name" "$limit" ${PLAIN[@]+"${PLAIN[@]}"} "$DB_CHECK" "$@" \
    ${PLAIN_URI[@]+"${PLAIN_URI[@]}"}
}

check_agent() {
  if [[ $MODE == external ]]; then is_alive "$AGENT" || fail "the agent died" "$AGENT_LOG"; fi
}

# require_served NAME: the plug-in did the work, and all of it through the agent. A database that is
# merely right may never have met it.
require_served() {
  local log="$SCRATCH/$1.log" pattern line
  pattern='session closed: ([0-9]+) files, ([0-9]+) MiB persisted, ([0-9]+) MiB inline, ([0-9]+) MiB'
  line=$(grep -E "$pattern" "$log") || fail "$1: no session was closed" "$log"
  [[ "$line" =~ $pattern ]]
  if ((BASH_REMATCH[1] == 0 || BASH_REMATCH[2] == 0 || BASH_REMATCH[3] != 0)); then
    fail "$1: outputs did not go through the agent: $line" "$log"
  fi
  if [[ "$OPTIONS" != *fetch=off* ]] && ((BASH_REMATCH[4] == 0)); then
    fail "$1: nothing was fetched: $line" "$log"
  fi
}

# Two threads of up to 20,000 KB each and small tables: dozens of flushes and compactions.
bench() {
  local name=$1
  shift
  run_ok "$name" 300 env PULSE_LOG=info LD_PRELOAD="$PLUGIN" \
    "$DB_BENCH" --fs_uri="$uri" --seed=1 --threads=2 \
    --num="$(many 20000)" --key_size=16 --value_size=1000 --write_buffer_size=2097152 \
    --target_file_size_base=2097152 --max_bytes_for_level_base=8388608 \
    --level0_file_num_compaction_trigger=2 --max_background_jobs=4 --subcompactions=2 \
    --compression_type=none --cache_size=1048576 --bloom_bits=10 --verify_checksum=true "$@"
  check_agent
  # db_bench prints some errors and goes on.
  if grep -qiE 'corruption|io error|error:' "$SCRATCH/$name.log"; then
    fail "$name: db_bench reports an error" "$SCRATCH/$name.log"
  fi
  note "$name: done"
}

# Scans DB ($1) with the plug-in and without; both must see the same keys and values.
same_scan() {
  local db=$1 name=$2 with without
  shift 2
  run_ok "$name-scan-with" 120 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" scan "$db" --fs-uri "$uri" "$@"
  plain_check "$name-scan-without" 120 scan "$db" "$@"
  with=$(grep '^scan:' "$SCRATCH/$name-scan-with.log")
  without=$(grep '^scan:' "$SCRATCH/$name-scan-without.log")
  [[ -n "$with" ]] || fail "$name: the scan printed nothing" "$SCRATCH/$name-scan-with.log"
  [[ "$with" != "scan: 0 keys"* ]] || fail "$name: the database is empty"
  [[ "$with" == "$without" ]] ||
    fail "$name: with the plug-in '$with', without it '$without'"
  note "$name: the same with and without the plug-in: $with"
}

db="$SCRATCH/db"
bench write --db="$db" --benchmarks=fillrandom,overwrite
require_served write
same_scan "$db" write
bench mixed --db="$db" --use_existing_db=true --reads=5000 --seek_nexts=20 \
  --benchmarks=readwhilewriting,seekrandom,compact,verifychecksum
same_scan "$db" mixed
if [[ -n "${pool:-}" ]]; then
  # Nothing of it is to be had without the plug-in, or on another pool, and nothing is lost by trying.
  remedy="existing comparator;;tables of this database are in the pool $pool"
  expect_error stock-db_check "$remedy" "$DB_CHECK" scan "$db"
  expect_error files-db_check "$remedy" env LD_PRELOAD="$PLUGIN" "$DB_CHECK" scan "$db" \
    --fs-uri pulse://
  if command -v ldb >/dev/null; then
    expect_error stock-ldb "$remedy" ldb --db="$db" scan --max_keys=1
  fi
  run_ok other-pool-create 120 "$PULSE" pool create "$SCRATCH/other" --size 64M --no-prefill \
    --segment 1M
  expect_error other-pool "are in the pool $pool;;pool=$pool" env LD_PRELOAD="$PLUGIN" \
    "$DB_CHECK" scan "$db" --fs-uri "pulse://?layout=pool&pool=$SCRATCH/other"
  compgen -G "$db/*.sst" >/dev/null && fail "there are tables outside of the pool"
  same_scan "$db" after-strangers
  run_ok pool-bench 300 env LD_PRELOAD="$PLUGIN" "$DB_BENCH" --fs_uri="$uri" --db="$db" \
    --use_existing_db=true --num="$(many 20000)" --reads=2000 --threads=2 --compression_type=none \
    --use_direct_reads=true --benchmarks=verifychecksum,readrandom,seekrandom
  run_ok pool-ls 60 "$PULSE" pool ls "$pool"
  require_match pool-ls "$db" "$SCRATCH/pool-ls.log"
  run_ok pool-check 60 "$PULSE" pool check "$pool"
else
  run_ok stock-db_bench 300 "$DB_BENCH" --db="$db" --use_existing_db=true --num="$(many 20000)" --reads=2000 \
    --threads=2 --compression_type=none --benchmarks=verifychecksum,readrandom,seekrandom
  note "stock db_bench verified all checksums"
  if command -v ldb >/dev/null; then
    run_ok stock-ldb 120 ldb --db="$db" checkconsistency
  fi
fi
rm -rf "$db"

# Every key of a reproducible fill, overwritten once so that compactions drop the first round.
run_ok fill 300 env PULSE_LOG=info LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$SCRATCH/fill" "$(many 15000)" \
  1000 11 --rounds 2 --fs-uri "$uri"
require_served fill
run_ok verify-with 120 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" verify "$SCRATCH/fill" "$(many 15000)" 1000 11 \
  --rounds 2 --fs-uri "$uri"
plain_check verify-without 120 verify "$SCRATCH/fill" "$(many 15000)" 1000 11 --rounds 2
note "fill: every key is right with and without the plug-in"

run_ok blob-fill 300 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$SCRATCH/blob" "$(many 8000)" 2000 12 \
  --rounds 2 --blob --fs-uri "$uri"
[[ -n "${pool:-}" ]] || compgen -G "$SCRATCH/blob/*.blob" >/dev/null || fail "blob-fill: no blob files were written"
plain_check blob-verify 120 verify "$SCRATCH/blob" "$(many 8000)" 2000 12 --rounds 2 --blob
note "blob files: every key is right without the plug-in"

# Deletes, merges, range deletes, ingestion, reopens, a checkpoint; and a stock-written database
# taken over by the plug-in.
run_ok model 300 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" mixed "$SCRATCH/model" 13 "$(many 10000)" \
  "$SCRATCH/model.txt" --fs-uri "$uri"
plain_check model-verify 120 mixed-verify "$SCRATCH/model" "$SCRATCH/model.txt"
plain_check checkpoint-verify 120 mixed-verify "$SCRATCH/model.ckpt" "$SCRATCH/model.txt"
run_ok stock-fill 120 "$DB_CHECK" fill "$SCRATCH/stock" "$(many 5000)" 1000 14
run_ok stock-then-plugin 300 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$SCRATCH/stock" "$(many 5000)" 1000 \
  15 --fs-uri "$uri"
plain_check stock-verify 120 verify "$SCRATCH/stock" "$(many 5000)" 1000 15
note "mixed operations, checkpoint and a database begun by stock: every key is right"

# The host's own direct flags must not change what is stored.
run_ok direct 300 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" mixed "$SCRATCH/direct" 16 "$(many 5000)" \
  "$SCRATCH/direct.txt" --direct --fs-uri "$uri"
plain_check direct-verify 120 mixed-verify "$SCRATCH/direct" "$SCRATCH/direct.txt"
note "with RocksDB's own direct I/O flags: every key is right"

if [[ $MODE == external ]]; then stop_agent "$AGENT" "$AGENT_LOG"; fi
note "passed"
