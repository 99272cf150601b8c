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
# What was read: in JSON, in text, and the same with single pages of runs.
"$PULSE" graph query db --json 'PROFILE MATCH ()-[r]->() RETURN r' | grep -q '^{"plan":.*Total Hits=.*Runs=1 ' ||
  fail "PROFILE in JSON"
"$PULSE" graph query db --page-reads 'PROFILE MATCH (n)-->() RETURN n' | grep -q '^Expand out rows=.* RunRecords=' ||
  fail "PROFILE with --page-reads"
printf 'RETURN 1 + 1 AS two' | "$PULSE" graph query db --json - | grep -qx '{"two":2}' || fail "standard input"

note "a limit on the memory of nodes"
refused "may take 4096 bytes of memory" query small --node-memory 4K 'UNWIND range(1, 1000) AS i CREATE (:A {i: i})'
"$PULSE" graph query small --node-memory 4K 'CREATE (:A {i: 1})' >small.out 2>&1 || fail "a node within the limit" small.out
refused "is not a size" query small --node-memory 12Q 'CREATE ()'
printf 'id\n' >many.csv
seq 1000 >>many.csv
refused "may take 4096 bytes of memory" load small --node-memory 4K --nodes B=many.csv
"$PULSE" graph load small --node-memory 1M --nodes B=many.csv >small.out 2>&1 || fail "a load within the limit" small.out
"$PULSE" graph query small --node-memory 4K 'MATCH (b:B) DELETE b' >small.out 2>&1 || fail "a deletion beyond the limit" small.out

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
refused "the load needs more than its limit of 64 bytes of memory" import other files --load-memory 64
"$PULSE" graph query copy "EXPORT DATABASE 'by-statement'" || fail "EXPORT DATABASE"
cmp files/graph.schema by-statement/graph.schema || fail "the command and the statement differ"
rm files/nodes-*.csv
refused "nodes-1-Person.csv" import other files
[[ ! -e other && ! -e .other.partial ]] || fail "half an import"
mkdir .taken.partial
flock .taken.partial "$PULSE" graph import taken by-statement >taken.out 2>&1 && fail "two imports at once" taken.out
grep -q "somebody else is writing it" taken.out || fail "two imports at once" taken.out
mkdir later.importing
touch later.importing/mine .taken.partial/left
"$PULSE" graph import later by-statement >import.out 2>&1 || fail "import" import.out
"$PULSE" graph import taken by-statement >import.out 2>&1 || fail "import behind one that was killed" import.out
[[ -e later.importing/mine && ! -e .taken.partial && ! -e taken/left ]] || fail "what an import removes"

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
refused "cannot be the reject file" load rejects --nodes Person=people.csv --reject rejects/MANIFEST
ln -s rejects/MANIFEST link.txt
refused "cannot be the reject file" load rejects --nodes Person=people.csv --reject link.txt
ln -s rejects/unmade.txt dangling.txt
refused "cannot be the reject file" load rejects --nodes Person=people.csv --reject dangling.txt
[[ ! -e rejects/unmade.txt ]] || fail "a refused reject file was made in the database"
[[ $("$PULSE" graph query rejects --json 'MATCH (a) RETURN count(*) AS n') == '{"n":3}' ]] || fail "the refused reject file"
refused "opening missing.csv" load unmade --nodes Person=missing.csv
[[ ! -e unmade ]] || fail "a load of nothing made a database"
refused "is no directory" query people.csv 'CREATE (:Person)'
seq 1 50000 | sed '1s/.*/id/' >many.csv
(ulimit -f 100 && exec "$PULSE" graph load limited --nodes Person=many.csv) >load.out 2>&1
[[ $? == 1 ]] && grep -q 'File too large' load.out || fail "a load beyond a limit of file sizes" load.out
rm -r limited
# Texts of files, which a terminal would obey.
printf 'id,name\n1,Ann\n\033[2J,x\n\033[2J,y\n' >escapes.csv
refused "?[2J" load escapes --nodes Person=escapes.csv
grep -q $'\033' refused.err && fail "an escape sequence of a file in an error" refused.err
"$PULSE" graph load escapes --nodes Person=escapes.csv --reject escaped.txt >load.out 2>&1 || fail "load of escapes" load.out
grep -qF '?[2J' load.out || fail "the rejected line is not named" load.out
grep -q $'\033' load.out && fail "an escape sequence of a file in a report" load.out
if [[ -e /dev/full ]]; then
  said=$("$PULSE" graph load full --nodes Person=people.csv 2>&1 >/dev/full) && fail "a load on a full device is said to be well"
  [[ "$said" == *"The load is committed: do not run it again"* ]] || fail "a load on a full device says: $said"
  said=$("$PULSE" graph query full --json 'MATCH (a) RETURN count(*) AS n')
  [[ "$said" == '{"n":3}' ]] || fail "after a load on a full device: $said"
