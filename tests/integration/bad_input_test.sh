#!/usr/bin/env bash
# Every kind of bad input gets a clear error that names the thing, and nothing is lost. usage:
#   bad_input_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH DENY_IO_URING FAKE_VERSION

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5 DENY_IO_URING=$6 FAKE_VERSION=$7
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch

db_number=0
next_db() { db="$SCRATCH/db.$((++db_number))"; }

# refused NAME PATTERNS URI: a fill through URI is refused, and so is db_bench.
refused() {
  local name=$1 patterns=$2 uri=$3
  next_db
  expect_error "$name" "$patterns" env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$db" 100 100 1 \
    --fs-uri "$uri"
  [[ ! -e "$db/CURRENT" ]] || fail "$name: a database was created all the same"
}

# works NAME URI [COMMAND...]: a fill through URI succeeds and verifies without the plug-in.
works() {
  local name=$1 uri=$2
  shift 2
  next_db
  run_ok "$name" 180 "$@" env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$db" 5000 1000 1 --fs-uri "$uri"
  run_ok "$name-verify" 60 "$DB_CHECK" verify "$db" 5000 1000 1
  rm -rf "$db"
  note "$name: works"
}

# ---- URI options
refused unknown-option 'bogus_option' 'pulse://?bogus_option=1'
refused unknown-option-second 'bogus_option' 'pulse://?sync=strict&bogus_option=1'
refused bad-sync 'sync;;sideways;;strict' 'pulse://?sync=sideways'
refused bad-engine 'engine;;steam;;io_uring' 'pulse://?engine=steam'
refused rival-engine 'engine=libaio;;io_uring or threads;;pulse-bench' 'pulse://?engine=libaio'
expect_error agent-rival-engine '--engine;;io_uring_poll;;io_uring or threads;;pulse-bench' \
  "$PULSE" agent --socket "$SOCKET_DIR/rival.sock" --engine io_uring_poll
refused bad-mover 'mover;;ox;;vmread' 'pulse://?mover=ox'
refused bad-size 'write_threshold;;lots' 'pulse://?write_threshold=lots'
refused negative-size 'write_threshold;;-1' 'pulse://?write_threshold=-1'
refused zero-queue 'queue' 'pulse://?queue=0'
refused huge-queue 'queue' 'pulse://?queue=900T'
refused bad-cpus 'agent_cpus;;zero' 'pulse://?agent_cpus=zero'
refused absent-cpu 'agent_cpus|CPU;;99999' 'pulse://?agent_cpus=99999'
refused bad-io 'io;;wet;;direct' 'pulse://?io=wet'
refused bad-fetch 'fetch;;maybe' 'pulse://?fetch=maybe'
refused bad-fallback 'fallback;;pray;;embedded' 'pulse://?fallback=pray'
refused repeated-option 'sync' 'pulse://?sync=strict&sync=barrier'
refused no-value 'sync' 'pulse://?sync'
next_db
expect_error db_bench-unknown-option 'bogus_option' env LD_PRELOAD="$PLUGIN" "$DB_BENCH" \
  --fs_uri='pulse://?bogus_option=1' --db="$db" --num=100 --benchmarks=fillseq

# ---- benchmarks that were not built
mkdir -p "$SCRATCH/pulse-alone/bin"
cp "$PULSE" "$SCRATCH/pulse-alone/bin"
expect_error bench-alone "$SCRATCH/pulse-alone/bin/pulse-bench;;No such file;;--target pulse_bench" \
  "$SCRATCH/pulse-alone/bin/pulse" bench demo
rm -r "$SCRATCH/pulse-alone"

# ---- the same options from the environment
PULSE_OPTIONS='bogus_option=1' refused environment-unknown-option 'bogus_option;;PULSE_OPTIONS' \
  'pulse://'
PULSE_OPTIONS='sync=sideways' refused environment-bad-value 'sync;;sideways' 'pulse://'
PULSE_OPTIONS='sync=strict&engine=threads' works environment-options 'pulse://'

# ---- agent sockets
socket="$SOCKET_DIR/agent.sock"
refused missing-socket "$socket;;agent" "pulse://$socket"
works missing-socket-fallback "pulse://$socket?fallback=embedded"
if [[ $(grep -ciE 'embedded' "$SCRATCH/missing-socket-fallback.log") == 0 ]]; then
  fail "missing-socket-fallback: no log line says so" "$SCRATCH/missing-socket-fallback.log"
