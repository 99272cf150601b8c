#!/usr/bin/env bash
# `pulse graph` as a command: query, shell and serve on a database in a directory; output, exit codes,
# bad input, a server beside readers, and what is there after a kill. usage:
#   graph_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
cd "$SCRATCH" || fail "no $SCRATCH"
# History is the user's; not of a test's.
export HOME=$SCRATCH

# query EXPECTED ARGUMENTS...: standard output, whole.
query() {
  local expected=$1 said
  said=$("$PULSE" graph query db "${@:2}" 2>query.err) || fail "query ${*:2}" query.err
  [[ "$said" == "$expected" ]] || fail "query ${*:2}: expected '$expected', got '$said'"
}
# refused TEXT ARGUMENTS...: an error with exit code 1.
refused() {
  "$PULSE" graph "${@:2}" >refused.out 2>refused.err
  local code=$?
  [[ $code == 1 ]] || fail "graph ${*:2}: exit code $code" refused.err
  grep -qF -- "$1" refused.err || fail "graph ${*:2}: no '$1'" refused.err
}

note "statements one by one, each a process of its own"
refused "there is no graph database" query db 'MATCH (n) RETURN n'
[[ ! -e db ]] || fail "a statement that reads made a database"
query $'2 nodes created, 1 relationships created, 3 properties set, 2 labels added' \
  "CREATE (:Person {name: 'Ann', age: 41})-[:KNOWS]->(:Person {name: 'Bob'})"
query $'name   age\nAnn     41\nBob   null\n2 rows' 'MATCH (p:Person) RETURN p.name AS name, p.age AS age ORDER BY name'
query $'{"name":"Ann","friends":["Bob"]}' --json \
  "MATCH (p:Person)-[:KNOWS]->(q) RETURN p.name AS name, collect(q.name) AS friends"
query '{"n":41}' --json --param "who='Ann'" --param 'list=[1, 2]' \
  'MATCH (p:Person {name: $who}) WHERE size($list) = 2 RETURN p.age AS n'
"$PULSE" graph query db --json 'MATCH p = (:Person)-[k:KNOWS]->() RETURN p, k, date("2024-02-29") AS d, 0.0/0 AS nan' >path.json ||
  fail "a path as JSON"
python3 - path.json <<'PYTHON' || fail "JSON of a path" path.json
import json, sys
row = json.loads(open(sys.argv[1], encoding="utf-8").read())
assert [n["properties"]["name"] for n in row["p"]["nodes"]] == ["Ann", "Bob"], row
assert row["p"]["nodes"][0]["labels"] == ["Person"], row
assert row["k"]["type"] == "KNOWS" and row["k"]["properties"] == {}, row
assert (row["d"], row["nan"]) == ("2024-02-29", "NaN"), row
PYTHON
query $'1 indexes added' 'CREATE INDEX people FOR (p:Person) ON (p.name)'
query '{"name":"people","properties":["name"]}' --json 'SHOW INDEXES YIELD name, properties'
"$PULSE" graph query db "EXPLAIN MATCH (p:Person {name: 'Ann'}) RETURN p" | grep -q 'by index on name' ||
  fail "the index is not used"
"$PULSE" graph query db --json 'EXPLAIN MATCH (n) RETURN n' | grep -q '^{"plan":"Scan all nodes' || fail "a plan in JSON"
printf 'RETURN 1 + 1 AS two' | "$PULSE" graph query db --json - | grep -qx '{"two":2}' || fail "standard input"

note "export and import"
"$PULSE" graph export db files >export.out 2>&1 || fail "export" export.out
grep -q '^2 nodes, 1 relationships, 1 indexes, 0 constraints in 3 files' export.out || fail "what export says" export.out
grep -qx "{index: 'people', label: 'Person', keys: \['name'\], kind: 'index'}" files/graph.schema || fail "schema" files/graph.schema
"$PULSE" graph import copy files >import.out 2>&1 || fail "import" import.out
everything='MATCH (a)-[k]->(b) RETURN labels(a) AS a, properties(a) AS pa, type(k) AS k, properties(b) AS pb'
[[ $("$PULSE" graph query copy --json "$everything") == "$("$PULSE" graph query db --json "$everything")" ]] ||
  fail "what was imported"
"$PULSE" graph query copy "EXPLAIN MATCH (p:Person {name: 'Ann'}) RETURN p" | grep -q 'by index on name' || fail "no index"
refused "there is already something" import copy files
refused "there is already something" export db files
refused "is no export of a graph" import other .
"$PULSE" graph query copy "EXPORT DATABASE 'by-statement'" || fail "EXPORT DATABASE"
cmp files/graph.schema by-statement/graph.schema || fail "the command and the statement differ"
rm files/nodes-*.csv
refused "nodes-1-Person.csv" import other files
[[ ! -e other && ! -e other.importing ]] || fail "half an import"

