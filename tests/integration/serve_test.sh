#!/usr/bin/env bash
# `pulse serve` as Redis's own programs and Python client see it. usage:
#   serve_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
export LC_ALL=C.UTF-8 NO_COLOR=1

for program in redis-cli redis-benchmark openssl; do
  command -v "$program" >/dev/null || fail "$program is not installed"
done
# The distribution's interpreter, which has the distribution's client library.
python=/usr/bin/python3
"$python" -c 'import redis' || fail "python3-redis is not installed"

db="$SCRATCH/db"
start_server serve plain --db "$db" --offload on
cli=(redis-cli -p "$PORT")

# 1. Bad input.
expect_error serve-no-db '--db is required' "$PULSE" serve
expect_error serve-locked 'in use by another process' "$PULSE" serve --port 0 --db "$db"
expect_error serve-nowhere 'expected a directory' "$PULSE" serve --port 0 --db "$SCRATCH/no/such"
expect_error serve-port 'another program has this port;;--port' \
  "$PULSE" serve --port "$PORT" --db "$SCRATCH/db2"
expect_error serve-open 'other machines;;--insecure' \
  "$PULSE" serve --port 0 --bind 0.0.0.0 --db "$SCRATCH/db2"
expect_error serve-no-address '--bind' "$PULSE" serve --port 0 --bind nonsense. --db "$SCRATCH/db2"
expect_error serve-tls '--tls-cert requires --tls-key' \
  "$PULSE" serve --port 0 --tls-cert "$SCRATCH/none" --db "$SCRATCH/db2"
expect_error serve-cache '--cache' "$PULSE" serve --port 0 --cache plenty --db "$SCRATCH/db2"
expect_error serve-agent-on-pool '--offload on;;layout=pool' \
  "$PULSE" serve --offload on --uri 'pulse://?layout=pool&pool=/x' --db "$SCRATCH/db2"
expect_error serve-two-agents '--host-socket;;--offload on;;one of the two' \
  "$PULSE" serve --offload on --host-socket "$SOCKET_DIR/host.sock" --db "$SCRATCH/db2"
expect_error serve-past-the-agent '--port and --host-socket;;old values' \
  "$PULSE" serve --host-socket "$SOCKET_DIR/host.sock" --port 0 --db "$SCRATCH/db2"
expect_error serve-past-the-agent-by-socket '--socket and --host-socket;;old values' \
  "$PULSE" serve --host-socket "$SOCKET_DIR/host.sock" --socket "$SOCKET_DIR/s.sock" --db "$SCRATCH/db2"
echo 'user x on maybe' >"$SCRATCH/bad.users"
expect_error serve-users 'bad.users, line 1: user x: .*maybe' \
  "$PULSE" serve --port 0 --users "$SCRATCH/bad.users" --db "$SCRATCH/db2"

# 2. Redis's own programs.
says ping PONG "${cli[@]}" ping
says set OK "${cli[@]}" set greeting hello
says get hello "${cli[@]}" -3 get greeting
says scan greeting "${cli[@]}" --scan
says info "tcp_port:$PORT" "${cli[@]}" info server
says docs 'A key' "${cli[@]}" command docs get
for pipeline in 1 16; do
  timeout 120 redis-benchmark -p "$PORT" -t set,get,incr,mset -P "$pipeline" -n 3000 -r 1000 --csv \
    >"$SCRATCH/benchmark.csv" 2>&1 || fail "redis-benchmark" "$SCRATCH/benchmark.csv"
  (($(grep -cE '^"(SET|GET|INCR|MSET)' "$SCRATCH/benchmark.csv") == 4)) ||
    fail "redis-benchmark did not finish" "$SCRATCH/benchmark.csv"
done

# 3. The Python client.
timeout 250 "$python" "$here/serve_clients.py" "$PORT" >"$SCRATCH/clients.log" 2>&1 ||
  fail "the Python client" "$SCRATCH/clients.log"

# 4. Stopped and killed, and back again.
stop_agent "$SERVER" "$SERVER_LOG"
start_server serve again --db "$db" --sync always --offload on
cli=(redis-cli -p "$PORT")
says kept yes "${cli[@]}" get kept
says flushed 1 "${cli[@]}" dbsize
says synced OK "${cli[@]}" set killed never
kill -9 "$SERVER"
await 60 is_gone "$SERVER"
start_server serve killed --db "$db" --offload on
cli=(redis-cli -p "$PORT")
says survived never "${cli[@]}" get killed
stop_agent "$SERVER" "$SERVER_LOG"

# 5. Passwords and users, on a compacting agent.
echo secret >"$SCRATCH/password"
start_server serve password --db "$db" --offload on --requirepass "$SCRATCH/password" --uri pulse:// \
  --socket "$SOCKET_DIR/redis.sock"
cli=(redis-cli -p "$PORT")
says stranger NOAUTH "${cli[@]}" get killed
says wrong WRONGPASS "${cli[@]}" --user default --pass nonsense get killed
says password never "${cli[@]}" --no-auth-warning -a secret get killed
says socket never redis-cli -s "$SOCKET_DIR/redis.sock" --no-auth-warning -a secret get killed
stop_agent "$SERVER" "$SERVER_LOG"
hash=$(printf 'see' | sha256sum | cut -d' ' -f1)
printf 'user reader on #%s ~* +@read\nuser default off\n' "$hash" >"$SCRATCH/users"

