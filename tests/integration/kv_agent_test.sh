#!/usr/bin/env bash
# `pulse kv` behind an agent of its own, as Redis's own programs see the pair. usage:
#   kv_agent_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
export LC_ALL=C.UTF-8 NO_COLOR=1

lanes="$SOCKET_DIR/kv.sock"
agent="$SOCKET_DIR/agent.sock"
memory="/dev/shm/pulse-kv-agent-test.$$"
trap 'rc=$?; rm -f "$memory"; (exit "$rc"); clean_up' EXIT

# front [ARGUMENTS...]: an agent before the store; PORT is its port.
front() {
  start_agent "$agent" --serve 0 --serve-kv "$lanes" "$@"
  await 30 grep -q '(port [0-9]' "$AGENT_LOG" || fail "the agent does not say its port" "$AGENT_LOG"
  PORT=$(grep -oE '\(port [0-9]+' "$AGENT_LOG" | grep -oE '[0-9]+')
  cli=(redis-cli -p "$PORT")
}

is_served() { [[ $("${cli[@]}" ping 2>&1) == PONG ]]; }
is_away() { [[ $("${cli[@]}" get kept 2>&1) == LOADING* ]]; }

# 1. Bad input.
expect_error agent-no-serve '--serve-kv requires --serve' "$PULSE" agent --socket "$agent" --serve-kv "$lanes"
expect_error agent-host '--serve-host is not for' \
  "$PULSE" agent --socket "$agent" --serve-kv "$lanes" --serve 0 --serve-host 127.0.0.1:1
expect_error agent-match '--match does not go' \
  "$PULSE" agent --socket "$agent" --serve-kv "$lanes" --serve 0 --match 'client=*'
expect_error agent-two '--serve-kv;;two services' \
  "$PULSE" agent --socket "$agent" --serve-kv "$lanes" --serve 0 --serve-db "$SCRATCH/db" \
  --serve-host 127.0.0.1:1
expect_error agent-open '--serve-anywhere' \
  "$PULSE" agent --socket "$agent" --serve-kv "$lanes" --serve 0.0.0.0:0
expect_error agent-tls '--serve-kv-tls-cert requires --serve-kv-tls-key' \
  "$PULSE" agent --socket "$agent" --serve-kv "$lanes" --serve 0 --serve-kv-tls-cert "$SCRATCH/none"
expect_error agent-value '--serve-kv-max-value' \
  "$PULSE" agent --socket "$agent" --serve-kv "$lanes" --serve 0 --serve-kv-max-value plenty
expect_error kv-cluster '--agent-socket and --cluster' \
  "$PULSE" kv --port 0 --agent-socket "$lanes" --cluster
expect_error kv-memory '--memory;;loops of agents' \
  "$PULSE" kv --port 0 --agent-socket "$lanes" --memory 60M
expect_error kv-threads '--agent-threads 0' \
  "$PULSE" kv --port 0 --agent-socket "$lanes" --agent-threads 0
touch "$SCRATCH/no-socket"
expect_error kv-socket '--agent-socket;;no socket' \
  "$PULSE" kv --port 0 --agent-socket "$SCRATCH/no-socket"

# 2. Both protocols, at an agent that was there first.
front
says away LOADING "${cli[@]}" get greeting
kv=(kv pair --memory 128M --memory-file "$memory" --agent-socket "$lanes" --metrics 0)
port=$PORT
start_server "${kv[@]}"
own=(redis-cli -p "$PORT")
PORT=$port
await 30 is_served || fail "the agent does not attach" "$AGENT_LOG"
says set OK "${cli[@]}" set greeting hello
says get hello "${own[@]}" get greeting
! grep -q 'keys are lost' "$SERVER_LOG" || fail "a store with a file warns of its loss" "$SERVER_LOG"
says exec OK "${cli[@]}" <<<$'multi\nset a 1\nexec'
exec 3<>"/dev/tcp/127.0.0.1/$PORT" || fail "no connection" "$AGENT_LOG"
printf 'get greeting\r\nquit\r\n' >&3
said=$(timeout 60 cat <&3)
exec 3>&-
[[ "$said" == 'VALUE greeting 0 5'* ]] || fail "memcached: $said" "$AGENT_LOG"
for pipeline in 1 32; do
  timeout 120 redis-benchmark -p "$PORT" -t set,get,incr,mset -P "$pipeline" -n 20000 -r 1000 --csv \
    >"$SCRATCH/benchmark.csv" 2>&1 || fail "redis-benchmark" "$SCRATCH/benchmark.csv"
  (($(grep -cE '^"(SET|GET|INCR|MSET)' "$SCRATCH/benchmark.csv") == 4)) ||
    fail "redis-benchmark did not finish" "$SCRATCH/benchmark.csv"
