#!/usr/bin/env bash
# kv-suites.sh [PULSE]: the suites of redis-server and memcached, from Debian's source packages, against
# `pulse kv`: Redis's Tcl tests of strings, counters, expiry, keys, SCAN, MULTI, protocol and bits, and
# memcached's t/*.t. For each file it prints how many tests passed and failed, and fails when fewer pass
# than are recorded here. Those that fail need lists, hashes, sets or sorted sets, LCS, encodings that
# follow a value's history, DEBUG, a time machine (debugtime), delayed flushes, slabs, or a first command
# that neither protocol has. Needs Debian's source packages, tclsh, perl with prove, redis-cli and the
# program memcached, which memcached's suite looks for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pulse=$(realpath "${1:-build/release/bin/pulse}")
# file:tests that pass, at least
redis_tests=(type/string:64 type/incr:21 expire:57 keyspace:33 scan:5 protocol:15 bitops:43 bitfield:16)
memcached_tests=(incrdecr:24 noreply:10 flags:9 getset:37992 cas:44 getandtouch:16 touch:5
  multiversioning:14 issue_14:22 issue_41:692 issue_70:5 issue_108:5 issue_152:3 chunked-items:16630
  evictions:93)

for program in tclsh prove redis-cli memcached; do
  command -v "$program" >/dev/null || {
    echo "kv-suites: $program is not there: apt-get install tcl perl redis-tools memcached" >&2
    exit 1
  }
done
[[ -x "$pulse" ]] || {
  echo "kv-suites: $pulse is not there; build it with: make build" >&2
  exit 1
}
work=$(mktemp -d)
server=
stop() {
  if [[ -n "$server" ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap stop EXIT

# Sources by apt, with lists of its own, so that nothing of the system's is changed.
key=/usr/share/keyrings/debian-archive-keyring.gpg
echo "deb-src [signed-by=$key] http://deb.debian.org/debian bookworm main" >"$work/sources.list"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
apt=(apt-get -q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
  -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache")
"${apt[@]}" update >/dev/null
(cd "$work" && "${apt[@]}" source --download-only redis memcached >/dev/null 2>&1)
for archive in "$work"/*.orig.tar.*; do tar -xf "$archive" -C "$work"; done
redis=$(echo "$work"/redis-[0-9]*)
memcached=$(echo "$work"/memcached-[0-9]*)

# start OPTIONS...
start() {
  if [[ -n "$server" ]]; then
    kill "$server"
    wait "$server" || true
  fi
  "$pulse" kv --port 0 --memory 1G "$@" >"$work/kv.log" 2>&1 &
  server=$!
  for _ in $(seq 100); do
    grep -q 'process [0-9]' "$work/kv.log" && break
    sleep 0.1
  done
  port=$(grep -oE ':[0-9]+ ' "$work/kv.log" | head -n 1 | tr -d ': ')
}
failed=0
# judge FILE PASSED FAILED LEAST
judge() {
  local word=
  if (($2 < $4)); then
    word="  fewer than $4"
    failed=1
  fi
  printf '%-28s %6s passed %6s failed%s\n' "$1" "$2" "$3" "$word"
}

start
# The suite empties functions first, which are not there.
sed -i 's/r function flush/catch {r function flush}/' "$redis/tests/support/server.tcl"
for entry in "${redis_tests[@]}"; do
  log=$work/redis.log
  (cd "$redis" && timeout 300 tclsh tests/test_helper.tcl --host 127.0.0.1 --port "$port" \
    --single "unit/${entry%:*}" --durable --singledb \
    --tags "-needs:repl -needs:debug -large-memory") 2>&1 | sed 's/\x1b\[[0-9;]*m//g' >"$log" || true
  judge "redis ${entry%:*}" "$(grep -c '^\[ok\]' "$log" || true)" \
    "$(grep -c '^\[err\]' "$log" || true)" "${entry#*:}"
done
start --max-value 1M # memcached's own limit
cp "$(command -v memcached)" "$memcached/memcached-debug" # looked for, and not started
for entry in "${memcached_tests[@]}"; do
  log=$work/memcached.log
  redis-cli -p "$port" flushall >/dev/null
  (cd "$memcached" && T_MEMD_USE_DAEMON=127.0.0.1:$port timeout 300 prove -v "t/${entry%:*}.t") \
    >"$log" 2>&1 || true
  judge "memcached ${entry%:*}" "$(grep -a -c '^ok' "$log" || true)" \
    "$(grep -a -c '^not ok' "$log" || true)" "${entry#*:}"
done
exit "$failed"
