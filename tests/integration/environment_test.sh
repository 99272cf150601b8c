#!/usr/bin/env bash
# Programs that know nothing of PulseDB are on it by PULSE_URI alone, in the directories of PULSE_MATCH, and
# never silently without it. usage:
#   environment_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH FAKE_VERSION PRIVATE_ROCKSDB \
#     COUNTER_READER [STATIC_DB_CHECK]

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5 FAKE_VERSION=$6
PRIVATE_ROCKSDB=$7 COUNTER_READER=$8 STATIC_DB_CHECK=${9:-}
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
unset PULSE_URI PULSE_MATCH PULSE_FALLBACK
setup_scratch
SCRATCH=$(cd "$SCRATCH" && pwd -P)
LDB=$(command -v ldb) SST_DUMP=$(command -v sst_dump) || fail "ldb or sst_dump is not installed (rocksdb-tools)"

# As an unmodified program has it; PULSE_URI=... and the program follow.
preloaded=(env LD_PRELOAD="$PLUGIN")
# The agent has written outputs, as the timeline of the process says.
was_on_pulse() { grep -q '"agent: persist"' "$1" 2>/dev/null; }
expect_on_pulse() { was_on_pulse "$2" || fail "$1: the agent has written nothing" "$SCRATCH/$1.log"; }

# --- db_bench, ldb, sst_dump and a program of ours, on an embedded agent.
db=$SCRATCH/bench
run_ok db_bench 120 "${preloaded[@]}" PULSE_URI="pulse://?trace=$SCRATCH/bench.json" "$DB_BENCH" --db="$db" --num=50000 \
  --value_size=256 --write_buffer_size=2097152 --benchmarks=fillrandom,compact,readrandom --compression_type=none
expect_on_pulse db_bench "$SCRATCH/bench.json"
run_ok stock_reads_it 120 "$LDB" --db="$db" checkconsistency
note "db_bench: on PulseDB by PULSE_URI"

db=$SCRATCH/ldb
for i in 1 2 3; do
  run_ok ldb_put 60 "${preloaded[@]}" PULSE_URI=pulse:// "$LDB" --db="$db" --create_if_missing put "k$i" "v$i"
done
run_ok ldb_compact 60 "${preloaded[@]}" PULSE_URI="pulse://?trace=$SCRATCH/ldb.json" "$LDB" --db="$db" compact
expect_on_pulse ldb_compact "$SCRATCH/ldb.json"
run_ok ldb_scan 60 "${preloaded[@]}" PULSE_URI=pulse:// "$LDB" --db="$db" scan
[[ "$(grep -c '^k. : v.$\|^k. ==> v.$' "$SCRATCH/ldb_scan.log")" == 3 ]] || fail "ldb scan" "$SCRATCH/ldb_scan.log"
run_ok sst_dump 60 "${preloaded[@]}" PULSE_URI=pulse:// "$SST_DUMP" --file="$db" --command=check
note "ldb, sst_dump: on PulseDB by PULSE_URI"

# Whatever a program does with a database: ingestion, checkpoints, reopening.
db=$SCRATCH/mixed
run_ok mixed 300 "${preloaded[@]}" PULSE_URI="pulse://?trace=$SCRATCH/mixed.json" "$DB_CHECK" mixed "$db" 7 20000 "$SCRATCH/model"
expect_on_pulse mixed "$SCRATCH/mixed.json"
run_ok mixed_verify 120 "$DB_CHECK" mixed-verify "$db" "$SCRATCH/model"

