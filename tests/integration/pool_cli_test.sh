#!/usr/bin/env bash
# `pulse pool`: what it makes, shows and refuses. usage:
#   pool_cli_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch

pool="$SCRATCH/pool"

# status NAME EXPECTED COMMAND...: COMMAND ends with that exit status; its output is in NAME.log.
status() {
  local name=$1 expected=$2 log="$SCRATCH/$1.log" rc
  shift 2
  timeout -k 10 120 "$@" >"$log" 2>&1
  rc=$?
  ((rc == expected)) || fail "$name: exit status $rc, expected $expected: $*" "$log"
}

# damage FILE OFFSET: inverts a byte.
damage() {
  local byte
  byte=$(od -An -tu1 -j "$2" -N 1 "$1") || fail "no byte $2 in $1"
  # shellcheck disable=SC2059
  printf "\\x$(printf %02x $((byte ^ 255)))" | dd of="$1" bs=1 seek="$2" conv=notrunc status=none
}

# ---- help
for command in "" create ls check mv import export; do
  # shellcheck disable=SC2086
  status "help${command:+-$command}" 0 "$PULSE" pool $command --help
done
require_match help-create 'power of two;;--no-prefill;;--force;;layout=pool' "$SCRATCH/help-create.log"
require_match help-check 'exit status 0.*1.*2|Exit status 0' "$SCRATCH/help-check.log"
status no-command 2 "$PULSE" pool

# ---- create
run_ok create 60 "$PULSE" pool create "$pool" --size 64M --segment 1M
require_match create '1 MiB;;for files;;metadata' "$SCRATCH/create.log"
[[ $(stat -c %s "$pool") == $((64 << 20)) ]] || fail "the pool has another size than asked for"
(($(stat -c %b "$pool") * 512 >= 64 << 20)) || fail "the pool is sparse, and should be prefilled"
run_ok create-sparse 60 "$PULSE" pool create "$SCRATCH/sparse" --size 64M --segment 1M --no-prefill
run_ok create-metadata 60 "$PULSE" pool create "$SCRATCH/meta" --size 64M --segment 1M \
  --metadata 9M --no-prefill
require_match create-metadata '9 MiB for metadata' "$SCRATCH/create-metadata.log"

cp "$pool" "$SCRATCH/before"
expect_error create-exists 'exists;;--force' "$PULSE" pool create "$pool" --size 64M
cmp -s "$pool" "$SCRATCH/before" || fail "a refused create has changed the pool"
run_ok create-force 60 "$PULSE" pool create "$pool" --size 32M --segment 1M --force
[[ $(stat -c %s "$pool") == $((32 << 20)) ]] || fail "the replaced pool has another size"

refused_create() {
  local name=$1 patterns=$2
  shift 2
  expect_error "$name" "$patterns" "$PULSE" pool create "$SCRATCH/none" "$@"
  [[ ! -e "$SCRATCH/none" ]] || fail "$name: a file was left behind"
}
refused_create no-size '--size'
refused_create bad-size '--size;;lots' --size lots
refused_create zero-size '--size' --size 0
refused_create negative-size '--size' --size=-4G
refused_create too-small 'too small;;--size|--segment' --size 1M
refused_create too-small-for-two 'too small' --size 100M --segment 64M
refused_create odd-segment '--segment;;power of two' --size 64M --segment 3M
refused_create tiny-segment '--segment;;power of two' --size 64M --segment 512
refused_create huge-segment '--segment;;power of two' --size 64M --segment 2G
refused_create metadata-all '--metadata' --size 64M --segment 1M --metadata 64M
refused_create metadata-more '--metadata' --size 64M --segment 1M --metadata 1G
refused_create metadata-too-little '--metadata' --size 64M --segment 4K --metadata 8K
refused_create no-room 'bytes for;;free space;;--size' --size 8000T
refused_create too-many-segments 'segments;;larger --segment' --size 32T --segment 4K
refused_create too-many-largest-segments 'segments;;lower --size' --size 8000000T --segment 1G
expect_error no-directory "$SCRATCH/nowhere/pool: No such file" "$PULSE" pool create \
  "$SCRATCH/nowhere/pool" --size 64M --segment 1M
expect_error a-directory 'neither a file nor a block device' "$PULSE" pool create "$SCRATCH" \
  --size 64M --segment 1M --force
expect_error a-character-device 'neither a file nor a block device' "$PULSE" pool create /dev/null \
  --size 64M
echo "a letter to keep" >"$SCRATCH/letter"
expect_error not-a-pool-to-replace 'exists;;--force' "$PULSE" pool create "$SCRATCH/letter" --size 64M
[[ $(cat "$SCRATCH/letter") == "a letter to keep" ]] || fail "somebody's file was overwritten"

# A limit of files is an error, and ends nothing by a signal.
# shellcheck disable=SC2016
status create-limit 1 bash -c 'ulimit -f 16384 && exec "$@"' _ "$PULSE" pool create "$SCRATCH/none" \
  --size 64M --segment 1M
require_match create-limit 'File too large' "$SCRATCH/create-limit.log"
[[ ! -e "$SCRATCH/none" ]] || fail "create-limit: a file was left behind"

