#!/usr/bin/env bash
# `pulse kv` as Redis's own programs see it. usage: kv_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
export LC_ALL=C.UTF-8 NO_COLOR=1

# memcached EXPECTED LINE...: what a client of memcached's protocol is told.
memcached() {
  local expected=$1 said
  shift
  exec 3<>"/dev/tcp/127.0.0.1/$PORT" || fail "no connection" "$SERVER_LOG"
  printf '%s\r\n' "$@" quit >&3
  said=$(timeout 60 cat <&3)
  exec 3>&-
  [[ "$said" == *"$expected"* ]] || fail "memcached: expected '$expected', got '$said'" "$SERVER_LOG"
  note "memcached: ${said:0:120}"
}

cpus=$(taskset -pc $$ | sed 's/.*: //')
start_server kv plain --memory 96M --threads 2 --cpus "$cpus" --agent-cpus "$cpus"
cli=(redis-cli -p "$PORT")

# 1. Bad input.
expect_error kv-memory '--memory;;at least' "$PULSE" kv --port 0 --memory 20M
expect_error kv-value '--memory 256M;;--max-value of 200M' \
  "$PULSE" kv --port 0 --memory 256M --max-value 200M
expect_error kv-threads '--memory;;at least' "$PULSE" kv --port 0 --memory 64M --threads 8
expect_error kv-size '--memory' "$PULSE" kv --port 0 --memory plenty
expect_error kv-policy '--policy;;volatile-lru;;allkeys-lfu' "$PULSE" kv --port 0 --policy volatile-lru
expect_error kv-design '--design;;--agent-cpus' "$PULSE" kv --port 0 --design shrd
expect_error kv-one-loop '--design;;--threads 2' "$PULSE" kv --port 0 --agent-cpus 0 --design dual
expect_error kv-no-design '--design;;cpu, dpu, lat, sav, dual' "$PULSE" kv --port 0 --design fast
expect_error kv-no-agent '--design;;--agent-cpus' "$PULSE" kv --port 0 --design lat
expect_error kv-card '--design;;bf3;;--hypothetical' \
  "$PULSE" kv --port 0 --threads 2 --agent-cpus 0 --profile bf3 --design shrd
expect_error kv-no-card '--profile;;bf2, bf3' "$PULSE" kv --port 0 --profile bf9
expect_error kv-agent-memory 'MiB of the agent;;--agent-memory' \
  "$PULSE" kv --port 0 --agent-cpus 0 --agent-memory 64M --design dpu
expect_error kv-port 'another program has this port;;--port' "$PULSE" kv --port "$PORT"
expect_error kv-open 'other machines;;--insecure' "$PULSE" kv --port 0 --bind 0.0.0.0

start "$SCRATCH/large.log" "$PULSE" kv --port 0 --memory 1000G
await 60 grep -q -- '--memory 1000G: the machine' "$SCRATCH/large.log" ||
  fail "nobody says that the machine has less memory" "$SCRATCH/large.log"
kill "$STARTED"

# 2. Both protocols, the same keys.
says set OK "${cli[@]}" set greeting hello
says get hello "${cli[@]}" get greeting
memcached 'VALUE greeting 0 5' 'get greeting'
memcached 'STORED' 'set other 0 0 2' 'hi'
says other hi "${cli[@]}" get other
says unknown 'ERR unknown command' "${cli[@]}" lpush list a

# 3. A full store refuses, loses nothing, and evicts once it may.
redis-benchmark -p "$PORT" -t set -n 60000 -r 1000000 -d 2000 -P 32 -q >/dev/null 2>&1
# That ends at the first refusal: one partition is full, another may have room for some more.
large=$(head -c 100000 /dev/zero | tr '\0' x)
more=0
while ((more < 1000)) && [[ $("${cli[@]}" set "more$more" "$large") == OK ]]; do more=$((more + 1)); done
says full 'OOM command not allowed' "${cli[@]}" set "more$more" "$large"
says kept hello "${cli[@]}" get greeting
says policy OK "${cli[@]}" config set maxmemory-policy allkeys-lru
says evicts OK "${cli[@]}" set "more$more" "$large"
says info 'maxmemory_policy:allkeys-lru' "${cli[@]}" info memory

# 4. Designs, while clients are at work.
start "$SCRATCH/load.log" redis-benchmark -p "$PORT" -t set,get -n 100000 -r 1000 -P 8 -q
load=$STARTED
for design in lat sav dpu cpu dual adaptive shrd lat; do
  says "design $design" OK "${cli[@]}" config set design "$design"
  says "design $design" "$design" "${cli[@]}" config get design
done
says refused 'is none' "${cli[@]}" config set design fast
ends_well "$load" || fail "the load fails" "$SCRATCH/load.log"
kill "$SERVER"
ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"