fi
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
run_before=$run run=loaded/COMMITTED
flip 20
refused "loaded/COMMITTED is damaged" check loaded
refused "makes the file anew" check loaded
flip 20
run=$run_before
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
has_committed() {
  [[ "$("$PULSE" graph query torn --json 'MATCH (n:N) RETURN count(n) AS n' 2>/dev/null)" == '{"n":3}' ]]
}
await 60 has_committed || fail "the shell's three commits" shell.out
kill -9 "$shell"
wait "$shell" 2>/dev/null
exec 7>&-
"$PULSE" graph check torn >check.out 2>&1 || fail "check of torn" check.out
grep -q 'sound: 3 nodes' check.out || fail "check of torn says" check.out
# Without its last byte, the log has lost the third one.
cp -r torn short
truncate -s -1 short/00000001.wal
refused "/short/COMMITTED says that commit 3 was on the device, and the newest that is there is 2" check short
refused "commits up to 2 (2 nodes, 0 relationships) can be read" check short
python3 -c 'import struct
with open("torn/00000001.wal", "r+b") as f:
    bytes = bytearray(f.read()); at = 32 + 24 + struct.unpack_from("<I", bytes, 32)[0]
    bytes[at + 24] ^= 1; f.seek(0); f.write(bytes)'
refused "/torn/00000001.wal at byte" check torn
refused "commits up to 1 (1 nodes, 0 relationships), which come before the damage, can be read" check torn
"$PULSE" graph salvage torn --out rescued >salvage.out 2>&1 || fail "salvage" salvage.out
grep -q 'the log is damaged: torn/00000001.wal, bytes' salvage.out && grep -q '^1 commits of the log lost' salvage.out &&
  grep -q '^rescued: 2 nodes, 0 relationships' salvage.out || fail "what salvage says" salvage.out
"$PULSE" graph check rescued >check.out 2>&1 || fail "check of what was salvaged" check.out
refused "rescued is not empty" salvage torn --out rescued
refused "there is nothing of a graph database" salvage nowhere --out rescued2
# Without a run of one direction, that of the other one has the relationships.
"$PULSE" graph salvage loaded --out rescued3 >salvage.out 2>&1 || fail "salvage of loaded" salvage.out
grep -q "$(basename "$run") is missing" salvage.out && grep -q '^rescued3: 6 nodes, 6 relationships' salvage.out ||
  fail "what salvage says of loaded" salvage.out