# --- Tables in a pool: no program without PulseDB could read them.
run_ok pool 60 "$PULSE" pool create "$SCRATCH/pool" --size 256M --segment 1M
uri="pulse://?layout=pool&pool=$SCRATCH/pool"
db=$SCRATCH/in-pool
run_ok pool_fill 120 "${preloaded[@]}" PULSE_URI="$uri" "$DB_CHECK" fill "$db" 20000 200 5
[[ -z "$(find "$db" -name '*.sst')" ]] || fail "tables are in files, not in the pool"
run_ok pool_verify 120 "${preloaded[@]}" PULSE_URI="$uri" "$DB_CHECK" verify "$db" 20000 200 5
run_ok pool_ldb 60 "${preloaded[@]}" PULSE_URI="$uri" "$LDB" --db="$db" checkconsistency
run_ok pool_sst_dump 60 "${preloaded[@]}" PULSE_URI="$uri" "$SST_DUMP" --file="$db" --command=verify
grep -q 'options.env\|from \[\|Process ' "$SCRATCH/pool_sst_dump.log" || fail "sst_dump saw no table" "$SCRATCH/pool_sst_dump.log"
"$PULSE" pool ls "$SCRATCH/pool" "$db" | grep -q '\.sst' || fail "pulse pool ls shows no table"
# As secondary, and as TransactionDB: of a table that is in the pool no other way reads a key.
run_ok pool_secondary 60 "${preloaded[@]}" PULSE_URI="$uri" "$DB_CHECK" verify "$db" 20000 200 5 --secondary "$SCRATCH/secondary"
run_ok pool_transactions 60 "${preloaded[@]}" PULSE_URI="$uri" "$DB_CHECK" verify "$db" 20000 200 5 --transactions
# It begins with DestroyDB.
run_ok pool_destroy 60 "${preloaded[@]}" PULSE_URI="$uri" "$DB_BENCH" --db="$db" --benchmarks=fillseq --num=10
if "$PULSE" pool ls "$SCRATCH/pool" "$db" 2>/dev/null | grep '\.sst'; then fail "DestroyDB left tables in the pool"; fi
note "a pool: filled, verified, dumped and destroyed by PULSE_URI"

# --- An agent of its own; whole compactions on it.
socket=$SOCKET_DIR/agent.sock
start_agent "$socket"
db=$SCRATCH/whole
start "$SCRATCH/whole.log" "${preloaded[@]}" PULSE_LOG=info PULSE_URI="pulse://$socket?placement=whole" "$DB_BENCH" \
  --db="$db" --num=100000000 --value_size=256 --write_buffer_size=1048576 --max_bytes_for_level_base=2097152 \
  --benchmarks=fillrandom --compression_type=none
whole=$STARTED
tasks_done() {
  "$PULSE" top --once --json --interval 0.5 --socket "$socket" >"$SCRATCH/tasks.json" 2>&1 &&
    grep -qE '"done": ?[1-9]' "$SCRATCH/tasks.json"
}
await 120 tasks_done || fail "the agent has done no whole compaction" "$SCRATCH/whole.log"
kill -9 "$whole"
wait "$whole" 2>/dev/null
await 30 is_gone "$whole" || fail "db_bench cannot be killed"
grep -q "$db is on PulseDB" "$SCRATCH/whole.log" ||
  fail "PULSE_LOG=info does not tell that $db is on PulseDB" "$SCRATCH/whole.log"
run_ok whole_verify 60 "$LDB" --db="$db" checkconsistency
note "whole compactions on an agent by PULSE_URI"

# --- PULSE_MATCH.
mkdir -p "$SCRATCH/in" "$SCRATCH/out" "$SCRATCH/side"
matching=("${preloaded[@]}" PULSE_URI="pulse://?trace=$SCRATCH/match.json" PULSE_LOG=info)
for list in "$SCRATCH/in" "$SCRATCH/nothing:$SCRATCH/in/" "$SCRATCH/i*"; do
  rm -rf "$SCRATCH/in/db" "$SCRATCH/out/db" "$SCRATCH/match.json"
  run_ok matches 60 "${matching[@]}" PULSE_MATCH="$list" "$DB_CHECK" fill "$SCRATCH/in/db" 20000 200 5
  expect_on_pulse matches "$SCRATCH/match.json"
  [[ $(grep -c "in/db is on PulseDB" "$SCRATCH/matches.log") == 1 ]] ||
    fail "PULSE_LOG=info does not tell once that the database is on PulseDB" "$SCRATCH/matches.log"
  rm -f "$SCRATCH/match.json"
  run_ok matches_not 60 "${matching[@]}" PULSE_MATCH="$list" "$DB_CHECK" fill "$SCRATCH/out/db" 20000 200 5
  [[ ! -e "$SCRATCH/match.json" ]] || fail "PULSE_MATCH=$list: a database that it leaves out is on PulseDB"
  grep -q "out/db is not on PulseDB: PULSE_MATCH leaves it out" "$SCRATCH/matches_not.log" ||
    fail "PULSE_LOG=info does not tell what PULSE_MATCH left out" "$SCRATCH/matches_not.log"
