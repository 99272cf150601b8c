#!/usr/bin/env bash
# kv-clients.sh [PULSE]: memcached's client libraries against `pulse kv`: the integration tests of
# pymemcache; and of libmemcached-tools the ASCII part of memccapable, which tests a server, and the
# tools that store, read, touch and delete. All must pass but what is named below, with the reason.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pulse=$(realpath "${1:-build/release/bin/pulse}")
# shellcheck source=scripts/test-server.sh
source scripts/test-server.sh
fetch_tests pymemcache 3.5.2 8923ab59840f0d5338f1c52dba229fa835545b91c3c2f691c118e678d0fb974e
start_server kv --memory 256M --max-value 1M --threads 2 # the value is memcached's own limit

failed=0
# test_tls wants a server with a key that the distribution does not have.
(cd "$work/pymemcache-3.5.2" && "$python" -m pytest pymemcache/test -c /dev/null -p no:cacheprovider \
  -q -W ignore -m integration --server 127.0.0.1 --port "$port" -k 'not test_tls') || failed=1

memccapable -h 127.0.0.1 -p "$port" -a || failed=1

# tool EXPECTED NAME ARGUMENTS...: what a tool says.
tool() {
  local expected=$1 name=$2 said
  said=$("$name" "--servers=127.0.0.1:$port" "${@:3}" 2>&1) || true
  [[ "$said" == *"$expected"* ]] && return
  echo "$me: $name ${*:3}: expected '$expected', got '$said'" >&2
  failed=1
}
echo "of a file" >"$work/copied"
tool '' memccp "$work/copied"
tool 'of a file' memccat copied
tool '' memcexist copied
tool '' memctouch --expire=100 copied
tool 'curr_items' memcstat
tool '' memcping
tool '' memcrm copied
tool '' memccat copied
tool '' memcflush
exit "$failed"
