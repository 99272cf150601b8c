#!/usr/bin/env bash
# kv-suites.sh [PULSE [FILE...]]: the suites of redis-server and memcached, from Debian's source
# packages, against `pulse kv`: Redis's Tcl tests of strings, counters, expiry, keys, SCAN, MULTI,
# protocol and bits, and memcached's t/*.t; or the FILEs alone, as `expire` or `cas`. For each file it
# prints how many tests passed and failed, and fails when fewer pass than are recorded here. Those that
# fail are in docs/evidence/external_suites.md, with the reasons. Needs Debian's source packages, tclsh,
# perl with prove, redis-cli and the program memcached, which memcached's suite looks for.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pulse=$(realpath "${1:-build/release/bin/pulse}")
only=" ${*:2} "
# file:tests that pass, at least
redis_tests=(type/string:69 type/incr:21 expire:57 keyspace:33 scan:5 protocol:15 bitops:43 bitfield:16
  multi:21)
# Of `multi`, those whose state would fail the rest: they need lists, sets, sorting, scripts or streams.
# Those of a maxmemory that is set are left out by their tag.
multi_options=(--tags -needs:config-maxmemory)
for name in 'MULTI / EXEC basics' DISCARD 'MULTI where commands alter argc/argv' '/SORT with STORE' \
  '/script timeout' '/^Blocking commands'; do
  multi_options+=(--skiptest "$name")
done
memcached_tests=(incrdecr:24 noreply:10 flags:9 getset:37992 cas:44 getandtouch:16 touch:5
  multiversioning:14 issue_14:22 issue_41:692 issue_70:5 issue_108:5 issue_152:3 chunked-items:16630
  evictions:93 expirations:36 flush-all:24 64bit:1 issue_22:82 issue_29:2 issue_42:10 issue_61:6
  issue_163:6 issue_183:4 bogus-commands:0 metaget:149)
for name in "${@:2}"; do
  [[ " ${redis_tests[*]%:*} ${memcached_tests[*]%:*} " == *" $name "* ]] || {
    echo "kv-suites.sh: no file $name; there are ${redis_tests[*]%:*} ${memcached_tests[*]%:*}" >&2
    exit 2
  }
done
# shellcheck source=scripts/test-server.sh
source scripts/test-server.sh

for program in tclsh prove redis-cli memcached; do
  command -v "$program" >/dev/null ||
    die "$program is not there: apt-get install tcl perl redis-tools memcached"
done
fetch_source redis memcached
redis=$(echo "$work"/redis-[0-9]*)
memcached=$(echo "$work"/memcached-[0-9]*)

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
wanted() { [[ "$only" == "  " || "$only" == *" $1 "* ]]; }

start_server kv --memory 1G
# The suite empties functions first, which are not there.
sed -i 's/r function flush/catch {r function flush}/' "$redis/tests/support/server.tcl"
for entry in "${redis_tests[@]}"; do
  wanted "${entry%:*}" || continue
  log=$work/redis.log
  options=()
  [[ "${entry%:*}" != multi ]] || options=("${multi_options[@]}")
  (cd "$redis" && timeout 300 tclsh tests/test_helper.tcl --host 127.0.0.1 --port "$port" \
    --single "unit/${entry%:*}" --durable --singledb \
    --tags "-needs:repl -needs:debug -large-memory" "${options[@]}") 2>&1 | sed 's/\x1b\[[0-9;]*m//g' >"$log" || true
  judge "redis ${entry%:*}" "$(grep -c '^\[ok\]' "$log" || true)" \
    "$(grep -c '^\[err\]' "$log" || true)" "${entry#*:}"
done
start_server kv --memory 1G --max-value 1M                # memcached's own limit
cp "$(command -v memcached)" "$memcached/memcached-debug" # looked for, and not started
# It begins with a line that neither protocol has, which would be answered in Redis's.
# shellcheck disable=SC2016
sed -i 's/^my \$sock = \$server->sock;$/&\nprint $sock "version\\r\\n"; scalar <$sock>;/' "$memcached/t/metaget.t"
for entry in "${memcached_tests[@]}"; do
  wanted "${entry%:*}" || continue
  log=$work/memcached.log
  redis-cli -p "$port" flushall >/dev/null
  (cd "$memcached" && T_MEMD_USE_DAEMON=127.0.0.1:$port timeout 300 prove -v "t/${entry%:*}.t") \
    >"$log" 2>&1 || true
  judge "memcached ${entry%:*}" "$(grep -a -c '^ok' "$log" || true)" \
    "$(grep -a -c '^not ok' "$log" || true)" "${entry#*:}"
done
exit "$failed"
