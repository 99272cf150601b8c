#!/usr/bin/env bash
# `pulse pool import` and `pulse pool export`: databases of the distribution's RocksDB move into a pool
# and out again, are stopped and killed on the way, and keep every key. usage:
#   pool_convert_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch

pool="$SCRATCH/pool"
uri="pulse://?layout=pool&pool=$pool"
db="$SCRATCH/db"
with_plugin=(env "LD_PRELOAD=$PLUGIN")
keys=(40000 1000 7) # of a fill: number, size of a value, seed

tables() { find "$1" -maxdepth 1 \( -name '*.sst' -o -name '*.blob' \) | wc -l; }
on_stock() { run_ok "$1" 120 "$DB_CHECK" verify "$db" "${keys[@]}" --blob --read-only; }
on_pool() { run_ok "$1" 120 "${with_plugin[@]}" "$DB_CHECK" verify "$db" "${keys[@]}" --blob --fs-uri "$uri"; }

for command in import export; do
  run_ok "help-$command" 20 "$PULSE" pool $command --help
  require_match "help-$command" 'power cut;;--dry-run;;--db-path;;--verify;;Exit status' \
    "$SCRATCH/help-$command.log"
done

run_ok create 60 "$PULSE" pool create "$pool" --size 160M --segment 1M --no-prefill
run_ok fill 120 "$DB_CHECK" fill "$db" "${keys[@]}" --blob
(($(tables "$db") > 10)) || fail "the database has too few tables to say anything"

# ---- refused: nothing is touched
ls -l "$db" >"$SCRATCH/before"
refused() {
  local name=$1 patterns=$2
  shift 2
  expect_error "$name" "$patterns" "$PULSE" pool "$@"
  ls -l "$db" | diff "$SCRATCH/before" - >/dev/null || fail "$name: the database was changed"
}
mkdir "$SCRATCH/empty"
refused import-nothing 'no such file' import "$pool" "$SCRATCH/none"
refused export-empty-name 'name the directory' export "$pool" ''
refused export-options-only 'name the directory' export "$pool" --dry-run
refused create-unnameable 'without &' create "$SCRATCH/a&b" --size 24M --segment 1M --no-prefill
[[ ! -e "$SCRATCH/a&b" ]] || fail "a pool was made that no URI can name"
refused import-no-database 'no RocksDB database;;CURRENT' import "$pool" "$SCRATCH/empty"
refused import-no-pool 'pulse pool create' import "$SCRATCH/none" "$db"
refused import-foreign 'no PulseDB store' import "$db/CURRENT" "$db"
run_ok create-small 60 "$PULSE" pool create "$SCRATCH/small" --size 24M --segment 1M --no-prefill
refused import-no-room 'bytes free;;need;;larger pool' import "$SCRATCH/small" "$db"
# hold CALL FILE: a process that has FILE locked, by fcntl.lockf or fcntl.flock; HOLDER is its pid.
hold() {
  local log="$SCRATCH/$1.log"
  start "$log" python3 -c '
import fcntl, sys, time
f = open(sys.argv[2], "r+")
getattr(fcntl, sys.argv[1])(f, fcntl.LOCK_EX)
print("locked", flush=True)
time.sleep(300)' "$1" "$2"
  HOLDER=$STARTED
  await 30 grep -qs locked "$log" || fail "$2 was not locked" "$log"
}
let_go() {
  kill "$HOLDER"
  wait "$HOLDER" 2>/dev/null
}
hold lockf "$db/LOCK" # as RocksDB does
refused import-open-database 'is open;;close it first' import "$pool" "$db"
let_go
hold flock "$pool"
refused import-pool-in-use 'in use by process' import "$pool" "$db"
let_go

run_ok dry-run 60 "$PULSE" pool import "$pool" "$db" --dry-run
require_match dry-run 'would copy [0-9]+ files;;are free;;would then switch;;would then delete' \
  "$SCRATCH/dry-run.log"
ls -l "$db" | diff "$SCRATCH/before" - >/dev/null || fail "a dry run has changed the database"