done
# Relative paths, from the directory that the program is in.
rm -rf "$SCRATCH/in/db"
run_ok relative 60 env -C "$SCRATCH/in" PULSE_MATCH="$SCRATCH/in" LD_PRELOAD="$PLUGIN" \
  PULSE_URI="pulse://?trace=$SCRATCH/relative.json" "$DB_CHECK" fill db 20000 200 5
expect_on_pulse relative "$SCRATCH/relative.json"
# As TransactionDB, and as secondary.
rm -rf "$SCRATCH/in/db" "$SCRATCH/out/db" "$SCRATCH/match.json"
by_match() { run_ok "$1" 60 "${matching[@]}" PULSE_MATCH="$SCRATCH/in" "$DB_CHECK" "${@:2}"; }
by_match transactions fill "$SCRATCH/in/db" 20000 200 5 --transactions
expect_on_pulse transactions "$SCRATCH/match.json"
rm -f "$SCRATCH/match.json"
by_match transactions_not fill "$SCRATCH/out/db" 20000 200 5 --transactions
[[ ! -e "$SCRATCH/match.json" ]] || fail "PULSE_MATCH leaves out a TransactionDB that is on PulseDB"
for place in in out; do
  by_match "transactions_$place" scan "$SCRATCH/$place/db" --transactions
  by_match "secondary_$place" scan "$SCRATCH/$place/db" --secondary "$SCRATCH/secondary-$place"
  for opened in transactions secondary; do
    said="is on PulseDB"
    [[ $place == in ]] || said="is not on PulseDB: PULSE_MATCH leaves it out"
    grep -q "$place/db $said" "$SCRATCH/${opened}_$place.log" ||
      fail "$opened in $place: not told that it $said" "$SCRATCH/${opened}_$place.log"
  done
done
run_ok transactions_stock 60 "$DB_CHECK" verify "$SCRATCH/in/db" 20000 200 5
note "PULSE_MATCH: TransactionDB and secondaries"
# What is left out needs no agent, and has RocksDB's own settings.
rm -rf "$SCRATCH/out/db"
run_ok left_out 60 env PULSE_MATCH="$SCRATCH/in" LD_PRELOAD="$PLUGIN" PULSE_URI=pulse:///nobody/listens.sock \
  "$DB_CHECK" fill "$SCRATCH/out/db" 20000 200 5
note "PULSE_MATCH: directories, patterns, relative paths"

# A JVM has its own way; where its RocksDB is the shared one it runs on.
cp "$DB_CHECK" "$SCRATCH/java"
run_ok java 60 "${preloaded[@]}" PULSE_URI=pulse:// "$SCRATCH/java" fill "$SCRATCH/in/java" 2000 200 5
grep -q "preloaded into a JVM.*-agentpath" "$SCRATCH/java.log" || fail "no warning in a JVM" "$SCRATCH/java.log"
note "preloaded into a JVM: a warning"