# stopped_create SIGNAL: it ends by the signal, and nothing is left. Where it was faster than that, it is
# tried again.
stopped_create() {
  local signal=$1 new="$SCRATCH/stopped" log="$SCRATCH/stopped-$1.log" rc
  for _ in 1 2 3 4 5; do
    start "$log" "$PULSE" pool create "$new" --size 512M --segment 1M
    until [[ -e "$new" ]] || is_gone "$STARTED"; do :; done
    kill "-$signal" "$STARTED" 2>/dev/null
    await 60 is_gone "$STARTED" || fail "create did not end by $signal" "$log"
    wait "$STARTED"
    rc=$?
    if ((rc == 0)); then
      rm "$new"
      continue
    fi
    ((rc == 130)) || fail "create, stopped by $signal: exit status $rc" "$log"
    require_match "stopped-$signal" 'stopped;;nothing is left' "$log"
    [[ ! -e "$new" ]] || fail "create, stopped by $signal: a file was left behind"
    return
  done
  fail "create was always through before the signal came"
}
stopped_create INT
stopped_create TERM

# ---- ls
run_ok ls 60 "$PULSE" pool ls "$pool"
require_match ls 'free;;segments of 1 MiB;;0 files' "$SCRATCH/ls.log"
run_ok ls-json 60 "$PULSE" pool ls "$pool" --json
python3 - "$SCRATCH/ls-json.log" <<'PY' || fail "ls --json is not what it should be" "$SCRATCH/ls-json.log"
import json, sys
r = json.load(open(sys.argv[1]))
assert r["segment_bytes"] == 1 << 20 and r["directories"] == [] and r["files"] == 0
assert r["free_segments"] == r["segments"] > 0
PY
expect_error ls-no-directory 'no directory /db;;pulse pool ls' "$PULSE" pool ls "$pool" /db
expect_error ls-no-pool "$SCRATCH/none;;pulse pool create" "$PULSE" pool ls "$SCRATCH/none"
expect_error ls-foreign 'offset 0;;no PulseDB store' "$PULSE" pool ls "$SCRATCH/letter"
expect_error mv-no-directory 'no directory a;;pulse pool ls' "$PULSE" pool mv "$pool" a b

# ---- check
status check-sound 0 "$PULSE" pool check "$pool"
require_match check-sound 'sound' "$SCRATCH/check-sound.log"
truncate -s 64M "$SCRATCH/zeros"
status check-no-pool 2 "$PULSE" pool check "$SCRATCH/none"
status check-foreign 2 "$PULSE" pool check "$SCRATCH/letter" --repair
status check-zeros 2 "$PULSE" pool check "$SCRATCH/zeros"
require_match check-zeros 'no PulseDB store here;;no copy of a superblock' "$SCRATCH/check-zeros.log"
[[ $(cat "$SCRATCH/letter") == "a letter to keep" ]] || fail "check --repair wrote to what is no pool"
status check-json 0 "$PULSE" pool check "$pool" --json
python3 -c 'import json, sys; r = json.load(open(sys.argv[1])); assert r["sound"] and not r["problems"]' \
  "$SCRATCH/check-json.log" || fail "check --json is not what it should be" "$SCRATCH/check-json.log"

cp "$pool" "$SCRATCH/damaged"
damage "$SCRATCH/damaged" 40
cp "$SCRATCH/damaged" "$SCRATCH/damaged.before"
expect_error ls-damaged 'offset 0;;superblock;;pulse pool check' "$PULSE" pool ls "$SCRATCH/damaged"
status check-damaged 1 "$PULSE" pool check "$SCRATCH/damaged"
require_match check-damaged 'problem: offset 0;;copy at offset;;--repair' "$SCRATCH/check-damaged.log"
status check-damaged-json 1 "$PULSE" pool check "$SCRATCH/damaged" --json
cmp -s "$SCRATCH/damaged" "$SCRATCH/damaged.before" || fail "check without --repair has written"
status repair 1 "$PULSE" pool check "$SCRATCH/damaged" --repair
require_match repair 'repaired' "$SCRATCH/repair.log"
status check-repaired 0 "$PULSE" pool check "$SCRATCH/damaged"
run_ok ls-repaired 60 "$PULSE" pool ls "$SCRATCH/damaged"

cp "$pool" "$SCRATCH/hopeless"
dd if=/dev/zero of="$SCRATCH/hopeless" bs=1M count=16 conv=notrunc status=none
status check-hopeless 2 "$PULSE" pool check "$SCRATCH/hopeless" --repair
cp "$pool" "$SCRATCH/cut"
truncate -s 20M "$SCRATCH/cut"
expect_error ls-cut 'ends here;;offset 20971520;;truncate -s' "$PULSE" pool ls "$SCRATCH/cut"
status check-cut 2 "$PULSE" pool check "$SCRATCH/cut"

# ---- in use
start "$SCRATCH/holder.log" flock --exclusive "$pool" sleep 300
holder=$STARTED
await 30 bash -c "! flock --nonblock --exclusive '$pool' true" || fail "flock does not lock the pool"
for command in "ls $pool" "check $pool" "check $pool --repair" "mv $pool a b" \
  "create $pool --size 64M --force"; do
  # shellcheck disable=SC2086
  expect_error "in-use-${command%% *}" "in use by process" "$PULSE" pool $command
done
kill "$holder"
wait "$holder" 2>/dev/null

# ---- read-only file
if ((EUID != 0)); then
  chmod 444 "$pool"
  run_ok ls-read-only 60 "$PULSE" pool ls "$pool"
  expect_error mv-read-only 'permission' "$PULSE" pool mv "$pool" a b
else
  skip_part "permissions: running as root"
fi
echo "pool_cli_test: ok"