# ---- there and back, by other spellings of the paths
(cd "$SCRATCH" && ln -s db alias) || fail "no link"
cd "$SCRATCH" || fail "no $SCRATCH"
run_ok import 120 "$PULSE" pool import ./pool alias/ --verify
require_match import 'are in the pool;;copied' "$SCRATCH/import.log"
(($(tables "$db") == 0)) || fail "tables were left in the directory"
expect_error stock-is-refused "does not match existing comparator;;$pool" ldb "--db=$db" scan
on_pool verify-pool
run_ok import-again 60 "$PULSE" pool import --db-path "$SCRATCH/empty" "$pool" "$db"
require_match import-again 'already;;nothing to do' "$SCRATCH/import-again.log"
run_ok list 60 "$PULSE" pool export "$pool"
require_match list "$db .*database" "$SCRATCH/list.log"
expect_error other-pool "are in the pool $pool" "$PULSE" pool export "$SCRATCH/small" "$db"
run_ok write-pool 120 "${with_plugin[@]}" "$DB_BENCH" "--fs_uri=$uri" "--db=$db" --use_existing_db=1 \
  --benchmarks=compact --enable_blob_files=1
on_pool verify-compacted

run_ok export 120 "$PULSE" pool export "$pool" "$db" --verify
require_match export 'are plain files now;;any RocksDB opens it' "$SCRATCH/export.log"
on_stock verify-stock
run_ok manifest 60 ldb "--db=$db" manifest_dump
run_ok export-again 60 "$PULSE" pool export "$pool" "$db"
require_match export-again 'already;;nothing to do' "$SCRATCH/export-again.log"
run_ok check 60 "$PULSE" pool check "$pool"
run_ok list-empty 60 "$PULSE" pool export "$pool"
require_match list-empty 'no tables' "$SCRATCH/list-empty.log"

# ---- stopped and killed once it writes, and gone on with
# begun NAME COMMAND...: COMMAND runs, as $STARTED, and has written a piece. False if it has ended.
begun() {
  local name=$1 key value
  shift
  start "$SCRATCH/$name.log" "$@"
  while is_alive "$STARTED"; do
    while read -r key value; do
      if [[ $key == wchar: ]] && ((value > 1 << 20)); then return 0; fi
    done 2>/dev/null <"/proc/$STARTED/io"
  done
  return 1
}
# interrupted SIGNAL DIRECTION BACK: a conversion ends by the signal. Where it was faster than that, it
# is taken back and tried again.
interrupted() {
  local signal=$1 direction=$2 back=$3 name="$2-$1" try rc
  for try in 1 2 3 4 5; do
    if begun "$name" "$PULSE" pool "$direction" "$pool" "$db"; then kill "-$signal" "$STARTED"; fi
    wait "$STARTED"
    rc=$?
    case "$signal $rc" in
      "INT 130") require_match "$name" 'stopped;;run the same command again' "$SCRATCH/$name.log" ;;
      "KILL 137") ;;
      *" 0")
        run_ok "$name-back-$try" 120 "$PULSE" pool "$back" "$pool" "$db"
        continue
        ;;
      *) fail "$name: exit status $rc" "$SCRATCH/$name.log" ;;
    esac
    return
  done
  fail "$name: was always through before the signal came"
}
for direction in import export; do
  if [[ $direction == import ]]; then back=export; else back=import; fi
  for signal in INT KILL; do
    interrupted $signal $direction $back
    # Perhaps it had just switched.
    if grep -q MANIFEST-000000 "$db/CURRENT"; then verify=on_pool; else verify=on_stock; fi
    $verify "$direction-$signal-verify"
  done
  run_ok "$direction-on" 120 "$PULSE" pool $direction "$pool" "$db"
  if [[ $direction == import ]]; then on_pool "$direction-verify"; else on_stock "$direction-verify"; fi
done
run_ok check-end 60 "$PULSE" pool check "$pool"

# ---- a missing and a cut table
table=$(find "$db" -name '*.sst' | sort | head -n 1)
mv "$table" "$SCRATCH/aside.sst"
expect_error missing-table "$(basename "$table");;missing;;backup" "$PULSE" pool import "$pool" "$db"
head -c 1000 "$SCRATCH/aside.sst" >"$table"
expect_error cut-table "$(basename "$table");;damaged;;backup" "$PULSE" pool import "$pool" "$db"
mv "$SCRATCH/aside.sst" "$table"
on_stock verify-end
echo "pool_convert_test: ok"