# A run that cannot be read, here a link to itself, is named with the remedy, and salvage goes on without it.
run=$(ls rescued3/*.run | head -n 1)
mv "$run" run.away && ln -s "$(basename "$run")" "$run"
refused "the run $run cannot be read: opening $run: " check rescued3
refused '`pulse graph salvage rescued3 --out NEW` makes a database of what can be read' check rescued3
"$PULSE" graph salvage rescued3 --out rescued4 >salvage.out 2>&1 || fail "salvage without a run" salvage.out
grep -qF "the run $run cannot be read" salvage.out && grep -q '^rescued4: 6 nodes, 6 relationships' salvage.out ||
  fail "what salvage says of a run that cannot be read" salvage.out
rm "$run" && mv run.away "$run"
# What is no database stays as it was.
mkdir of-others nothing-there && echo text >of-others/notes
for directory in of-others nothing-there; do
  refused "there is no graph database" check $directory
  refused "there is no graph database" query $directory 'MATCH (n) RETURN n'
  refused "there is no graph database" export $directory exported
  refused "there is nothing of a graph database" salvage $directory --out rescued5
done
refused "of-others is not empty and holds no graph database (notes)" query of-others 'CREATE (:N)'
[[ $(ls -A of-others) == notes && -z $(ls -A nothing-there) ]] || fail "litter: $(ls -A of-others nothing-there)"
[[ ! -e exported && ! -e .exported.partial && ! -e rescued5 ]] || fail "litter of a command that failed: $(ls -A)"
refused "the log is damaged" query torn 'MATCH (n:N) RETURN n.i'
said=$("$PULSE" graph query torn --damaged --json 'MATCH (n:N) RETURN n.i AS i' 2>damaged.err)
[[ "$said" == '{"i":1}' ]] || fail "--damaged says $said" damaged.err
grep -q "what comes before is shown" damaged.err || fail "--damaged does not tell" damaged.err
refused "for reading" query torn --damaged 'CREATE (:N)'
start serve.out "$PULSE" graph serve torn --damaged --bolt 0
server=$STARTED
await 60 grep -q 'process [0-9]' serve.out || fail "a damaged database is not served" serve.out
kill "$server"
ends_well "$server" || fail "a server of what is left" serve.out
grep -q "what comes before is shown" serve.out || fail "a server with --damaged does not tell" serve.out
printf 'x' | dd of=torn/MANIFEST bs=1 seek=2 conv=notrunc status=none
refused "nobody knows which files count" check torn

note "--retain: earlier states of the same process"
printf '%s;\n' "CREATE (:N {i: 1})" "MATCH (n:N) SET n.i = 2" "MATCH (n:N) SET n.i = 3" \
  "AT SNAPSHOT 2 MATCH (n:N) RETURN n.i AS i" | "$PULSE" graph shell retained --retain 5 --json >retain.out 2>&1
grep -q '{"i":2}' retain.out || fail "the state of commit 2" retain.out
printf '%s;\n' "AT SNAPSHOT 2 MATCH (n:N) RETURN n.i AS i" | "$PULSE" graph shell retained --retain 5 >retain.out 2>&1
grep -q "is no longer kept; the oldest is 3" retain.out || fail "a state of before" retain.out

note "changes, beside a server and after kills"
"$PULSE" graph query followed "CREATE (:Person {name: 'Ann'})-[:KNOWS {since: 3}]->(:Person)" >/dev/null || fail "a graph to follow"
"$PULSE" graph query followed "CREATE (:Marker)" >/dev/null || fail "a second commit"
refused "does not reach back to commit 0; the oldest position that it has is 1" changes followed --from 0
refused "there is no commit 9 yet; the newest is 2" changes followed --from 9
refused "expected the number of a commit" changes followed --from ann
refused "there is no graph database" changes nowhere
"$PULSE" graph changes followed --from now --follow --json >followed.out 2>followed.err &
follower=$!
STARTED_PIDS+=("$follower")
# It says nothing before it has seen a commit: some, until it has begun. The first two were before.
newest=2
follows() {
  [[ ! -s followed.out ]] || return 0
  "$PULSE" graph query followed --keep-log 1M 'CREATE (:Marker)' >/dev/null || fail "a commit to begin with"
  ((++newest))
  return 1
}
await 60 follows || fail "the follower sees no commit" followed.err
"$PULSE" graph query followed --keep-log 1M 'MATCH (p:Person) WHERE p.name IS NULL SET p.x = 1.5, p:Dog' >/dev/null ||
  fail "a commit to follow"
"$PULSE" graph query followed --keep-log 1M "MATCH (p:Person {name: 'Ann'}) DETACH DELETE p" >/dev/null || fail "one more"
((newest += 2))
await 60 grep -q "^{\"commit\":$newest," followed.out || fail "the follower does not see all" followed.out followed.err
kill "$follower"
ends_well "$follower" || fail "the follower's end" followed.err
python3 - followed.out "$newest" <<'PYTHON' || fail "what the follower has seen" followed.out
import json, sys
lines = [json.loads(line) for line in open(sys.argv[1], encoding="utf-8")]
newest = int(sys.argv[2])
assert [line["commit"] for line in lines] == list(range(newest + 1 - len(lines), newest + 1)), lines
assert lines[0]["commit"] > 2, lines
first, second = lines[-2:]
ops = {c["op"]: c for c in first["changes"]}
assert ops["set_node"]["properties"] == {"x": 1.5} and ops["add_label"]["label"] == "Dog", first
assert [c["op"] for c in second["changes"]] == ["delete_relationship", "delete_node"], second
assert second["changes"][0]["type"] == "KNOWS", second
PYTHON
[[ $("$PULSE" graph changes followed --from $((newest - $(wc -l <followed.out))) --json) == "$(cat followed.out)" ]] ||
  fail "the same from the kept log"
"$PULSE" graph changes followed --from 2 | grep -q '^commit 3' || fail "changes for people"

note "bad input"
refused "line 1, column 10" query db 'MATCH (n RETURN n'
refused "divided by 0" query db 'RETURN 1 / 0'
refused "expected NAME=EXPRESSION" query db --param x 'RETURN $x'
refused "text in quotes" query db --param x=Ann 'RETURN $x'
refused "--param x is given twice" query db --param x=1 --param x=2 'RETURN $x'
refused "expected NAME=EXPRESSION" query db --param =1 'RETURN 1'
refused 'the name has no $ here: --param x' query db --param '$x=1' 'RETURN $x'
query '{"x":1}' --json --param 'x = 1' 'RETURN $x AS x'
refused "--engine-cpus: CPU list \"x\"" query db --engine-cpus x 'RETURN 1'
refused "--engine" query db --engine foo 'RETURN 1'
"$PULSE" graph query db "RETURN 'a\\tb\\nc' AS text" | grep -qF 'a\tb\nc' || fail "a tab and a new line in a table"
refused "the parameter" query db 'RETURN $x'
refused "for reading" query db --read-only 'CREATE (n)'
refused "--memory" query db --memory lots 'RETURN 1'
refused "limit" query db --query-memory 1M 'UNWIND range(1, 10000000) AS x RETURN collect(x)'
sorted='UNWIND range(1, 50000) AS x WITH x, toString(x) AS t ORDER BY t DESC RETURN collect(x)[0] AS x'
mkdir spilled
query '{"x":9999}' --json --query-memory 8M --spill spilled "$sorted"
[ -z "$(ls -A spilled)" ] || fail "a query has left files: $(ls -A spilled)"
refused "limit of 4194304 bytes of memory" query db --query-memory 4M --spill-limit 0 "$sorted"
refused "--spill-limit" query db --query-memory 8M --spill spilled --spill-limit 64K "$sorted"
refused "--transaction-memory sets the limit" query db --transaction-memory 1M \
  'UNWIND range(1, 100000) AS x CREATE (:TooMuch {x: x})'
query '{"n":0}' --json 'MATCH (n:TooMuch) RETURN count(n) AS n'
"$PULSE" graph query db --retain -1 'RETURN 1' >retain.out 2>&1 && fail "--retain -1 is taken"
for bad in -1 many 1.5 1000000000001 99999999999999999999; do
  "$PULSE" graph query db --retain "$bad" 'RETURN 1' >retain.out 2>&1 && fail "--retain $bad is taken"
  grep -F -- '--retain' retain.out | grep -F -- "$bad" | grep -qF 1000000000000 || fail "--retain $bad: no reason" retain.out
done
(ulimit -f 100 && exec "$PULSE" graph query confined 'UNWIND range(1, 200000) AS i CREATE (:N {i: i})') >confined.out 2>&1
[[ $? == 1 ]] && grep -qF 'ulimit -f' confined.out || fail "a commit beyond a limit of file sizes" confined.out
refused "longer than its limit" query db --timeout 0.2 \
  'UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(b)'
refused "limit of time" query db --timeout 1e-12 'UNWIND range(1, 1000000) AS a RETURN count(a)'
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
# Statements end at semicolons of their own, wherever the line ends.
"$PULSE" graph shell db --json >shell.out 2>shell.err <<'SHELL' || fail "where statements end" shell.err
// a comment; before all
RETURN 1 AS a; // one; behind
RETURN 2 AS a; RETURN 3 AS a;;
RETURN 'x;
y\';' AS b;
RETURN /* ;
*/ "/*;" AS `c;
d`;
:begin; // nothing
:rollback
:param x: 4
:param `y z` => ';' // a comment
:param {v: 6, w: 7}
:param u 8
RETURN $x + $v + $w + $u AS sum, $`y z` AS text;
// the end
SHELL
[[ $(cat shell.out) == '{"a":1}
{"a":2}
{"a":3}
{"b":"x;\ny'"'"';"}
{"c;\nd":"/*;"}
{"sum":25,"text":";"}' ]] || fail "where statements end" shell.out
# A command ends with its line, whatever quote is open there.
"$PULSE" graph shell db --json >shell.out 2>shell.err <<'SHELL' || fail "a lone quote in a command" shell.err
:help don't
RETURN 1 AS a;
:help "; RETURN 0 AS a;
RETURN 2 AS a;
:help `
RETURN 3 AS a;
:help 'a backslash \
RETURN 'it\'s;
4' AS a;
:param q 'it\'s; here'
RETURN $q AS a;
SHELL
[[ $(grep '^{' shell.out) == '{"a":1}
{"a":2}
{"a":3}
{"a":"it'"'"'s;\n4"}
{"a":"it'"'"'s; here"}' ]] || fail "a lone quote in a command" shell.out
for script in ':param x' ':param x-3' ':param x+y => 3' ':param {a}' ':param [1]' 'RETURN 1; /* RETURN 2;' 'RETURN ";'; do
  if printf '%s\n' "$script" | "$PULSE" graph shell db >shell.out 2>&1; then fail "the shell takes: $script"; fi
done
if [[ -e /dev/full ]]; then
  refused_full() { "$PULSE" graph query db "$1" 2>&1 >/dev/full; }
  [[ $(refused_full 'CREATE (:Full) RETURN 1') == *"is committed: do not run it again"* ]] || fail "a full device"
  query '{"n":1}' --json 'MATCH (f:Full) RETURN count(f) AS n'
  [[ $(refused_full 'RETURN 1') == *"writing the result"* ]] || fail "a full device, reading"
  [[ $(refused_full 'RETURN 1') != *"is committed"* ]] || fail "a full device, reading, and a commit"
fi
# A reader who has enough is no error. What writes runs to its end, what reads stops, and so does the shell.
enough() { # WHAT STATUSES-OF-THE-PIPE
  [[ "$2" == "0 0" ]] || fail "$1, and a reader who has enough: $2" piped.err
  ! grep -q '^pulse: ' piped.err || fail "$1, and a reader who has enough, is an error" piped.err
}
endless='UNWIND range(1, 100000) AS i UNWIND range(1, 100000) AS j RETURN j'
for json in "" --json; do
  # shellcheck disable=SC2086
  timeout 120 "$PULSE" graph query piped $json 'UNWIND range(1, 20000) AS i CREATE (n:X {i: i}) RETURN i' 2>piped.err |
    head -n 1 >head.out
  enough "a statement that writes" "${PIPESTATUS[*]}"
  # shellcheck disable=SC2086
  timeout 120 "$PULSE" graph query piped $json "$endless" 2>piped.err | head -n 1 >head.out
  enough "a statement that reads" "${PIPESTATUS[*]}"
done
said=$("$PULSE" graph query piped --json 'MATCH (n:X) RETURN count(n) AS n')
[[ "$said" == '{"n":40000}' ]] || fail "what was written for a reader who has enough: $said"
printf '%s;\n' "$endless" 'CREATE (:Behind)' |
  timeout 120 "$PULSE" graph shell piped 2>piped.err | head -n 1 >head.out
statuses=("${PIPESTATUS[@]}")
enough "a shell" "${statuses[1]} ${statuses[2]}"
said=$("$PULSE" graph query piped --json 'MATCH (n:Behind) RETURN count(n) AS n')
[[ "$said" == '{"n":0}' ]] || fail "a shell whose reader has gone goes on: $said"
# Standard input that cannot be read is not empty.
refused "reading standard input" shell db <&-
refused "reading standard input" shell db <.
refused "reading standard input" query db - <.
"$PULSE" graph shell db >shell.out 2>&1 <<<$':param {`a\033[2J`: 1}\n:params' || fail "a parameter of a strange name" shell.out
grep -qF 'a?[2J: 1' shell.out || fail "a parameter of a strange name" shell.out
python3 "$here/graph_shell_terminal.py" "$PULSE" db >terminal.out 2>&1 || fail "the shell on a terminal" terminal.out
if printf ':begin\nCREATE (:Lost);\n' | "$PULSE" graph shell db >shell.out 2>shell.err; then
  fail "a transaction that nobody committed ends with success"
fi
grep -q 'nothing since :begin was written' shell.err || fail "what became of the transaction" shell.err

note "a server, readers beside it, a second writer, a kill"
start serve.log "$PULSE" graph serve db --bolt 0
server=$STARTED
await 60 grep -q 'process [0-9]' serve.log || fail "the server does not start" serve.log
refused "has the database open for writing" query db "CREATE (:Person {name: 'Eve'})"
query '{"n":3}' --json 'MATCH (p:Person) RETURN count(p) AS n'
# A shell that was opened before a commit sees it.
mkfifo following
"$PULSE" graph shell followed --read-only --json <following >follow.out 2>&1 &
reader=$!
exec 8>following
printf 'MATCH (p:Person) RETURN count(p) AS n;\n' >&8
await 60 grep -q '"n":1' follow.out || fail "a shell's first answer" follow.out
"$PULSE" graph query followed 'CREATE (:Person), (:Person)' >/dev/null || fail "a commit beside a reader"
printf 'MATCH (p:Person) RETURN count(p) AS n;\n' >&8
exec 8>&-
ends_well "$reader" || fail "a shell that follows" follow.out
[[ $(cat follow.out) == $'{"n":1}\n{"n":3}' ]] || fail "what a shell that follows has seen" follow.out
kill -9 "$server"
wait "$server" 2>/dev/null
query $'1 nodes created, 1 properties set, 1 labels added' "CREATE (:Person {name: 'Eve'})"
query '{"n":4}' --json 'MATCH (p:Person) RETURN count(p) AS n'
start serve.log "$PULSE" graph serve db --bolt 0
server=$STARTED
await 60 grep -q 'process [0-9]' serve.log || fail "the server does not start again" serve.log
kill "$server"
ends_well "$server" || fail "the server does not end well" serve.log
refused "is reached by other machines" serve db --bolt 0 --bind 0.0.0.0
refused "without a password" serve db --bolt 0 --metrics 0.0.0.0:0
refused "expected PORT" serve db --bolt 0 --metrics nonsense
"$PULSE" graph serve db --bolt 0 --tls-cert file 2>refused.err
[[ $? == 2 ]] || fail "--tls-cert alone is no usage error" refused.err
grep -qF -- "--tls-cert requires --tls-key" refused.err || fail "--tls-cert alone" refused.err

note "metrics"
start serve.log "$PULSE" graph serve counted --bolt 0 --http 0 --metrics 0 --timeout 3
server=$STARTED
await 60 grep -q 'metrics at' serve.log || fail "the server does not start" serve.log
python3 "$here/graph_metrics_check.py" "$(grep -o 'http://127.0.0.1:[0-9]*/metrics' serve.log)" \
  "$(grep -o 'http://127.0.0.1:[0-9]*/$' serve.log)" "$(sed -n 's/.*bolt:.*:\([0-9]*\) (process.*/\1/p' serve.log)" \
  >metrics.log 2>&1 || fail "metrics" metrics.log
note "$(tail -n 1 metrics.log)"
metrics=$(sed -n 's|.*http://\(127.0.0.1:[0-9]*\)/metrics.*|\1|p' serve.log)
"$PULSE" top --once --interval 0.2 --json --graph "$metrics" >top.json 2>&1 || fail "pulse top" top.json
python3 - top.json <<'PY' || fail "pulse top's figures" top.json
import json, sys
graph = json.load(open(sys.argv[1]))["graph"][0]
assert graph["resident_bytes"] > 1 << 20 and graph["interval_seconds"] > 0, graph
assert graph["transactions_open"] == 0 and not graph["maintenance_failed"], graph
PY
"$PULSE" top --once --interval 0.2 --graph "${metrics#127.0.0.1:}" >top.txt 2>&1 || fail "pulse top" top.txt
grep -q ' statements ' top.txt || fail "pulse top shows no graph" top.txt
kill "$server"
ends_well "$server" || fail "the server does not end well" serve.log
note "done"