# 5. CLIENT, ACL LOG, MEMORY and others, beside redis-server's.
if command -v redis-server >/dev/null; then
  reference=$(free_ports 1)
  start "$SCRATCH/redis-server.log" redis-server --port "$reference" --bind 127.0.0.1 --save '' \
    --dir "$SCRATCH"
  await 60 redis-cli -p "$reference" ping >/dev/null ||
    fail "redis-server does not start" "$SCRATCH/redis-server.log"
  start_server kv beside --memory 96M --threads 2 --cpus "$cpus" --agent-cpus "$cpus"
  for design in cpu lat; do
    says "design $design" OK redis-cli -p "$PORT" config set design "$design"
    run_ok "beside-$design" 120 /usr/bin/python3 "$here/kv_client_commands.py" "$PORT" "$reference"
  done
  kill "$SERVER"
  ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"
else
  skip_part "no comparison of CLIENT's replies: redis-server is not installed"
fi

# 6. One that starts with a thread of the host, and ends.
start_server kv lat --memory 64M --cpus "$cpus" --agent-cpus "$cpus" --design lat --profile bf3 \
  --hypothetical
says lat OK redis-cli -p "$PORT" set a 1
# pulse top beside it, while clients are at work: where its CPU time goes.
start "$SCRATCH/top-load.log" redis-benchmark -p "$PORT" -t set,get -n 100000000 -r 1000 -P 16 -q
load=$STARTED
top_sees_profile() {
  run_ok top-json 60 "$PULSE" top --once --json --interval 0.5 --kv "127.0.0.1:$PORT"
  run_ok top-json-read 60 python3 -c '
import json, sys
server = json.load(open(sys.argv[1]))["kv"][0]
assert server["design"] == server["design_now"] == "lat" and server["clients"] > 1, server
cpu = server["cpu"]
measured = all(cpu[side][part]["share"] > 0 for side, part in
               (("host", "store"), ("agent", "receive"), ("agent", "parse"), ("agent", "respond")))
print("profile" if measured and server["requests_per_second"] > 0 else "none")
' "$SCRATCH/top-json.log"
  grep -q profile "$SCRATCH/top-json-read.log"
}
await 60 top_sees_profile || fail "top sees no profile" "$SCRATCH/top-json.log"
run_ok top-once 60 "$PULSE" top --once --interval 0.5 --kv "127.0.0.1:$PORT"
for text in '1 server' 'lat' 'of 32.0 MiB' 'CPU, host' 'CPU, agent' 'us a request'; do
  grep -qF "$text" "$SCRATCH/top-once.log" || fail "top does not say $text" "$SCRATCH/top-once.log"
done
kill "$load"
says refused '--threads 2' redis-cli -p "$PORT" config set design dual
kill "$SERVER"
ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"
grep -q stopping "$SERVER_LOG" || fail "the server says nothing of its end" "$SERVER_LOG"

# 7. A password keeps memcached's clients, who cannot give one, out.
echo secret >"$SCRATCH/password"
start_server kv password --memory 64M --requirepass "$SCRATCH/password"
memcached 'NOAUTH' 'get greeting'
says password OK redis-cli -p "$PORT" -a secret --no-auth-warning set a 1
expect_error top-password 'REDISCLI_AUTH' "$PULSE" top --once --kv "127.0.0.1:$PORT"
REDISCLI_AUTH=wrong expect_error top-wrong 'WRONGPASS' "$PULSE" top --once --kv "127.0.0.1:$PORT"
REDISCLI_AUTH=secret run_ok top-auth 60 "$PULSE" top --once --interval 0.2 --kv "127.0.0.1:$PORT"
kill "$SERVER"
ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"
expect_error top-nobody 'no server at 127.0.0.1:9;;pulse kv' "$PULSE" top --once --kv 127.0.0.1:9
expect_error top-nonsense 'nonsense' "$PULSE" top --once --kv nonsense

# 8. A crowd of clients that are idle, slow or half through.
ulimit -n 16384 2>/dev/null || ulimit -n "$(ulimit -Hn)"
# The halves' bytes and one longest value are less than what connections may take of 1G; of 256M not
# always, since chance decides how many of the halves one thread gets.
start_server kv crowd --memory 1G --max-value 1M --threads 2 --cpus "$cpus" --agent-cpus "$cpus"
timeout 250 /usr/bin/python3 "$here/kv_crowd.py" "$PORT" $((1 << 20)) $((256 << 20)) \
  >"$SCRATCH/crowd.log" 2>&1 || fail "a crowd of clients" "$SCRATCH/crowd.log"
note "$(tail -n 1 "$SCRATCH/crowd.log")"
kill "$SERVER"
await 60 is_gone "$SERVER" || fail "the server does not end with a crowd of clients" "$SERVER_LOG"