note "backup"
"$PULSE" graph backup db backup >backup.out 2>&1 || fail "backup" backup.out
grep -q 'sound$' backup.out || fail "what backup says" backup.out
[[ $("$PULSE" graph query backup --json "$everything") == "$("$PULSE" graph query db --json "$everything")" ]] ||
  fail "what was backed up"
"$PULSE" graph backup db backup >backup.out 2>&1 || fail "second backup" backup.out
refused "is the database itself" backup db db
refused "it is no backup" backup db files

note "CSV files, and reading all of a database"
printf 'id,name,age\n1,Ann,41\n2,"Bob, junior",\n3,Eve,30\n' >people.csv
printf 'from,to,since\n1,2,2001\n2,3,2002\n1,3,2003\n' >knows.csv
printf 'from|to\n1|2\n9|1\n3|x\n' >likes.csv
"$PULSE" graph load loaded --nodes Person=people.csv --edges KNOWS=knows.csv >load.out 2>&1 || fail "load" load.out
grep -q '^3 nodes, 3 relationships from ' load.out || fail "what was loaded is not said" load.out
said=$("$PULSE" graph query loaded --json 'MATCH (a:Person)-[k:KNOWS]->(b) RETURN a.name AS a, sum(k.since) AS s, sum(b.age) AS n ORDER BY a')
[[ "$said" == $'{"a":"Ann","s":4004,"n":30}\n{"a":"Bob, junior","s":2002,"n":30}' ]] || fail "what was loaded: $said"
printf 'id|name\n1|Ann\n2|Bob\n3|Eve\n' >piped.csv
refused "likes.csv:3" load loaded --nodes Person=piped.csv --edges LIKES=likes.csv --delimiter '|'
"$PULSE" graph load loaded --nodes Person=people.csv --edges KNOWS=knows.csv --type age=float >load.out 2>&1 ||
  fail "a second load" load.out
said=$("$PULSE" graph query loaded --json 'MATCH (a) RETURN count(*) AS n')
[[ "$said" == '{"n":6}' ]] || fail "after a refused load and a second one: $said"
"$PULSE" graph load rejects --nodes Person=piped.csv --edges LIKES=likes.csv --delimiter '|' --reject rejected.txt \
  >load.out 2>&1 || fail "load with --reject" load.out