# --- Nothing runs silently without PulseDB. refused NAME PATTERNS ENVIRONMENT...
refused() {
  local name=$1 patterns=$2
  shift 2
  rm -rf "$SCRATCH/refused"
  expect_error "$name-db_bench" "$patterns" env LD_PRELOAD="$PLUGIN" "$@" "$DB_BENCH" --db="$SCRATCH/refused" --num=100 \
    --benchmarks=fillrandom
  expect_error "$name-ldb" "$patterns" env LD_PRELOAD="$PLUGIN" "$@" "$LDB" --db="$SCRATCH/refused" --create_if_missing put a b
  expect_error "$name-db_check" "$patterns" env LD_PRELOAD="$PLUGIN" "$@" "$DB_CHECK" fill "$SCRATCH/refused" 100 100 1
  expect_error "$name-reads" "$patterns" env LD_PRELOAD="$PLUGIN" "$@" "$DB_CHECK" scan "$SCRATCH/ldb" --read-only
  expect_error "$name-secondary" "$patterns" env LD_PRELOAD="$PLUGIN" "$@" "$DB_CHECK" scan "$SCRATCH/ldb" \
    --secondary "$SCRATCH/secondary"
  expect_error "$name-transactions" "$patterns" env LD_PRELOAD="$PLUGIN" "$@" "$DB_CHECK" fill "$SCRATCH/refused" 100 100 1 \
    --transactions
  # It ends with status 0 whatever becomes of its files.
  timeout 60 env LD_PRELOAD="$PLUGIN" "$@" "$SST_DUMP" --file="$SCRATCH/ldb" >"$SCRATCH/$name-sst_dump.log" 2>&1
  require_match "$name-sst_dump" "$patterns" "$SCRATCH/$name-sst_dump.log"
  [[ ! -e "$SCRATCH/refused/CURRENT" ]] || fail "$name: a database was created all the same"
}
refused bad_option "PULSE_URI;;synk" PULSE_URI='pulse://?synk=barrier'
refused bad_scheme "PULSE_URI;;pulse|scheme" PULSE_URI=posix://
refused bad_value "PULSE_URI;;sync" PULSE_URI='pulse://?sync=perhaps'
refused no_agent "PULSE_URI;;listens.sock" PULSE_URI=pulse:///nobody/listens.sock
refused no_pool "PULSE_URI;;pool" PULSE_URI="pulse://?layout=pool&pool=$SCRATCH/no-pool"
refused bad_list "PULSE_MATCH;;relative/db" PULSE_URI=pulse:// PULSE_MATCH=relative/db
refused empty_list "PULSE_MATCH" PULSE_URI=pulse:// PULSE_MATCH=
# The options say what becomes of an agent that is away.
rm -rf "$SCRATCH/fallback"
run_ok fallback 60 "${preloaded[@]}" PULSE_URI="pulse:///nobody/listens.sock?fallback=embedded&trace=$SCRATCH/fallback.json" \
  "$DB_CHECK" fill "$SCRATCH/fallback" 20000 200 5
expect_on_pulse fallback "$SCRATCH/fallback.json"
# An empty value asks for nothing.
run_ok empty 60 "${preloaded[@]}" PULSE_URI="" "$DB_CHECK" fill "$SCRATCH/empty" 100 100 1
# Another version of RocksDB.
expect_error version "PULSE_URI;;6\.66;;PULSE_FALLBACK=stock" env LD_PRELOAD="$FAKE_VERSION:$PLUGIN" PULSE_URI=pulse:// \
  "$DB_CHECK" fill "$SCRATCH/version" 100 100 1
run_ok version_fallback 60 env LD_PRELOAD="$FAKE_VERSION:$PLUGIN" PULSE_URI=pulse:// PULSE_FALLBACK=stock "$DB_CHECK" \
  fill "$SCRATCH/version" 100 100 1
require_match version_fallback "6\.66;;PULSE_FALLBACK=stock" "$SCRATCH/version_fallback.log"
expect_error version_unknown "6\.66;;PULSE_FALLBACK=other is no value" env LD_PRELOAD="$FAKE_VERSION:$PLUGIN" \
  PULSE_URI=pulse:// PULSE_FALLBACK=other "$DB_CHECK" fill "$SCRATCH/version" 100 100 1
