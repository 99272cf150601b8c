#!/usr/bin/env bash
# `pulse kv --udp-port` and its clients, by processes. usage:
#   kv_udp_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH KV_UDP_EXAMPLE KV_UDP_CLIENT_TEST

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 EXAMPLE=$6 CLIENT_TEST=$7
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
export LC_ALL=C.UTF-8
python=/usr/bin/python3

start_udp() {
  start_server kv "$1" --memory 192M --udp-port 0 "${@:2}"
  await 60 grep -q 'datagrams on' "$SERVER_LOG" || fail "no datagrams" "$SERVER_LOG"
  UDP_PORT=$(grep -oE 'datagrams on [^ ]*' "$SERVER_LOG" | grep -oE ':[0-9]+' | tr -d ':')
}
stop_kv() {
  kill "$SERVER"
  ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"
}
# A number of INFO's.
number() { redis-cli -p "$PORT" info kv | tr -d '\r' | sed -n "s/^$1://p"; }

# 1. Bad input: what datagrams cannot carry is refused by name.
echo secret >"$SCRATCH/password"
echo 'user default on nopass +@all' >"$SCRATCH/users"
kv=("$PULSE" kv --port 0 --udp-port 0)
expect_error udp-password '--udp-port;;--requirepass' "${kv[@]}" --requirepass "$SCRATCH/password"
expect_error udp-users '--udp-port;;--users' "${kv[@]}" --users "$SCRATCH/users"
expect_error udp-tls-ca '--udp-port;;--tls-ca' "${kv[@]}" --tls-cert a --tls-key b --tls-ca c
expect_error udp-cluster '--udp-port;;--cluster' "${kv[@]}" --cluster
expect_error udp-open '--udp-port;;--insecure' "${kv[@]}" --bind 0.0.0.0
expect_error udp-open-tls '--udp-port;;no TLS;;--insecure' \
  "${kv[@]}" --bind 0.0.0.0 --tls-cert a --tls-key b
expect_error udp-range '--udp-port;;65535' "$PULSE" kv --port 0 --udp-port 65536
expect_error udp-ports 'it is no port' "$PULSE" kv --port 0 --udp-port 65535 --threads 2
expect_error udp-threads '--udp-threads' "${kv[@]}" --udp-threads 0
expect_error udp-clients '--udp-clients' "${kv[@]}" --udp-clients 0
expect_error udp-memory '--memory;;--udp-port' "${kv[@]}" --memory 48M
expect_error example-nobody 'no answer from' timeout 60 "$EXAMPLE" 127.0.0.1:1

# 2. The same keys as those of the other protocols; in each design.
cpus=$(taskset -pc $$ | sed 's/.*: //')
start_udp plain --threads 2 --cpus "$cpus" --agent-cpus "$cpus" --metrics 0
expect_error udp-taken 'another program has this port' \
  "$PULSE" kv --port 0 --udp-port "$UDP_PORT" --threads 1
for design in cpu lat sav dpu dual shrd adaptive; do
  says "design $design" OK redis-cli -p "$PORT" config set design "$design"
  says "example with $design" 'read 100000 numbers, whose sum is 4999950000' \
    "$EXAMPLE" "127.0.0.1:$UDP_PORT"
done
says partitions 'partition 1 is at' "$EXAMPLE" "127.0.0.1:$UDP_PORT"
says 'redis reads' 99999 redis-cli -p "$PORT" get number:99999
(($(number udp_requests) >= 1600000)) || fail "INFO: $(number udp_requests) requests" "$SERVER_LOG"
url=$(grep -o 'http://127.0.0.1:[0-9]*/metrics' "$SERVER_LOG")
says metrics 'pulse_udp_requests_total 1' "$python" -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=60).read().decode())' "$url"
(($(number udp_clients) > 0)) || fail "INFO has no clients" "$SERVER_LOG"

# 3. A network that loses, doubles and reorders; other clients are at work, and somebody floods the port.
cat >"$SCRATCH/flood.py" <<'PY'
import os, socket, sys
s = socket.socket(socket.AF_INET, socket.SOCK_DGRAM)
s.connect(("127.0.0.1", int(sys.argv[1])))
magic = b"PVKU\x01"
while True:
    for head in (b"", magic + b"\x01", magic + b"\x04", magic + b"\x05"):
        try:
            s.send(head + os.urandom(200))
        except ConnectionRefusedError:
            sys.exit(0)
PY
start "$SCRATCH/flood.log" "$python" "$SCRATCH/flood.py" "$UDP_PORT"
flood=$STARTED
says 'redis-benchmark beside a flood' 'requests per second' \
  redis-benchmark -p "$PORT" -t get -n 20000 -c 10 -q
PULSE_TEST_UDP_PORT=$UDP_PORT timeout 240 "$CLIENT_TEST" --gtest_filter='*BadNetwork*:*Pipelines*' \
  >"$SCRATCH/client_test.log" 2>&1 || fail "the client's tests" "$SCRATCH/client_test.log"
grep -E 'seed|PASSED' "$SCRATCH/client_test.log"
(($(number udp_repeated_datagrams) > 0)) || fail "nothing was repeated" "$SERVER_LOG"
(($(number udp_ignored_datagrams) > 0)) || fail "nothing was ignored" "$SERVER_LOG"
(($(number udp_refused_datagrams) > 0)) || fail "nothing was refused" "$SERVER_LOG"
kill "$flood"
wait "$flood" 2>/dev/null
stop_kv

# 4. Found in etcd, and no more once the server has died.
prepare_etcd
url=$ETCD_URL
start_etcd etcd
start_udp found --threads 3 --etcd "$url" --etcd-ttl 2s
await 60 "$EXAMPLE" "$url" >"$SCRATCH/example.log" 2>&1 ||
  fail "the example does not find the server" "$SCRATCH/example.log"
grep -q "partition 2 is at 127.0.0.1:" "$SCRATCH/example.log" || fail "partitions" "$SCRATCH/example.log"
first=$SERVER
start_udp second --etcd "$url" --etcd-ttl 2s
second=$SERVER
await 60 sh -c "'$EXAMPLE' '$url' 2>&1 | grep -q 'are different servers'" ||
  fail "two servers below one prefix are not noticed" "$SERVER_LOG"
kill "$second"
ends_well "$second" || fail "the server does not end well" "$SERVER_LOG"
await 60 "$EXAMPLE" "$url" >"$SCRATCH/example.log" 2>&1 ||
  fail "the example does not find the first server" "$SCRATCH/example.log"
kill -9 "$first"
wait "$first" 2>/dev/null
await 60 sh -c "'$EXAMPLE' '$url' 2>&1 | grep -q 'knows no server'" ||
  fail "etcd still knows the dead server" "$SCRATCH/etcd.log"