grep -q '^3 nodes, 1 relationships' load.out && grep -q '2 lines were rejected' load.out || fail "rejects" load.out
[[ $(grep -c 'likes.csv:' rejected.txt) == 2 ]] || fail "the rejected lines" rejected.txt
refused "nothing to load" load loaded
refused "expected one character" load loaded --nodes Person=people.csv --delimiter ab
refused "no.csv" load loaded --nodes Person=no.csv
"$PULSE" graph check loaded >check.out 2>&1 || fail "check" check.out
grep -q 'sound: 6 nodes, 6 relationships' check.out || fail "check says" check.out
refused "there is no graph database" check nowhere
run=$(ls loaded/*.run | head -n 1)
# flip BYTE: in the run; twice is as it was.
flip() {
  python3 -c 'import sys
with open(sys.argv[1], "r+b") as f:
    f.seek(int(sys.argv[2])); byte = f.read(1)[0]; f.seek(int(sys.argv[2])); f.write(bytes([byte ^ 255]))' "$run" "$1"
}
middle=$(($(stat -c %s "$run") / 2))
flip "$middle"
refused "$(basename "$run")" check loaded
refused "it cannot be opened without this file" check loaded
flip "$middle"
"$PULSE" graph check loaded >check.out 2>&1 || fail "check" check.out
# A list, which begins behind the header.
flip 36
refused "$(basename "$run") is damaged" check loaded
refused "what lies elsewhere can be read" check loaded
mv "$run" run.away
refused "$(basename "$run") is missing" check loaded
# A log of three commits, of which the second has another byte now: the first one can be read.
mkfifo statements
"$PULSE" graph shell torn <statements >shell.out 2>&1 &
shell=$!
exec 7>statements
printf 'CREATE (:N {i: %s});\n' 1 2 3 >&7
for _ in $(seq 200); do
  [[ "$("$PULSE" graph query torn --json 'MATCH (n:N) RETURN count(n) AS n' 2>/dev/null)" == '{"n":3}' ]] && break
  sleep 0.05 # sleep: until another process has committed
done
kill -9 "$shell"
wait "$shell" 2>/dev/null
exec 7>&-
"$PULSE" graph check torn >check.out 2>&1 || fail "check of torn" check.out
grep -q 'sound: 3 nodes' check.out || fail "check of torn says" check.out
python3 -c 'import struct
with open("torn/00000001.wal", "r+b") as f:
    bytes = bytearray(f.read()); at = 32 + 24 + struct.unpack_from("<I", bytes, 32)[0]
    bytes[at + 24] ^= 1; f.seek(0); f.write(bytes)'
refused "the log is damaged: torn/00000001.wal at byte" check torn
refused "commits up to 1 (1 nodes, 0 relationships), which come before the damage, can be read" check torn
refused "the log is damaged" query torn 'MATCH (n:N) RETURN n.i'
said=$("$PULSE" graph query torn --damaged --json 'MATCH (n:N) RETURN n.i AS i' 2>damaged.err)
[[ "$said" == '{"i":1}' ]] || fail "--damaged says $said" damaged.err
grep -q "what comes before is shown" damaged.err || fail "--damaged does not tell" damaged.err
refused "for reading" query torn --damaged 'CREATE (:N)'
printf 'x' | dd of=torn/MANIFEST bs=1 seek=2 conv=notrunc status=none
refused "nobody knows which files count" check torn

note "bad input"
refused "line 1, column 10" query db 'MATCH (n RETURN n'
refused "divided by 0" query db 'RETURN 1 / 0'
refused "expected NAME=EXPRESSION" query db --param x 'RETURN $x'
refused "text in quotes" query db --param x=Ann 'RETURN $x'
refused "the parameter" query db 'RETURN $x'
refused "for reading" query db --read-only 'CREATE (n)'
refused "--memory" query db --memory lots 'RETURN 1'
refused "limit" query db --query-memory 1M 'UNWIND range(1, 10000000) AS x RETURN collect(x)'
refused "longer than its limit" query db --timeout 0.2 \
  'UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(b)'
touch file
refused "file" query file 'CREATE (n)'

note "the shell, from standard input"
"$PULSE" graph shell db >shell.out 2>shell.err <<'SHELL' || fail "the shell" shell.err
:begin
CREATE (:Person
  {name: 'Cleo'});
MATCH (p:Person) RETURN count(p) AS inside;
:rollback
:param who 'Bob'
MATCH (p:Person {name: $who}) RETURN p.name AS found;
:begin
CREATE (:Person {name: 'Dan'});
:commit
MATCH (p:Person) RETURN count(p) AS after;
SHELL
[[ $(grep -cE '^ *3$' shell.out) == 2 ]] || fail "counts within and after the transactions" shell.out
grep -qx 'Bob' shell.out || fail "the parameter" shell.out
if printf 'RETURN 1;\nRETRUN 2;\nRETURN 3;\n' | "$PULSE" graph shell db >shell.out 2>&1; then
  fail "an error in a script ends with success"
fi
grep -q '^ *3$' shell.out && fail "the script went on behind its error" shell.out

note "a server, readers beside it, a second writer, a kill"
"$PULSE" graph serve db --bolt 0 >serve.log 2>&1 &
server=$!
STARTED_PIDS+=("$server")
for _ in $(seq 600); do
  grep -q 'process [0-9]' serve.log && break
  kill -0 "$server" 2>/dev/null || fail "the server does not start" serve.log
  sleep 0.1 # sleep: between looks at the log
done
refused "has the database open for writing" query db "CREATE (:Person {name: 'Eve'})"
query '{"n":3}' --json 'MATCH (p:Person) RETURN count(p) AS n'
kill -9 "$server"
wait "$server" 2>/dev/null
query $'1 nodes created, 1 properties set, 1 labels added' "CREATE (:Person {name: 'Eve'})"
query '{"n":4}' --json 'MATCH (p:Person) RETURN count(p) AS n'
"$PULSE" graph serve db --bolt 0 >serve.log 2>&1 &
server=$!
STARTED_PIDS+=("$server")
for _ in $(seq 600); do
  grep -q 'process [0-9]' serve.log && break
  sleep 0.1 # sleep: between looks at the log
done
kill "$server"
wait "$server" || fail "the server does not end well" serve.log
refused "is reached by other machines" serve db --bolt 0 --bind 0.0.0.0
refused "without a password" serve db --bolt 0 --metrics 0.0.0.0:0
refused "expected PORT" serve db --bolt 0 --metrics nonsense
refused "TLS needs both" serve db --bolt 0 --tls-cert file

note "metrics"
"$PULSE" graph serve counted --bolt 0 --http 0 --metrics 0 --timeout 0.2 >serve.log 2>&1 &
server=$!
STARTED_PIDS+=("$server")
for _ in $(seq 600); do
  grep -q 'metrics at' serve.log && break
  kill -0 "$server" 2>/dev/null || fail "the server does not start" serve.log
  sleep 0.1 # sleep: between looks at the log
done
python3 "$here/graph_metrics_check.py" "$(grep -o 'http://127.0.0.1:[0-9]*/metrics' serve.log)" \
  "$(grep -o 'http://127.0.0.1:[0-9]*/$' serve.log)" "$(sed -n 's/.*bolt:.*:\([0-9]*\) (process.*/\1/p' serve.log)" \
  >metrics.log 2>&1 || fail "metrics" metrics.log
note "$(tail -n 1 metrics.log)"
kill "$server"
wait "$server" || fail "the server does not end well" serve.log
note "done"
