#!/usr/bin/env bash
# What an agent tells of itself: pulse top, the status, Prometheus, and the dashboard's queries. usage:
#   metrics_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
blocks=$(dirname "$PULSE")/pulse-blocks
blocks_offload=$(dirname "$PULSE")/../lib/pulse-blocks-offload.so
export LC_ALL=C.UTF-8 NO_COLOR=1

socket="$SOCKET_DIR/agent.sock"
command -v python3 >/dev/null || fail "python3 is not installed"

# 1. Bad input.
expect_error top-no-agent "no agent at $socket;;pulse agent --socket" \
  "$PULSE" top --once --socket "$socket"
expect_error top-interval 'interval' "$PULSE" top --interval 0 --socket "$socket"
expect_error metrics-nonsense '--metrics;;expected PORT' \
  "$PULSE" agent --socket "$socket" --metrics nonsense
expect_error metrics-port 'expected PORT' "$PULSE" agent --socket "$socket" --metrics 127.0.0.1:65536
expect_error metrics-anywhere 'without a password;;--metrics-anywhere' \
  "$PULSE" agent --socket "$socket" --metrics 0.0.0.0:0
expect_error metrics-no-address 'no such address' \
  "$PULSE" agent --socket "$socket" --metrics 203.0.113.7:0 --metrics-anywhere

# start_fill NAME URI: a fill that goes on until its database is deleted, or for 600,000 keys.
start_fill() {
  start "$SCRATCH/fill.$1.log" env LD_PRELOAD="$PLUGIN" "$DB_BENCH" --fs_uri="$2" \
    --db="$SCRATCH/db $1" --num=600000 --value_size=1000 --write_buffer_size=2097152 \
    --target_file_size_base=2097152 --level0_file_num_compaction_trigger=2 \
    --compression_type=none --benchmarks=fillrandom,overwrite --seed=1
  FILL=$STARTED
}

expect_error serve-metrics-anywhere 'without a password;;--metrics-anywhere' \
  "$PULSE" serve --port 0 --db "$SCRATCH/served" --metrics 0.0.0.0:0

# url_of LOG: of the metrics that a program serves.
url_of() { grep -o 'http://127.0.0.1:[0-9]*/metrics' "$1"; }

# An agent with a front, and a server with an agent in front: together they have all numbers.
host_socket="$SOCKET_DIR/host.sock"
run_ok create 120 "$PULSE" pool create "$SCRATCH/store" --size 64M --segment 1M
echo error >"$SCRATCH/rules"
start_agent "$socket" --metrics 0 --ops --graph --store "$SCRATCH/store" --offload "$blocks_offload" --serve 0 \
  --serve-host "unix:$host_socket" --ingest 0 --filter "$SCRATCH/rules" --to "unix:$SOCKET_DIR/records.sock"