fi
refused socket-without-directory "$SOCKET_DIR/none/agent.sock" "pulse://$SOCKET_DIR/none/agent.sock"
touch "$SOCKET_DIR/plain"
refused socket-is-a-file "$SOCKET_DIR/plain" "pulse://$SOCKET_DIR/plain"
long_path="$SOCKET_DIR/$(printf 'x%.0s' {1..200}).sock"
refused socket-path-too-long 'long' "pulse://$long_path"
expect_error agent-socket-path-too-long 'long' "$PULSE" agent --socket "$long_path"
expect_error agent-socket-is-a-file "$SOCKET_DIR/plain" "$PULSE" agent --socket "$SOCKET_DIR/plain"
[[ -f "$SOCKET_DIR/plain" ]] || fail "the agent removed a file that was not its own"
expect_error agent-socket-nowhere "$SOCKET_DIR/none/a.sock" "$PULSE" agent \
  --socket "$SOCKET_DIR/none/a.sock"

if command -v python3 >/dev/null; then
  for mode in version garbage hangup silent; do
    fake="$SOCKET_DIR/fake-$mode.sock"
    start "$SCRATCH/fake-$mode.log" python3 "$here/fake_agent.py" "$fake" "$mode"
    await 20 is_listening "$fake" || fail "the fake agent does not listen" "$SCRATCH/fake-$mode.log"
    patterns="$fake"
    if [[ $mode == version ]]; then patterns="$fake;;version"; fi
    refused "fake-agent-$mode" "$patterns" "pulse://$fake"
    works "fake-agent-$mode-fallback" "pulse://$fake?fallback=embedded"
  done
else
  skip_part "agents of another protocol version: python3 is not installed"
fi

# ---- the same socket twice, and the socket file of a killed agent
start_agent "$socket"
first=$AGENT first_log=$AGENT_LOG
expect_error same-socket "$socket" "$PULSE" agent --socket "$socket"
is_alive "$first" || fail "the first agent died of the second" "$first_log"
works after-same-socket "pulse://$socket"
kill -9 "$first"
await 20 is_gone "$first" || fail "the agent cannot be killed"
[[ -S "$socket" ]] || fail "expected the killed agent's socket file to be left behind"
refused stale-socket "$socket" "pulse://$socket"
start_agent "$socket"
works replaced-stale-socket "pulse://$socket"
stop_agent "$AGENT" "$AGENT_LOG"

# ---- paths that cannot be written
touch "$SCRATCH/file"
expect_error db-under-a-file "$SCRATCH/file" env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill \
  "$SCRATCH/file/db" 100 100 1 --fs-uri pulse://
if ((EUID == 0)); then
  if mount_tmpfs "$SCRATCH/read-only" 1m && mount -o remount,ro "$SCRATCH/read-only"; then
    expect_error db-on-read-only "$SCRATCH/read-only" env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill \
      "$SCRATCH/read-only/db" 100 100 1 --fs-uri pulse://
  else
    skip_part "read-only file system: mounting is not permitted"
  fi
else
  mkdir -m 555 "$SCRATCH/read-only"
  expect_error db-in-read-only "$SCRATCH/read-only" env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill \
    "$SCRATCH/read-only/db" 100 100 1 --fs-uri pulse://
fi

# ---- direct I/O on tmpfs
tmpfs="$SCRATCH/tmpfs"
if mount_tmpfs "$tmpfs" 256m; then
  :
elif [[ -w /dev/shm && $(stat -f -c %T /dev/shm) == tmpfs ]]; then
  tmpfs=$(mktemp -d /dev/shm/pulse-test.XXXXXX)
else
  tmpfs=""
