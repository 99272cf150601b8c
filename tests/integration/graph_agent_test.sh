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
# in_shell DB OPTIONS...: statements of its input, with little memory.
in_shell() { "$PULSE" graph shell "$1" --memory 6M "${@:2}" >"$1.out" 2>"$1.err"; }
put_nodes() {
  echo "CREATE INDEX IF NOT EXISTS FOR (n:N) ON (n.i);"
  echo "UNWIND range(1, 500) AS i CREATE (:N {i: i});"
}
# put_part NUMBER: 12,000 relationships; their weights' sum is 594,000.
put_part() {
  echo "UNWIND range(1, 12000) AS i MATCH (a:N {i: 1 + (i * 7919 + $1) % 500}), (b:N {i: 1 + i % 500}) CREATE (a)-[:E {w: i % 100}]->(b);"
}
# put_until COMMAND...: parts, as fast as they are taken, until it succeeds; the limit only ends a hang.
part=0
put_until() {
  local end=$((SECONDS + 200))
  until "$@"; do
    ((SECONDS < end)) || exit 1
    if ((part < 100)); then put_part $((++part)); fi
    sleep 0.2
  done
}
# must_have DB PARTS: so many parts, in a sound database.
must_have() {
  local sum
  sum=$(sum_of "$1")
  [[ $sum == "{\"n\":$((12000 * $2)),\"s\":$((594000 * $2))}" ]] || fail "$1, $2 parts: $sum"
  "$PULSE" graph check "$1" >check.out 2>&1 || fail "check of $1" check.out
}
# fill DB OPTIONS...: enough relationships for flushes and compactions.
fill() {
  {
    put_nodes
    for part in $(seq 10); do put_part "$part"; done
  } | in_shell "$@"
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
expected='{"n":120000,"s":5940000}'

note "engines that are not there, and options that do not fit"
refused "auto|inline|threads|agent|dsa|sim" query db --engine gpu 'CREATE (n)'
refused "auto|inline|threads|agent|dsa|sim" load db --engine gpu --nodes L=none.csv
refused "auto|inline|threads|agent|dsa|sim" salvage db --engine gpu --out rescued
refused "pulse agent --socket $socket --graph" query db --engine agent --agent "$socket" 'CREATE (n)'
refused "agent and auto" query db --engine inline --agent "$socket" 'CREATE (n)'
refused "--engine-threads" query db --engine sim --engine-threads 2 'CREATE (n)'
refused "CPUs of an engine" query db --engine dsa --engine-cpus 0 'CREATE (n)'
[[ -e /dev/dsa ]] || refused "no Intel DSA" query db --engine dsa 'CREATE (n)'
refused "--engine-cpus" query db --engine threads --engine-cpus x 'CREATE (n)'
for engine in threads agent; do
  refused "cannot run on CPU 1023" query db --engine "$engine" --engine-cpus 0,1023 'CREATE (n)'
done
[[ ! -e db ]] || fail "what was refused made a database"
run_fails() { "$PULSE" agent "$@" >agent.out 2>&1 && fail "pulse agent $* succeeds" agent.out; }
run_fails --socket "$socket" --graph-memory 5
grep -qF -- '--graph-memory requires --graph' agent.out || fail "no reason" agent.out

note "auto without the agent that was named: once, why, and how to start it"
"$PULSE" graph query alone --engine auto --agent "$socket" 'CREATE (n)' >alone.out 2>alone.err || fail "auto alone" alone.err
[[ $(grep -c 'auto goes on without the agent' alone.err) == 1 ]] || fail "auto does not say that it is alone" alone.err
grep 'goes on without' alone.err | grep -qF "pulse agent --socket $socket --graph" || fail "no remedy" alone.err

note "an agent without compactions of graphs is refused by name"
start_agent "$socket" --echo
refused "does not offer the service graph" query db --engine agent --agent "$socket" 'CREATE (n)'
stop_agent() { kill -TERM "$AGENT" && wait "$AGENT" 2>/dev/null; }
stop_agent

note "compactions by the agent"
start_agent "$socket" --graph --graph-threads 2 --metrics 127.0.0.1:0
grep -q 'compactions of graphs on 2 threads' "$AGENT_LOG" || fail "what it offers" "$AGENT_LOG"
# Until it has been asked to merge: when a compaction begins is up to the machine.
has_merged() { (($(counter merges_total) > 0)); }
{
  put_nodes
  put_until has_merged
  echo "$part" >agent.parts
} | in_shell agent --engine agent --agent "$socket" || fail "filling" agent.err
[[ -s agent.parts ]] || fail "the agent has merged nothing" agent.err
merges=$(counter merges_total)
none_running() { [[ $(counter merges_running) == 0 ]]; }
await 60 none_running || fail "merges go on without a client" "$AGENT_LOG"
[[ $(counter merges_failed_total) == 0 ]] || fail "merges failed" "$AGENT_LOG"
grep -q 'is done here' agent.err && fail "the agent did not do all" agent.err
must_have agent "$(<agent.parts)"

note "an agent that is killed meanwhile: nothing is lost, and the reason is said"
merge_began() { [[ $(counter merges_total) -gt $merges ]]; }
loss_is_told() { grep -q 'is done here, and not by agent' killed.err; }
# More is written than the agent lives to see: compactions are under way when it is killed, or come after.
part=0
{
  put_nodes
  put_until merge_began
  kill -9 "$AGENT"
  put_until loss_is_told
  echo "$part" >killed.parts
} | in_shell killed --engine agent --agent "$socket" || fail "filling while the agent is killed" killed.err
[[ -s killed.parts ]] || fail "no compaction of the second graph, or the lost agent is not told of" killed.err
must_have killed "$(<killed.parts)"

note "the other engines"
for engine in inline threads agent sim auto; do
  fill "$engine-db" --engine "$engine" || fail "filling with $engine" "$engine-db.err"
  [[ $(sum_of "$engine-db") == "$expected" ]] || fail "with $engine: $(sum_of "$engine-db")"
done

note "loads and salvages, too"
printf 'id\n1\n' >nodes.csv
"$PULSE" graph load sim-db --engine agent --nodes L=nodes.csv >load.out 2>&1 || fail "a load" load.out
"$PULSE" graph salvage sim-db --engine threads --out rescued >salvage.out 2>&1 || fail "a salvage" salvage.out
[[ $(sum_of rescued) == "$expected" ]] || fail "what was salvaged: $(sum_of rescued)"

note "a server says which engine it has, and what each has done"
start serve.log "$PULSE" graph serve sim-db --bolt 0 --engine sim
server=$STARTED
await 60 grep -q 'copy engine sim' serve.log || fail "the server does not start" serve.log
grep -q 'stand-in' serve.log || fail "a stand-in is not called one" serve.log
kill -TERM "$server"
ends_well "$server" || fail "the server ends with an error" serve.log