serve_log="$SCRATCH/serve.log"
start "$serve_log" "$PULSE" serve --port 0 --offload on --db "$SCRATCH/served" --metrics 0
server=$STARTED
await 60 url_of "$serve_log" >/dev/null || fail "the server names no URL" "$serve_log"
url=$(url_of "$AGENT_LOG") || fail "no URL is named" "$AGENT_LOG"
port=${url#http://127.0.0.1:} port=${port%/metrics}
expect_error metrics-in-use 'in use;;another program has this port' \
  "$PULSE" agent --socket "$SOCKET_DIR/other.sock" --metrics "$port"
[[ ! -e "$SOCKET_DIR/other.sock" ]] || fail "an agent that did not start left its socket"
expect_error serve-metrics-in-use 'in use;;another program has this port' \
  "$PULSE" serve --port 0 --db "$SCRATCH/served2" --metrics "$port"

# Clients that connect and say nothing keep nobody from the numbers.
cat >"$SCRATCH/silent.py" <<'EOF'
import socket, sys, urllib.request
url = sys.argv[1]
port = int(url.split(":")[2].split("/")[0])
silent = [socket.create_connection(("127.0.0.1", port), timeout=60) for _ in range(300)]
sys.exit(0 if b"pulse_" in urllib.request.urlopen(url, timeout=60).read() else 1)
EOF
run_ok silent 120 python3 "$SCRATCH/silent.py" "$url"

# A store in memory, with what it counts for datagrams and for agents of their own.
kv_log="$SCRATCH/kv.log"
start "$kv_log" "$PULSE" kv --port 0 --memory 256M --udp-port 0 --agent-socket "$SOCKET_DIR/kv.sock" \
  --metrics 0
kv=$STARTED
await 60 url_of "$kv_log" >/dev/null || fail "the store names no URL" "$kv_log"

# A graph.
graph_log="$SCRATCH/graph.log"
start "$graph_log" "$PULSE" graph serve "$SCRATCH/graph" --bolt 0 --metrics 0
graph=$STARTED
await 60 url_of "$graph_log" >/dev/null || fail "the graph names no URL" "$graph_log"

# What fronts count.
port=$(grep -oE '127.0.0.1:[0-9]+ \(process' "$serve_log" | grep -oE ':[0-9]+' | tr -d :)
run_ok front-redis 120 python3 "$here/front_metrics_check.py" redis "$(url_of "$serve_log")" "$port"
note "$(tail -n 1 "$SCRATCH/front-redis.log")"
host_log="$SCRATCH/host.log"
start "$host_log" "$blocks" serve --agent "$socket" --size 8M --ordered --socket "$host_socket"
host=$STARTED
await 60 grep -q 'serving at ' "$host_log" || fail "the host does not serve" "$host_log"
await 30 grep -q '(port ' "$AGENT_LOG" || fail "the agent does not serve" "$AGENT_LOG"
port=$(sed -n 's/.*(port \([0-9]*\)).*/\1/p' "$AGENT_LOG")
run_ok blocks-fill 60 "$blocks" load --port "$port" --fill
run_ok blocks-load 60 "$blocks" load --port "$port" --reads 0.7 --seconds 1 --json
run_ok front-blocks 120 python3 "$here/front_metrics_check.py" blocks "$url" \
  "$(grep '^{' "$SCRATCH/blocks-load.log")"
note "$(tail -n 1 "$SCRATCH/front-blocks.log")"
stop_agent "$host" "$host_log"

# What operators decided.
head -c 4000000 /dev/urandom >"$SCRATCH/noise"
run_ok ops-compress 60 "$PULSE" compress --agent "$socket" --placement split=50 -k "$SCRATCH/noise"
ops_are_counted() {
  python3 -c 'import sys, urllib.request
text = urllib.request.urlopen(sys.argv[1], timeout=30).read().decode()
sys.exit("pulse_placement_runs_total{placement=\"split\"} 1" not in text)' "$url"
}
await 30 ops_are_counted || fail "the agent does not count what the placement decided"

# The head alone, as probes ask for it.
python3 -c 'import sys, urllib.request
reply = urllib.request.urlopen(urllib.request.Request(sys.argv[1], method="HEAD"), timeout=30)
sys.exit(reply.status != 200 or reply.read() != b"" or "text/plain" not in reply.headers["Content-Type"])' \
  "$url" || fail "HEAD of /metrics is not answered by a head"

# 2. Under load, and after it.
start_fill one "pulse://$socket"
first=$FILL
start_fill two "pulse://$socket"
second=$FILL
run_ok scrape 120 python3 "$here/metrics_check.py" "$url" "$here/../../docs/reference" \
  "$SCRATCH/db one" "$SCRATCH/db two" --also "$(url_of "$serve_log")" "$(url_of "$kv_log")" \
  "$(url_of "$graph_log")"
note "$(tail -n 1 "$SCRATCH/scrape.log")"

# 3. pulse top beside it.
run_ok top-once 60 "$PULSE" top --once --interval 0.5 --socket "$socket"
for text in '1 agent, 2 sessions, 2 databases' 'db one' 'db two' 'merge-encode' 'persist' \
  'front blocks' '0 connections' 'graph merges' 'of 0.0 MB/s, 0 open, 0 failed'; do
  grep -qF "$text" "$SCRATCH/top-once.log" || fail "top does not say $text" "$SCRATCH/top-once.log"
done
grep -q $'\x1b' "$SCRATCH/top-once.log" && fail "top writes colours into a file"
# Whether something was written while top looked, which need not be so each time.
top_sees_writes() {
  run_ok top-json 60 "$PULSE" top --once --json --interval 0.5 --socket "$socket"
  run_ok top-json-read 60 python3 -c '
import json, sys
top = json.load(open(sys.argv[1]))
sessions = top["agents"][0]["sessions"]
assert len(sessions) == 2, sessions
assert all(0 <= s["fetch_share"] <= 1 and 0 <= s["persist_share"] <= 1 for s in sessions), sessions
print("writes" if any(s["written_bytes_per_second"] > 0 for s in sessions) else "none")
' "$SCRATCH/top-json.log"
  grep -q writes "$SCRATCH/top-json-read.log"
}
await 60 top_sees_writes || fail "top sees nobody write" "$SCRATCH/top-json.log"
run_ok top-terminal 120 python3 "$here/top_terminal.py" "$PULSE" "$socket" "$AGENT"
note "$(tail -n 1 "$SCRATCH/top-terminal.log")"

# 4. What ended leaves no series behind.
kill -9 "$first" "$second" 2>/dev/null
await 30 is_gone "$first" && await 30 is_gone "$second" || fail "the hosts cannot be killed"
gone() { python3 "$here/metrics_check.py" "$url" --no-sessions >"$SCRATCH/gone.log" 2>&1; }
await 30 gone || fail "series of sessions that ended are left" "$SCRATCH/gone.log"

# 5. Whole compactions on the agent.
start_fill whole "pulse://$socket?placement=whole"
whole=$FILL
tasks_done() {
  "$PULSE" top --once --json --interval 0.5 --socket "$socket" >"$SCRATCH/tasks.json" 2>&1 &&
    grep -qE '"done": ?[1-9]' "$SCRATCH/tasks.json"
}
await 120 tasks_done || fail "no whole compaction is counted" "$SCRATCH/fill.whole.log"
run_ok top-tasks 60 "$PULSE" top --once --interval 0.5 --socket "$socket"
require_match top-tasks 'compactions .* run, [0-9]+ done, [0-9]+ failed' "$SCRATCH/top-tasks.log"
kill -9 "$whole" 2>/dev/null
await 30 is_gone "$whole" && await 30 gone || fail "the host with whole compactions is not gone"

# 6. An embedded agent, if it is asked to.
start_fill three "pulse://?status=$SOCKET_DIR/embedded.%p.sock"
embedded="$SOCKET_DIR/embedded.$FILL.sock"
await 60 is_listening "$embedded" || fail "status= makes no socket" "$SCRATCH/fill.three.log"
[[ "$(stat -c %a "$embedded")" == 600 ]] || fail "the status socket is not of mode 0600"
# The host says what it has opened some time after that.
top_names_database() {
  "$PULSE" top --once --interval 0.5 --socket "$embedded" 2>/dev/null |
    grep -F 'db three' >/dev/null
}
await 60 top_names_database || fail "top does not name the database" "$SCRATCH/fill.three.log"
run_ok top-embedded 60 "$PULSE" top --once --interval 0.5 --socket "$embedded" --socket "$socket"
require_match top-embedded 'embedded, process;;db three;;no session' "$SCRATCH/top-embedded.log"
expect_error status-in-use 'already listens' env LD_PRELOAD="$PLUGIN" "$DB_CHECK" scan \
  "$SCRATCH/db three" --fs-uri "pulse://?status=$embedded"
expect_error status-is-no-agent 'only tells its status' env LD_PRELOAD="$PLUGIN" "$DB_CHECK" scan \
  "$SCRATCH/db three" --fs-uri "pulse://$embedded"
kill -9 "$FILL" 2>/dev/null
await 30 is_gone "$FILL"

stop_agent "$AGENT" "$AGENT_LOG"
stop_agent "$server" "$serve_log"
stop_agent "$kv" "$kv_log"
stop_agent "$graph" "$graph_log"
note "passed"