# RocksDB inside of the program: it ends before it opens anything.
if [[ -n "$STATIC_DB_CHECK" ]]; then
  for fallback in "" embedded; do
    expect_error "static$fallback" "$(basename "$STATIC_DB_CHECK");;RocksDB of its own;;PULSE_FALLBACK=stock" \
      "${preloaded[@]}" PULSE_URI=pulse:// PULSE_FALLBACK="$fallback" "$STATIC_DB_CHECK" fill "$SCRATCH/static" 100 100 1
    [[ ! -e "$SCRATCH/static" ]] || fail "a program with a RocksDB of its own opened a database" "$SCRATCH/static.log"
  done
  require_match staticembedded "PULSE_FALLBACK=embedded is no value" "$SCRATCH/staticembedded.log"
  # The same where nothing is logged, the shared RocksDB is of another version, or the list is wrong.
  static_ends() {
    expect_error "$1" "$(basename "$STATIC_DB_CHECK");;RocksDB of its own" env PULSE_URI=pulse:// "${@:2}" "$STATIC_DB_CHECK" \
      fill "$SCRATCH/static" 100 100 1
    [[ ! -e "$SCRATCH/static" ]] || fail "$1: a program with a RocksDB of its own opened a database" "$SCRATCH/$1.log"
  }
  static_ends static_unlogged LD_PRELOAD="$PLUGIN" PULSE_LOG=off
  static_ends static_version LD_PRELOAD="$FAKE_VERSION:$PLUGIN"
  static_ends static_bad_list LD_PRELOAD="$PLUGIN" PULSE_MATCH=relative/db
  # What PULSE_MATCH leaves out may be all that it opens.
  run_ok static_match 60 "${preloaded[@]}" PULSE_URI=pulse:// PULSE_MATCH="$SCRATCH/in" "$STATIC_DB_CHECK" fill \
    "$SCRATCH/static3" 100 100 1
  require_match static_match "$(basename "$STATIC_DB_CHECK");;RocksDB of its own;;PULSE_MATCH" "$SCRATCH/static_match.log"
  run_ok static_fallback 60 "${preloaded[@]}" PULSE_URI=pulse:// PULSE_FALLBACK=stock "$STATIC_DB_CHECK" fill \
    "$SCRATCH/static" 100 100 1
  require_match static_fallback "$(basename "$STATIC_DB_CHECK");;RocksDB of its own" "$SCRATCH/static_fallback.log"
  run_ok static_reads 60 "$DB_CHECK" verify "$SCRATCH/static" 100 100 1
  run_ok static_without 60 env LD_PRELOAD="$PLUGIN" "$STATIC_DB_CHECK" fill "$SCRATCH/static2" 100 100 1
  [[ ! -s "$SCRATCH/static_without.log" ]] || ! grep -qi pulsedb "$SCRATCH/static_without.log" ||
    fail "the plug-in speaks without PULSE_URI" "$SCRATCH/static_without.log"
else
  skip_part "a program with RocksDB linked in statically: no librocksdb.a"
fi

# A library with a RocksDB of its own: a program that is served besides goes on, and is told.
run_ok private 60 env LD_PRELOAD="$PLUGIN:$PRIVATE_ROCKSDB" PULSE_URI="pulse://?trace=$SCRATCH/private.json" "$DB_CHECK" fill \
  "$SCRATCH/private" 20000 200 5
expect_on_pulse private "$SCRATCH/private.json"
require_match private "$(basename "$PRIVATE_ROCKSDB");;RocksDB of its own;;is served" "$SCRATCH/private.log"
expect_error private_alone "$(basename "$PRIVATE_ROCKSDB");;RocksDB of its own" \
  env LD_PRELOAD="$PLUGIN:$PRIVATE_ROCKSDB" PULSE_URI=pulse:// cat /dev/null
run_ok counter_reader 60 env LD_PRELOAD="$PLUGIN:$COUNTER_READER" PULSE_URI=pulse:// cat /dev/null
[[ ! -s "$SCRATCH/counter_reader.log" ]] || fail "who reads a counter has no RocksDB" "$SCRATCH/counter_reader.log"

# --- Programs without RocksDB have nothing to say about it, and PulseDB's own are not on it.
said=$("${preloaded[@]}" PULSE_URI='pulse://?synk=1' cat /dev/null 2>&1) || fail "cat with a wrong PULSE_URI ended with an error"
[[ -z "$said" ]] || fail "a program without databases said: $said"
run_ok shell 60 "${preloaded[@]}" PULSE_URI=pulse:// PULSE_FALLBACK=other sh -c "true; ls '$SCRATCH/side'"
[[ ! -s "$SCRATCH/shell.log" ]] || fail "a shell and its commands have something to say" "$SCRATCH/shell.log"
run_ok own_program 60 "${preloaded[@]}" PULSE_URI='pulse://?synk=1' "$PULSE" pool ls "$SCRATCH/pool"
# The program's own choice goes first.
run_ok own_uri 60 env LD_PRELOAD="$PLUGIN" PULSE_URI='pulse:///nobody/listens.sock' "$DB_CHECK" fill "$SCRATCH/own" 20000 200 5 \
  --fs-uri "pulse://?trace=$SCRATCH/own.json"
expect_on_pulse own_uri "$SCRATCH/own.json"

stop_agent "$AGENT" "$AGENT_LOG"
note "all is well"