fi
if [[ -n "$tmpfs" ]]; then
  run_ok tmpfs-auto 120 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$tmpfs/auto" 8000 1000 1 \
    --fs-uri pulse://
  run_ok tmpfs-auto-verify 60 "$DB_CHECK" verify "$tmpfs/auto" 8000 1000 1
  note "tmpfs with io=auto: works"
  if dd if=/dev/zero of="$tmpfs/probe" bs=4096 count=1 oflag=direct 2>/dev/null; then
    run_ok tmpfs-direct 120 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$tmpfs/direct" 8000 1000 1 \
      --fs-uri 'pulse://?io=direct'
    run_ok tmpfs-direct-verify 60 "$DB_CHECK" verify "$tmpfs/direct" 8000 1000 1
    note "tmpfs with io=direct: this kernel's tmpfs has direct I/O, and it works"
  else
    expect_error tmpfs-direct 'direct' env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$tmpfs/direct" \
      8000 1000 1 --fs-uri 'pulse://?io=direct'
  fi
  if [[ "$tmpfs" == /dev/shm/* ]]; then rm -rf "$tmpfs"; fi
else
  skip_part "database on tmpfs: no tmpfs to be had"
fi

# ---- a full disk: an error that says so, no hang, and every acknowledged key readable
disk_full() {
  local name=$1 uri=$2 disk="$SCRATCH/disk-$1" rc log="$SCRATCH/$1.log" count
  if ! mount_tmpfs "$disk" 32m; then
    skip_part "$name: mounting is not permitted"
    return
  fi
  timeout -k 10 180 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$disk/db" 65536 1000 5 \
    --acked "$SCRATCH/$name.acked" --fs-uri "$uri" >"$log" 2>&1
  rc=$?
  if ((rc == 124 || rc == 137)); then fail "$name: hung on a full disk" "$log"; fi
  # Debian's RocksDB asserts when a full disk stops the write-ahead log and the database is then closed; stock
  # does so too. What was acknowledged must be there all the same.
  if ((rc == 134)) && grep -q AssertFalseAndGetStatusForPrevError "$log"; then
    rc=3
    echo "the write-ahead log found no space; RocksDB's own assertion" >>"$log"
  fi
  if ((rc != 3)); then fail "$name: exit status $rc on a full disk, wanted a stopped fill" "$log"; fi
  require_match "$name" 'no space' "$log"
  count=$(read_count "$SCRATCH/$name.acked")
  cp -r "$disk/db" "$SCRATCH/$name-copy" || fail "$name: cannot copy the database"
  run_ok "$name-verify" 60 "$DB_CHECK" verify "$SCRATCH/$name-copy" 65536 1000 5 --first "$count"
  # With room again, the same database goes on where it stopped.
  mount -o remount,size=256m "$disk" || fail "$name: cannot enlarge the disk"
  run_ok "$name-again" 120 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$disk/db" 65536 1000 5 \
    --fs-uri "$uri"
  run_ok "$name-again-verify" 60 "$DB_CHECK" verify "$disk/db" 65536 1000 5
  umount "$disk"
  rm -rf "$SCRATCH/$name-copy"
  note "$name: stopped with 'no space', all $count acknowledged keys are there, and it goes on"
}
disk_full disk-full-barrier 'pulse://'
disk_full disk-full-strict 'pulse://?sync=strict'
disk_full disk-full-threads 'pulse://?engine=threads&mover=vmread'

# ---- a file size limit that only compaction outputs reach: a write error in the background
next_db
timeout -k 10 120 bash -c 'trap "" XFSZ; ulimit -f 1024; exec "$@"' limited \
  env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$db" 20000 1000 6 --write-buffer 524288 \
  --table-size 8388608 --acked "$SCRATCH/limit.acked" --fs-uri pulse:// \
  >"$SCRATCH/limit.log" 2>&1
rc=$?
if ((rc != 3)); then
  fail "file-size-limit: exit status $rc, wanted a stopped fill" "$SCRATCH/limit.log"
fi
require_match file-size-limit 'too large;;\.sst' "$SCRATCH/limit.log"
run_ok file-size-limit-verify 60 "$DB_CHECK" verify "$db" 20000 1000 6 \
  --first "$(read_count "$SCRATCH/limit.acked")"
note "file-size-limit: $(grep -m1 stopped "$SCRATCH/limit.log" | cut -c1-200)"

# ---- limits that keep hosts of an agent from it: they write by themselves, and say why
start_agent "$SOCKET_DIR/limits.sock" --max-files 1
next_db
run_ok max-files 60 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$db" 20000 1000 7 --write-buffer 1048576 \
  --fs-uri "pulse://$SOCKET_DIR/limits.sock"
require_match max-files 'without the agent;;--max-files' "$SCRATCH/max-files.log"
next_db
run_ok shared-memory 60 bash -c 'ulimit -f 16384; exec "$@"' limited env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$db" \
  5000 1000 7 --write-buffer 1048576 --fs-uri "pulse://$SOCKET_DIR/limits.sock"
require_match shared-memory 'without the agent;;ulimit -f' "$SCRATCH/shared-memory.log"
stop_agent "$AGENT" "$AGENT_LOG"

# ---- a low limit on locked memory: it works, or says which limit and what to do
low_memlock() {
  local log="$SCRATCH/memlock.log" rc
  local -a drop=()
  if ((EUID == 0)); then
    if ! setpriv --bounding-set=-ipc_lock true 2>/dev/null; then
      skip_part "low memlock: CAP_IPC_LOCK cannot be dropped"
      return
    fi
    drop=(setpriv "--bounding-set=-ipc_lock" "--inh-caps=-ipc_lock")
  fi
  next_db
  timeout -k 10 120 bash -c 'ulimit -l 64; exec "$@"' limited ${drop[@]+"${drop[@]}"} \
    env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$db" 8000 1000 7 --fs-uri pulse:// >"$log" 2>&1
  rc=$?
  if ((rc == 0)); then
    run_ok memlock-verify 60 "$DB_CHECK" verify "$db" 8000 1000 7
    # Engines that register nothing have nothing to say.
    if "$DENY_IO_URING" true 2>/dev/null; then require_match "low memlock" 'memlock|ulimit' "$log"; fi
    note "low memlock: works; log: $(grep -iE -m1 'memlock|ulimit' "$log" || echo 'nothing to say')"
  else
    if ((rc > 123)); then fail "low memlock: exit status $rc" "$log"; fi
    require_match "low memlock" 'memlock|ulimit' "$log"
    note "low memlock: refused with its reason"
  fi
}
low_memlock

# ---- no io_uring
if "$DENY_IO_URING" true 2>"$SCRATCH/deny.log"; then
  works no-io_uring 'pulse://' "$DENY_IO_URING"
  require_match no-io_uring 'io_uring' "$SCRATCH/no-io_uring.log"
  lines=$(grep -ci 'io_uring' "$SCRATCH/no-io_uring.log")
  if ((lines > 3)); then
    fail "no-io_uring: $lines log lines where one was due" "$SCRATCH/no-io_uring.log"
  fi
  works no-io_uring-threads 'pulse://?engine=threads' "$DENY_IO_URING"
  # Asked for by name: it may degrade with a word about it, or refuse with one.
  next_db
  timeout -k 10 120 "$DENY_IO_URING" env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$db" 5000 1000 1 \
    --fs-uri 'pulse://?engine=io_uring' >"$SCRATCH/named.log" 2>&1
  rc=$?
  if ((rc > 123)); then fail "no-io_uring-named: exit status $rc" "$SCRATCH/named.log"; fi
  require_match no-io_uring-named 'io_uring' "$SCRATCH/named.log"
  if ((rc == 0)); then run_ok named-verify 60 "$DB_CHECK" verify "$db" 5000 1000 1; fi
  note "no-io_uring-named: status $rc, $(grep -i -m1 io_uring "$SCRATCH/named.log" | cut -c1-200)"
else
  skip_part "no io_uring: $(cat "$SCRATCH/deny.log")"
fi

# ---- a RocksDB of another version
next_db
expect_error other-rocksdb '6\.66;;version|built' env LD_PRELOAD="$FAKE_VERSION:$PLUGIN" \
  "$DB_CHECK" fill "$db" 100 100 1 --fs-uri pulse://
[[ ! -e "$db/CURRENT" ]] || fail "other-rocksdb: a database was created all the same"

# ---- programs without RocksDB notice nothing
silent() {
  local name=$1 want=$2 got
  shift 2
  got=$(timeout -k 10 60 env LD_PRELOAD="$PLUGIN" "$@" 2>"$SCRATCH/$name.err") ||
    fail "$name: exit status $? with the plug-in preloaded" "$SCRATCH/$name.err"
  [[ "$got" == "$want" ]] || fail "$name: printed '$got', wanted '$want'"
  [[ ! -s "$SCRATCH/$name.err" ]] || fail "$name: wrote to standard error" "$SCRATCH/$name.err"
}
silent silent-true '' /bin/true
silent silent-echo 'hello' /bin/echo hello
silent silent-bash '3' bash -c 'sleep 0.1 & wait; echo $((1 + 2))'
if command -v python3 >/dev/null; then silent silent-python 1 python3 -c 'print(1)'; fi
# And a RocksDB program that does not ask for pulse:// stays stock.
next_db
run_ok not-asked 60 env LD_PRELOAD="$PLUGIN" "$DB_CHECK" fill "$db" 2000 1000 1
run_ok not-asked-verify 60 "$DB_CHECK" verify "$db" 2000 1000 1
note "programs that do not ask for pulse:// notice nothing"
note "passed"
