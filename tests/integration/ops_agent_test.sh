#!/usr/bin/env bash
# `pulse compress`, `decompress` and `filter` with --agent: an agent process shares the work, and may
# be killed at any moment; its counters; what is refused. usage:
#   ops_agent_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
docs=$(realpath "$here/../../docs")
cd "$SCRATCH" || fail "no scratch directory"

python3 - <<'PY' || fail "cannot make data"
import random
random.seed(11)
words = ["w%x" % random.getrandbits(20) for _ in range(3000)]
with open("data", "w") as f:
    for _ in range(160000):
        f.write(" ".join(random.choices(words, k=8)) + random.choice([" timeout\n", "\n", "\n"]))
PY
grep timeout data > expected
same() { cmp -s "$1" "$2" || fail "$3"; }

socket="$SOCKET_DIR/agent.sock"
start_agent "$socket" --ops --ops-threads 2 --metrics 0
url=$(grep -o 'http://127.0.0.1:[0-9]*/metrics' "$AGENT_LOG") || fail "no URL is named" "$AGENT_LOG"
grep -q 'operators on 2 threads' "$AGENT_LOG" || fail "the agent does not say what it offers" "$AGENT_LOG"

for placement in agent auto split=50 paper; do
  run_ok "compress-$placement" 60 "$PULSE" compress --agent "$socket" --placement "$placement" -k -f -v data
  gzip -dc data.gz | cmp -s - data || fail "gzip reads something else"
  run_ok "decompress-$placement" 60 "$PULSE" decompress --agent "$socket" --placement "$placement" -f -o back data.gz
  same back data "$placement: other data come back"
  run_ok "filter-$placement" 60 "$PULSE" filter --agent "$socket" --placement "$placement" -e timeout --force -o out data.gz
  same out expected "$placement: other lines are selected"
done
grep -q '@agent (agent, 3 lanes): [1-9]' compress-agent.log || fail "the agent did nothing" compress-agent.log
note "round trips with an agent"

# Counters: the status, and pulse top.
"$PULSE" top --socket "$socket" --once > top.log || fail "pulse top fails" top.log
grep -q 'operators ' top.log || fail "pulse top has no line for operators" top.log
"$PULSE" top --socket "$socket" --once --json > top.json
python3 - <<'PY' || fail "the counters are not those of what was done" top.json
import json
ops = json.load(open("top.json"))["agents"][0]["ops"]
assert ops["threads"] == 2 and ops["running"] == 0 and ops["waiting"] == 0, ops
assert ops["chunks"] > 12 and ops["failed"] == 0, ops
PY

# What the placement decided: the agent's metrics have what all of these commands did.
python3 - "$url" "$docs/reference/metrics.md" <<'PY' || fail "the metrics of the placement are not those of what was done"
import re, sys, time, urllib.request
def value(text, name, labels):
    match = re.search("^" + re.escape(f"{name}{{{labels}}} ") + r"([0-9.e+]+)$", text, re.M)
    return float(match.group(1)) if match else None
limit = time.monotonic() + 30
while True:
    text = urllib.request.urlopen(sys.argv[1], timeout=30).read().decode()
    runs = {p: value(text, "pulse_placement_runs_total", f'placement="{p}"')
            for p in ("host", "agent", "auto", "split", "paper")}
    # A compression, a decompression, and both stages of a filter of compressed input.
    if all(runs[p] == 4 for p in ("agent", "auto", "split", "paper")):
        break
    assert time.monotonic() < limit, runs
    time.sleep(0.1)
assert runs["host"] == 0, runs
for task in ("compress_isal", "decompress_deflate", "filter"):
    for side in ("host", "agent"):
        labels = f'task="{task}",side="{side}"'
        assert value(text, "pulse_placement_chunks_total", labels) > 0, labels
        assert value(text, "pulse_placement_rate_bytes_per_second", labels) > 0, labels
    assert value(text, "pulse_placement_throughput_bytes_per_second", f'task="{task}"') > 0, task
    assert value(text, "pulse_placement_agent_faster", f'task="{task}"') in (0, 1), task
done = sum(value(text, "pulse_placement_input_bytes_total", f'task="compress_isal",side="{s}"') for s in ("host", "agent"))
import os
assert done == 4 * os.path.getsize("data"), done
described = open(sys.argv[2]).read()
for metric in set(re.findall(r"^# TYPE (pulse_placement_\w+)", text, re.M)):
    assert re.search(f"`{metric}[`{{]", described), f"metrics.md does not name {metric}"
PY
note "metrics of the placement"

# A literal rule is quoted once.
python3 -c 'print("some-text a.b in a line\n" * 400000, end="")' > literal
for placement in agent split=50; do
  run_ok "literal-$placement" 60 "$PULSE" filter --agent "$socket" --placement "$placement" -F -e 'text a.b' --force -o out literal
  same out literal "filter -F with placement $placement"
done

# Streams that the agent filters on their way to the host: what arrives, and the metrics.
echo timeout > rules
cat > host.py <<'PY'
import socket
server = socket.create_server(("127.0.0.1", 0))
with open("port.new", "w") as f: print(server.getsockname()[1], file=f)
import os
os.rename("port.new", "port")
for name in ("received1", "received2"):
    connection, _ = server.accept()
    with open(name + ".new", "wb") as f:
        try:
            while piece := connection.recv(1 << 20): f.write(piece)
            state = ""
        except ConnectionResetError: state = ".reset"
    connection.close()
    os.rename(name + ".new", name + state)
