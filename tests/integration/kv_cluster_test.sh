#!/usr/bin/env bash
# Cluster mode of `pulse kv` as stock clients see it. usage:
#   kv_cluster_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
export LC_ALL=C.UTF-8 NO_COLOR=1
# The distribution's interpreter, which has the distribution's client library.
python=/usr/bin/python3
"$python" -c 'import redis.cluster' || fail "python3-redis is not installed"

# 1. Bad input.
expect_error cluster-host '--announce-host;;0.0.0.0' \
  "$PULSE" kv --port 0 --cluster --insecure --bind 0.0.0.0
expect_error cluster-socket '--socket' "$PULSE" kv --port 0 --cluster --socket "$SOCKET_DIR/s"
expect_error cluster-name '--announce-host;;expected a host name' \
  "$PULSE" kv --port 0 --announce-host 'a b'
expect_error cluster-ports 'choose a lower port' "$PULSE" kv --port 65535 --threads 2 --cluster

# 2. Clients that follow MOVED.
start_server kv cluster --memory 128M --threads 3 --cluster
await 60 grep -q 'has slots 10923-16383' "$SERVER_LOG" || fail "the nodes are not shown" "$SERVER_LOG"
for word in alpha beta gamma delta; do
  says "set $word" OK redis-cli -c -p "$PORT" set "$word" "$word!"
  says "get $word" "$word!" redis-cli -c -p "$PORT" get "$word"
done
says check 'All 16384 slots covered' redis-cli --cluster check "127.0.0.1:$PORT"
says info '4 keys in 3 masters' redis-cli --cluster info "127.0.0.1:$PORT"
timeout 120 redis-benchmark --cluster -p "$PORT" -t set,get -P 8 -n 20000 -r 10000 --csv \
  >"$SCRATCH/benchmark.csv" 2>&1 || fail "redis-benchmark --cluster" "$SCRATCH/benchmark.csv"
(($(grep -cE '^"(SET|GET)' "$SCRATCH/benchmark.csv") == 2)) ||
  fail "redis-benchmark did not finish" "$SCRATCH/benchmark.csv"

# 3. redis-py's cluster client, memcached's endpoints, and the form of the replies beside
# redis-server's.
reference=()
if command -v redis-server >/dev/null; then
  # For clients, and for the cluster's bus.
  read -r -a free < <(free_ports 2)
  start "$SCRATCH/redis-server.log" redis-server --port "${free[0]}" --bind 127.0.0.1 \
    --cluster-enabled yes --cluster-port "${free[1]}" --save '' --dir "$SCRATCH"
  await 60 redis-cli -p "${free[0]}" ping >/dev/null ||
    fail "redis-server does not start" "$SCRATCH/redis-server.log"
  reference=("${free[0]}")
else
  skip_part "no comparison of CLUSTER's replies: redis-server is not installed"
fi
timeout 120 "$python" "$here/kv_cluster_clients.py" "$PORT" ${reference[@]+"${reference[@]}"} \
  >"$SCRATCH/clients.log" 2>&1 || fail "the Python clients" "$SCRATCH/clients.log"
kill "$SERVER"
ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"

# 4. Another host's name, on every port that follows the first one.
start_server kv announced --memory 128M --threads 2 --cluster --announce-host cache.example
says announced 'cache.example' redis-cli -p "$PORT" cluster slots