# 9. Programs that share memory with it have the same keys; it knows no passwords.
shm="$SOCKET_DIR/kv.shm"
example=("$(dirname "$PULSE")/kv_client_example" "$shm")
expect_error shm-nobody 'pulse kv --shm' "${example[@]}"
expect_error shm-memory '--memory;;--shm' "$PULSE" kv --port 0 --memory 64M --shm "$shm" --shm-value 32M
expect_error shm-value '--shm-value' "$PULSE" kv --port 0 --shm "$shm" --shm-value 64M
expect_error shm-cluster '--shm and --cluster' "$PULSE" kv --port 0 --shm "$shm" --cluster
expect_error shm-clients '--shm-clients' "$PULSE" kv --port 0 --shm "$shm" --shm-clients 0
start_server kv shm --memory 96M --shm "$shm" --shm-clients 1 --requirepass "$SCRATCH/password"
says shm 'city = Lisbon' "${example[@]}"
says shared Lisbon redis-cli -p "$PORT" -a secret --no-auth-warning get city
says numbers 1001 redis-cli -p "$PORT" -a secret --no-auth-warning dbsize
says info 'shared_memory_requests:1003' redis-cli -p "$PORT" -a secret --no-auth-warning info kv
expect_error shm-twice 'another server listens' "$PULSE" kv --port 0 --shm "$shm"
# One that is killed leaves its place to the next one.
for ((i = 0; i < 10; i++)); do
  start "$SCRATCH/example.log" bash -c 'while "$@"; do :; done' loop "${example[@]}"
  loop=$STARTED
  await 60 grep -q Lisbon "$SCRATCH/example.log" || fail "no client is served" "$SCRATCH/example.log"
  kill -9 "$loop"
  await 60 "${example[@]}" >/dev/null 2>&1 || fail "the next client is not served" "$SERVER_LOG"
done
# The server's end is an error to its client, and the socket goes with it.
start "$SCRATCH/example.log" bash -c 'while "$@"; do :; done' loop "${example[@]}"
loop=$STARTED
await 60 grep -q Lisbon "$SCRATCH/example.log" || fail "no client is served" "$SCRATCH/example.log"
kill "$SERVER"
ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"
await 60 is_gone "$loop" || fail "a client hangs" "$SCRATCH/example.log"
[[ ! -e "$shm" ]] || fail "the socket's file is still there"
# A limit of file sizes is an error to the client whose memory it concerns, and no end of the server.
library="$(dirname "$PULSE")/../lib/libpulse-kv-client.so"
if [[ -e "$library" ]]; then
  start "$SCRATCH/limited.log" bash -c 'ulimit -f 4096 && exec "$@"' limited \
    "$PULSE" kv --port 0 --memory 96M --max-value 6M --shm "$shm"
  SERVER=$STARTED
  await 60 grep -q 'process [0-9]' "$SCRATCH/limited.log" || fail "no server" "$SCRATCH/limited.log"
  PORT=$(grep -oE ':[0-9]+ ' "$SCRATCH/limited.log" | head -n 1 | tr -d ': ')
  head -c 5000000 /dev/zero >"$SCRATCH/large"
  redis-cli -p "$PORT" -x set large <"$SCRATCH/large" >/dev/null || fail "no large value" "$SCRATCH/limited.log"
  says limited '4 0' /usr/bin/python3 "$here/kv_large_get.py" "$library" "$shm" large small
  says alive PONG redis-cli -p "$PORT" ping
  kill "$SERVER"
  ends_well "$SERVER" || fail "the server does not end well" "$SCRATCH/limited.log"
else
  skip_part "no client library was built: no limit of file sizes"
fi

# 10. A memory file: what clients were told of is there, after a kill and after an end.
expect_error kv-file-disk 'tmpfs' "$PULSE" kv --port 0 --memory-file "$SCRATCH/memory"
file=/dev/shm/pulse-kv-test-$$
if ! : 2>/dev/null >"$file" || [[ "$(stat -f -c %T "$file")" != tmpfs ]]; then
  rm -f "$file"
  skip_part "/dev/shm is no tmpfs that may be written to: no memory file"
  exit 0
fi
rm -f "$file"
trap 'rc=$?; rm -f "$file"; (exit "$rc"); clean_up' EXIT
kept=(--memory 80M --threads 2 --memory-file "$file" --cpus "$cpus")
start_server kv kept "${kept[@]}"
for round in 1 2 3; do
  # Each reply is written down; the server is killed among them.
  start "$SCRATCH/told-$round" /usr/bin/python3 "$here/kv_told.py" "$PORT" "$round"
  told=$STARTED
  await 60 grep -q '^2000$' "$SCRATCH/told-$round"
  kill -9 "$SERVER"
  wait "$SERVER" || true
  ends_well "$told" || fail "the client fails" "$SCRATCH/told-$round"
  start_server kv "kept-$round" "${kept[@]}"
  grep -q "goes on with" "$SERVER_LOG" || fail "the server does not say that it goes on" "$SERVER_LOG"
  last=$(tail -n 1 "$SCRATCH/told-$round")
  /usr/bin/python3 "$here/kv_told.py" "$PORT" "$round" "$last" || fail "keys are lost" "$SERVER_LOG"
  note "killed after $last replies: all are there"
done
expect_error kv-file-taken 'another server' "$PULSE" kv --port 0 --memory 80M --threads 2 --memory-file "$file"
kill "$SERVER"
ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"
expect_error kv-file-sizes '--threads;;remove it' "$PULSE" kv --port 0 --memory 80M --threads 1 --memory-file "$file"
start_server kv again "${kept[@]}"
/usr/bin/python3 "$here/kv_told.py" "$PORT" 3 "$last" || fail "keys are lost" "$SERVER_LOG"
kill "$SERVER"
ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"