# 6. TLS, with certificates on both sides.
(
  cd "$SCRATCH" || exit 1
  openssl req -x509 -newkey rsa:2048 -nodes -days 2 -subj /CN=ca -keyout ca.key -out ca.pem
  for name in server client; do
    openssl req -newkey rsa:2048 -nodes -subj "/CN=$name" -keyout "$name.key" -out "$name.csr"
    openssl x509 -req -in "$name.csr" -CA ca.pem -CAkey ca.key -CAcreateserial -days 2 \
      -out "$name.pem"
  done
) >"$SCRATCH/openssl.log" 2>&1 || fail "openssl" "$SCRATCH/openssl.log"
start_server serve tls --db "$db" --offload on --users "$SCRATCH/users" --tls-cert "$SCRATCH/server.pem" \
  --tls-key "$SCRATCH/server.key" --tls-ca "$SCRATCH/ca.pem"
tls=(redis-cli -p "$PORT" --tls --cacert "$SCRATCH/ca.pem" --no-auth-warning)
mine=(--cert "$SCRATCH/client.pem" --key "$SCRATCH/client.key")
says tls never "${tls[@]}" "${mine[@]}" --user reader --pass see get killed
says read-only NOPERM "${tls[@]}" "${mine[@]}" --user reader --pass see set killed x
says no-certificate rror "${tls[@]}" --user reader --pass see get killed
says plain-text rror redis-cli -p "$PORT" get killed
says whoami reader "${tls[@]}" "${mine[@]}" --user reader --pass see acl whoami
stop_agent "$SERVER" "$SERVER_LOG"

# An idle client is cut off, with an agent in front and without. By default there is none, as nothing
# says that it would have CPUs of its own.
declare -A reason=([on]='an agent in front answers reads, as --offload on'
  [off]='no agent in front, as --offload off'
  [auto]='no agent in front, as the agent has no CPUs of its own')
for offload in on off auto; do
  start_server serve "idle-$offload" --db "$SCRATCH/idle" --offload "$offload" --idle-timeout 1
  await 60 grep -q -e "${reason[$offload]}" "$SERVER_LOG" ||
    fail "--offload $offload: the log does not say so and why" "$SERVER_LOG"
  timeout 60 bash -c "exec 3<>/dev/tcp/127.0.0.1/$PORT && [[ -z \$(cat <&3) ]]" ||
    fail "an idle client is not cut off" "$SERVER_LOG"
  stop_agent "$SERVER" "$SERVER_LOG"
done

# 7. An agent of its own takes what the server takes, and passes on what the server says.
SERVER_LOG="$SCRATCH/serve.apart.log"
start "$SERVER_LOG" "$PULSE" serve --db "$SCRATCH/apart" --host-socket "$SOCKET_DIR/host.sock"
SERVER=$STARTED
await 60 grep -q 'process [0-9]' "$SERVER_LOG" || fail "the server does not start" "$SERVER_LOG"
front=("$PULSE" agent --socket "$SOCKET_DIR/agent.sock" --serve 0
  --serve-host "$SOCKET_DIR/host.sock" --serve-db "$SCRATCH/apart")
expect_error serve-max-value '--serve-max-value 1G;;at most' "${front[@]}" --serve-max-value 1G
start "$SCRATCH/front.log" "${front[@]}"
FRONT=$STARTED
await 60 grep -qE '[(]port [0-9]+[)]' "$SCRATCH/front.log" ||
  fail "the agent does not start" "$SCRATCH/front.log"
PORT=$(grep -oE '[(]port [0-9]+[)]' "$SCRATCH/front.log" | tr -cd 0-9)
timeout 250 "$python" - "$PORT" >"$SCRATCH/large.log" 2>&1 <<'EOF' || fail "large values" "$SCRATCH/large.log" "$SCRATCH/front.log"
import sys
import redis

client = redis.Redis(port=int(sys.argv[1]), socket_timeout=120)
value = b"0123456789abcdef" * 200_000
assert client.set("large", value)
assert client.set("other", value)
# Within a transaction, the server answers.
within = client.pipeline(transaction=True)
within.get("large")
within.mget("large", "other")
assert within.execute() == [value, [value, value]]
assert client.get("large") == value
assert client.mget("large", "none", "other") == [value, None, value]
EOF
stop_agent "$FRONT" "$SCRATCH/front.log"
stop_agent "$SERVER" "$SERVER_LOG"

# 8. A thousand connections, of which many are reset.
ulimit -n 8192 2>/dev/null || ulimit -n "$(ulimit -Hn)"
start_server serve resets --db "$SCRATCH/resets" --offload on
"$python" "$here/serve_resets.py" "$PORT" ${PULSE_TEST_SEED:+"$PULSE_TEST_SEED"} \
  >"$SCRATCH/resets.log" 2>&1 || fail "connections that are reset" "$SCRATCH/resets.log" "$SERVER_LOG"
note "$(tail -n 1 "$SCRATCH/resets.log")"
stop_agent "$SERVER" "$SERVER_LOG"

note "pulse serve answers Redis's clients"