PY
start host.log python3 host.py
await 30 test -e port || fail "the host does not listen" host.log
start_agent "$SOCKET_DIR/ingest.sock" --ingest 0 --filter rules --to "127.0.0.1:$(cat port)" --metrics 0
await 30 grep -q 'filters streams sent to' "$AGENT_LOG" || fail "the agent does not say where it filters" "$AGENT_LOG"
to=$(sed -n 's/.*filters streams sent to 127.0.0.1:\([0-9]*\) .*/\1/p' "$AGENT_LOG")
ingest_url=$(grep -o 'http://127.0.0.1:[0-9]*/metrics' "$AGENT_LOG")
send_stream() { # FILE PORT
  python3 - "$1" "$2" <<'PY'
import socket, sys
with socket.create_connection(("127.0.0.1", int(sys.argv[2]))) as s, open(sys.argv[1], "rb") as f:
    try:
        s.sendfile(f)
        s.shutdown(socket.SHUT_WR)
        while s.recv(4096): pass
    except (ConnectionResetError, BrokenPipeError): pass
PY
}
send_stream data.gz "$to"
await 30 test -e received1 || fail "the first stream does not arrive" "$AGENT_LOG"
same received1 expected "other records arrive"
head -c 1000000 data.gz > cut.gz
send_stream cut.gz "$to"
await 30 test -e received2.reset || fail "a stream that was cut off is not reset" "$AGENT_LOG"
ingest_is() { # METRIC VALUE
  python3 -c 'import sys, urllib.request
lines = urllib.request.urlopen(sys.argv[1], timeout=30).read().decode().split("\n")
sys.exit(not any(l.split(" ")[0] == sys.argv[2] and float(l.split(" ")[1]) == float(sys.argv[3]) for l in lines if " " in l))' \
    "$ingest_url" "$1" "$2"
}
for number in streams_total:2 streams_failed_total:1 streams_with_garbage_total:0 streams_open:0 filtered_bytes_total:$(stat -c %s data) \
  sent_bytes_total:$(stat -c %s expected) sent_records_total:$(wc -l <expected); do
  await 30 ingest_is "pulse_ingest_${number%:*}" "${number#*:}" || fail "pulse_ingest_${number%:*} is not ${number#*:}"
  grep -q "\`pulse_ingest_${number%:*}\`" "$docs/reference/metrics.md" || fail "metrics.md does not name ${number%:*}"
done
stop_agent "$AGENT" "$AGENT_LOG"
note "streams that the agent filters"

# Killed in mid-stream: the input comes in two halves, and the agent dies between them.
halves() {
  head -c 6000000 data
  await 30 test -e killed
  tail -c +6000001 data
}
killed_during() { # NAME COMMAND...
  local name=$1
  shift
  rm -f killed
  halves | timeout 120 "$@" > "$name.out" 2> "$name.err" &
  local running=$!
  STARTED_PIDS+=("$running")
  sleep 0.4 # the moment does not matter
  kill -9 "$AGENT"
  wait "$AGENT" 2>/dev/null
  : > killed
  ends_well "$running"
}
for run in 1 2; do
  start_agent "$SOCKET_DIR/killed$run.sock" --ops
  killed_during "kill-compress$run" "$PULSE" compress -9 --agent "$SOCKET_DIR/killed$run.sock" -c ||
    fail "compress does not survive its agent" "kill-compress$run.err"
  gzip -dc "kill-compress$run.out" | cmp -s - data || fail "the stream is not the data's"
  start_agent "$SOCKET_DIR/killedf$run.sock" --ops
  killed_during "kill-filter$run" "$PULSE" filter --agent "$SOCKET_DIR/killedf$run.sock" -e timeout ||
    fail "filter does not survive its agent" "kill-filter$run.err"
  same "kill-filter$run.out" expected "other lines are selected"
done
start_agent "$SOCKET_DIR/alone.sock" --ops
killed_during kill-alone "$PULSE" compress -9 --placement agent --agent "$SOCKET_DIR/alone.sock" -c &&
  fail "nobody was left, and it succeeded"
grep -q 'no engine is left.*was lost.*--cpus' kill-alone.err || fail "the error says something else" kill-alone.err
note "agents that are killed"

# What is refused.
expect_error nobody 'no agent at;;pulse agent --socket /tmp/pulse-no-such.sock --ops' \
  "$PULSE" compress --agent /tmp/pulse-no-such.sock -c data
start_agent "$SOCKET_DIR/echo.sock" --echo
expect_error without 'does not offer the service ops;;echo;;pulse agent --ops' \
  "$PULSE" decompress --agent "$SOCKET_DIR/echo.sock" -c data.gz
expect_error both '--agent-cpus, --agent' "$PULSE" compress --agent "$socket" --agent-cpus 0 -c data
expect_error bomb '--ingest-max-decompressed requires --ingest' \
  "$PULSE" agent --socket "$SOCKET_DIR/x.sock" --ingest-max-decompressed 1G
expect_error threads '--ops-threads requires --ops' "$PULSE" agent --socket "$SOCKET_DIR/x.sock" --ops-threads 2
echo PASSED
