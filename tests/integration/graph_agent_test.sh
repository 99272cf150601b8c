#!/usr/bin/env bash
# `pulse graph --engine`: compactions by an agent process, which is killed; the other engines; what is
# refused. usage:
#   graph_agent_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
cd "$SCRATCH" || fail "no $SCRATCH"
export HOME=$SCRATCH
socket="$SOCKET_DIR/agent.sock"

# refused TEXT ARGUMENTS...: an error with exit code 1.
refused() {
  "$PULSE" graph "${@:2}" >refused.out 2>refused.err
  local code=$?
  [[ $code == 1 ]] || fail "graph ${*:2}: exit code $code" refused.err
  grep -qF -- "$1" refused.err || fail "graph ${*:2}: no '$1'" refused.err
}
# fill DB OPTIONS...: enough relationships for flushes and compactions, with little memory.
fill() {
  local db=$1
  shift
  {
    echo "CREATE INDEX IF NOT EXISTS FOR (n:N) ON (n.i);"
    echo "UNWIND range(1, 500) AS i CREATE (:N {i: i});"
    for part in $(seq 30); do
      echo "UNWIND range(1, 12000) AS i MATCH (a:N {i: 1 + (i * 7919 + $part) % 500}), (b:N {i: 1 + i % 500}) CREATE (a)-[:E {w: i % 100}]->(b);"
    done
  } | "$PULSE" graph shell "$db" --memory 9M "$@" >"$db.out" 2>"$db.err"
}
sum_of() { "$PULSE" graph query "$1" --json 'MATCH ()-[e:E]->() RETURN count(e) AS n, sum(e.w) AS s'; }
# Of the agent's metrics.
counter() {
  python3 - "$(grep -o 'http://127.0.0.1:[0-9]*/metrics' "$AGENT_LOG")" "pulse_graph_$1" <<'PY'
import sys, urllib.request
for line in urllib.request.urlopen(sys.argv[1], timeout=10).read().decode().splitlines():
    if line.split(" ")[0].split("{")[0] == sys.argv[2]:
        print(int(float(line.split(" ")[-1])))
PY
}
expected='{"n":360000,"s":17820000}'

note "engines that are not there, and options that do not fit"
refused "auto|inline|threads|agent|dsa|sim" query db --engine gpu 'CREATE (n)'
refused "pulse agent --socket $socket --graph" query db --engine agent --agent "$socket" 'CREATE (n)'
refused "agent and auto" query db --engine inline --agent "$socket" 'CREATE (n)'
refused "--engine-threads" query db --engine sim --engine-threads 2 'CREATE (n)'
refused "CPUs of an engine" query db --engine dsa --engine-cpus 0 'CREATE (n)'
[[ -e /dev/dsa ]] || refused "no Intel DSA" query db --engine dsa 'CREATE (n)'
[[ ! -e db ]] || fail "what was refused made a database"
run_fails() { "$PULSE" agent "$@" >agent.out 2>&1 && fail "pulse agent $* succeeds" agent.out; }
run_fails --socket "$socket" --graph-memory 5
grep -qF -- '--graph-memory needs --graph' agent.out || fail "no reason" agent.out

note "an agent without compactions of graphs is refused by name"
start_agent "$socket" --echo
refused "does not offer the service graph" query db --engine agent --agent "$socket" 'CREATE (n)'
stop_agent() { kill -TERM "$AGENT" && wait "$AGENT" 2>/dev/null; }
stop_agent

note "compactions by the agent"
start_agent "$socket" --graph --graph-threads 2 --metrics 127.0.0.1:0
grep -q 'compactions of graphs on 2 threads' "$AGENT_LOG" || fail "what it offers" "$AGENT_LOG"
fill agent --engine agent --agent "$socket" || fail "filling" agent.err
merges=$(counter merges_total)
((merges > 0)) || fail "the agent has merged nothing" agent.err
[[ $(counter merges_failed_total) == 0 && $(counter merges_running) == 0 ]] || fail "its counters"
grep -q 'is done here' agent.err && fail "the agent did not do all" agent.err
[[ $(sum_of agent) == "$expected" ]] || fail "with the agent: $(sum_of agent)"
"$PULSE" graph check agent >check.out 2>&1 || fail "check" check.out

note "an agent that is killed meanwhile: nothing is lost, and the reason is said"
fill killed --engine agent --agent "$socket" &
filling=$!
await_merge() { [[ $(counter merges_total) -gt $merges ]]; }
await 60 await_merge || fail "no compaction of the second graph" killed.err
kill -9 "$AGENT"
wait "$filling" || fail "filling while the agent is killed" killed.err
grep -q 'is done here, and not by agent' killed.err || fail "the lost agent is not told of" killed.err
[[ $(sum_of killed) == "$expected" ]] || fail "with a killed agent: $(sum_of killed)"
"$PULSE" graph check killed >check.out 2>&1 || fail "check" check.out

note "the other engines"
for engine in inline threads agent sim auto; do
  fill "$engine-db" --engine "$engine" || fail "filling with $engine" "$engine-db.err"
  [[ $(sum_of "$engine-db") == "$expected" ]] || fail "with $engine: $(sum_of "$engine-db")"
done

note "a server says which engine it has, and what each has done"
"$PULSE" graph serve sim-db --bolt 0 --engine sim >serve.log 2>&1 &
server=$!
STARTED_PIDS+=("$server")
await 60 grep -q 'copy engine sim' serve.log || fail "the server does not start" serve.log
grep -q 'stand-in' serve.log || fail "a stand-in is not called one" serve.log
kill -TERM "$server"
wait "$server" || fail "the server ends with an error" serve.log