done
"$PULSE" top --once --json --socket "$agent" >"$SCRATCH/top.json" 2>&1 || fail "pulse top" "$SCRATCH/top.json"
grep -q '"service": *"kv"' "$SCRATCH/top.json" || fail "the status knows no front" "$SCRATCH/top.json"
"$PULSE" top --once --socket "$agent" >"$SCRATCH/top.txt" 2>&1 || fail "pulse top" "$SCRATCH/top.txt"
grep -q 'CPU, front' "$SCRATCH/top.txt" || fail "no CPU time of the front by component" "$SCRATCH/top.txt"
"${own[@]}" info kv >"$SCRATCH/info.txt"
grep -qE '^agent_loops:1.$' "$SCRATCH/info.txt" && grep -qE '^agent_clients:[0-9]+.$' "$SCRATCH/info.txt" &&
  grep -qE '^agent_requests:[0-9]{5}' "$SCRATCH/info.txt" || fail "INFO's numbers of agents" "$SCRATCH/info.txt"
url=$(grep -o 'http://127.0.0.1:[0-9]*/metrics' "$SERVER_LOG")
python3 -c 'import sys, urllib.request
print(urllib.request.urlopen(sys.argv[1], timeout=30).read().decode())' "$url" >"$SCRATCH/metrics.txt" ||
  fail "no metrics" "$SERVER_LOG"
grep -qE '^pulse_kv_agent_loops 1$' "$SCRATCH/metrics.txt" &&
  grep -qE '^pulse_kv_agent_requests_total [0-9]{5}' "$SCRATCH/metrics.txt" ||
  fail "the metrics' numbers of agents" "$SCRATCH/metrics.txt"

# 3. The store is killed: clients get errors until it is back, with what it had acknowledged.
says kept OK "${cli[@]}" set kept value
kill -9 "$SERVER"
wait "$SERVER" 2>/dev/null
await 30 is_away || fail "no error" "$AGENT_LOG"
start_server "${kv[@]}"
PORT=$port
await 30 is_served || fail "the agent does not attach again" "$AGENT_LOG"
says kept value "${cli[@]}" get kept
says greeting hello "${cli[@]}" get greeting

# 4. The agent is killed: the store goes on, and another agent comes.
kill -9 "$AGENT"
wait "$AGENT" 2>/dev/null
front
says again value "${cli[@]}" get kept
stop_agent "$AGENT" "$AGENT_LOG"
kill "$SERVER"
ends_well "$SERVER" || fail "the store does not end well" "$SERVER_LOG"

# 5. TLS is the agent's, the password the store's.
(
  cd "$SCRATCH" || exit 1
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=server -keyout server.key -out server.pem
) >"$SCRATCH/openssl.log" 2>&1 || fail "openssl" "$SCRATCH/openssl.log"
echo secret >"$SCRATCH/password"
start_server kv password --memory 96M --requirepass "$SCRATCH/password" --agent-socket "$lanes"
await 30 grep -q 'without --memory-file all keys are lost' "$SERVER_LOG" ||
  fail "a store behind an agent does not say what a kill loses" "$SERVER_LOG"
front --serve-kv-tls-cert "$SCRATCH/server.pem" --serve-kv-tls-key "$SCRATCH/server.key" --serve-kv-loops 2
tls=(redis-cli -p "$PORT" --tls --cacert "$SCRATCH/server.pem" --no-auth-warning)
says stranger NOAUTH "${tls[@]}" get k
says tls OK "${tls[@]}" -a secret set k v
says plain rror "${cli[@]}" -a secret get k
stop_agent "$AGENT" "$AGENT_LOG"
