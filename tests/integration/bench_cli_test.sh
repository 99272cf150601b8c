#!/usr/bin/env bash
# `pulse bench ycsb`: that it sees a wrong database, and what it refuses. `pulse bench paper`: that it
# goes on where it was stopped, and what it reports. usage:
#   bench_cli_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch

dir="$SCRATCH/bench"
ycsb=("$PULSE" bench ycsb --tiny --allow-tmpfs --dir "$dir")

# ---- reads, updates and inserts; the database is kept
run_ok ycsb 120 "${ycsb[@]}" --workloads d,a --keep --seed 7
require_match ycsb 'Workload A;;Workload D;;stock-2cpu;;read, pulse;;write, pulse;;throughput' \
  "$SCRATCH/ycsb.log"
[[ -s "$dir/ycsb.json" ]] || fail "ycsb: no report in $dir"

# ---- a database that holds other values than it should
sed -i 's/"seed": 7/"seed": 8/' "$dir/loaded.json"
for workload in A C E; do
  expect_error "wrong-values-$workload" 'read a wrong database;;key number' \
    "${ycsb[@]}" --workloads "$workload" --keep --seed 8
done
# ... and one that lacks records: twice as many are said to be there.
sed -i 's/"seed": 8/"seed": 7/; s/"operations": 6049/"operations": 12098/' "$dir/loaded.json"
expect_error missing-records 'read a wrong database;;is missing' \
  "${ycsb[@]}" --workloads C --keep --seed 7 --records 12098

# ---- another shape: in the report, and another database than the one that was kept
run_ok memtable 120 "${ycsb[@]}" --workloads C --keep --seed 7 --memtable 2M
grep -q '"level1_bytes": 8388608' "$dir/ycsb.json" || fail "--memtable is not in the report"
grep -q '"memtable_bytes": 2097152' "$dir/loaded.json" || fail "--memtable: an older database ran"

# ---- each variant on what it loaded itself
run_ok own-load 120 "${ycsb[@]}" --workloads load,F --load own --keep --seed 7
require_match own-load 'loaded by each variant for itself;;Workload F' "$SCRATCH/own-load.log"
grep -q '"initial_database": "loaded by each variant' "$dir/ycsb.json" ||
  fail "own-load: the report does not say who loaded"
for variant in stock-default stock-2cpu pulse; do
  grep -q "\"name\": \"$variant\"" "$dir/loaded-$variant.json" ||
    fail "own-load: no database that $variant has loaded"
done

# ---- what is refused
expect_error unknown-load '--load: theirs not in' "${ycsb[@]}" --load theirs
expect_error unknown-workload '"G";;load, A, B, C, F, D, E' "${ycsb[@]}" --workloads A,G
expect_error unknown-variant '"rocks";;stock-default, stock-bps' "${ycsb[@]}" --variants rocks
expect_error value-too-small '--value 7;;8 to' "${ycsb[@]}" --value 7
expect_error small-memtable '--memtable 512K;;at least 1M' "${ycsb[@]}" --memtable 512K
expect_error large-memtable '--memtable 2G;;1G at most' "${ycsb[@]}" --memtable 2G
expect_error no-room 'needs;;smaller --size' "${ycsb[@]}" --size 1000T

note "pulse bench ycsb reports, checks and refuses"

# ---- operators: every part; files that are given; what is refused
ops=("$PULSE" bench ops --tiny)
mkdir -p "$SCRATCH/corpus"
seq 20000 >"$SCRATCH/corpus/numbers"
run_ok ops 240 "${ops[@]}" --corpus "$SCRATCH/corpus" --json "$SCRATCH/ops.json"
require_match ops 'Operators on 1 files;;Replayed: bf2;;Table 2;;Table 3;;Figure 8;;Figure 15;;Figure 14;;none, regex;;bf3, decompress-lz4;;fCPU;;cDECOMP;;slows down at half;;many sizes;;hyperscan' \
  "$SCRATCH/ops.log"
for word in '"auto_by_best"' '"replayed": true' '"loss_chunks"' '"init_share"' '"gib_per_s"' '"changes"' '"cards"' \
  '"placement": "cREG"'; do
  grep -q "$word" "$SCRATCH/ops.json" || fail "ops: no $word in the report"
done
expect_error ops-part 'part' "${ops[@]}" --part everything
expect_error ops-corpus 'no/where' "${ops[@]}" --corpus /no/where
expect_error ops-step 'multiple' "${ops[@]}" --step 7
expect_error ops-profile 'known are bf2, bf3' "${ops[@]}" --profiles bf9

note "pulse bench ops reports and refuses"

# ---- graphs: both variants of GTPC, or the one that is named
run_ok graph 240 "$PULSE" bench graph --tiny --allow-tmpfs --dir "$SCRATCH/graph" --part gtpc --only Q1
require_match graph 'repaired;;published;;Q1' "$SCRATCH/graph.log"
run_ok graph-repaired 240 "$PULSE" bench graph --tiny --allow-tmpfs --dir "$SCRATCH/graph" \
  --part gtpc --only Q1 --variants repaired
grep -q published "$SCRATCH/graph-repaired.log" && fail "graph: --variants repaired ran another" \
  "$SCRATCH/graph-repaired.log"
run_ok graph-alone 240 "$PULSE" bench graph --tiny --allow-tmpfs --dir "$SCRATCH/graph" \
  --part core --part reopen --part oltp --part copy --part flush --json "$SCRATCH/graph.json"
require_match graph-alone \
  'tier to DRAM;;sim .stand-in. to tier;;half in the tier;;durable;;flushing on;;flushing off' \
  "$SCRATCH/graph-alone.log"
require_match graph-alone '"insert_flushed";;"limit_bytes";;"hybrid";;"copies_tier_s"' "$SCRATCH/graph.json"
expect_error graph-variant '--variants theirs: choose of repaired, published' \
  "$PULSE" bench graph --tiny --variants theirs

note "pulse bench graph reports and refuses"

# ---- the paper's experiments: killed after the first one, then taken up again
out="$SCRATCH/paper"
paper=("$PULSE" bench paper --tiny --allow-tmpfs --out "$out")
start "$SCRATCH/killed.log" "${paper[@]}" --only tails,queue
await 120 test -s "$out/tails.json" || fail "paper: no result of tails" "$SCRATCH/killed.log"
kill -9 "$STARTED" 2>/dev/null
wait "$STARTED" 2>/dev/null
first=$(stat -c %Y.%i "$out/tails.json")
run_ok resumed 120 "${paper[@]}" --only tails,queue
require_match resumed 'tails: done before' "$SCRATCH/resumed.log"
[[ $(stat -c %Y.%i "$out/tails.json") == "$first" ]] || fail "paper: a result was made again"
[[ -s "$out/report.html" ]] || fail "paper: no report"
for word in '"experiment": "queue"' '"Fig. 17"' '"units"' '"machine"' '"pulse-512M"' '"scale"'; do
  grep -q -- "$word" "$out/queue.json" || fail "paper: queue.json lacks $word"
done
run_ok done-all 60 "${paper[@]}" --only tails,queue
require_match done-all 'tails: done before;;queue: done before' "$SCRATCH/done-all.log"

# ---- killed in the middle of --redo: what it has made anew stays
redone() { [[ -e "$out/tails.json.old" && -s "$out/tails.json" ]]; }
start "$SCRATCH/killed-redo.log" "${paper[@]}" --only tails,queue --redo
await 120 redone || fail "paper: --redo makes nothing anew" "$SCRATCH/killed-redo.log"
kill -9 "$STARTED" 2>/dev/null
wait "$STARTED" 2>/dev/null
if [[ -e "$out/redo.log" ]]; then # or it was faster than the signal
  # A tree with changes has builds of one name.
  run_ok redo-on 120 "${paper[@]}" --only tails,queue --redo --keep-older
  require_match redo-on 'an interrupted --redo goes on;;tails: done anew before' "$SCRATCH/redo-on.log"
fi

expect_error other-settings 'tails\.json;;seed: 1 there, 9 now;;--redo' \
  "${paper[@]}" --only tails --seed 9
run_ok redo 120 "${paper[@]}" --only tails --seed 9 --redo
grep -q '"seed": 9' "$out/tails.json" || fail "paper: --redo has not replaced the result"
grep -q '"seed": 1' "$out/tails.json.old" || fail "paper: --redo has not kept the earlier result"
[[ ! -e "$out/redo.log" ]] || fail "paper: a finished --redo is still to go on"
[[ ! -e "$out/tails.part" ]] || fail "paper: the rows of a finished experiment are still there"

# ---- another version's result is named; kept only if that is said, and marked
grep -q '"revision": "[^"]' "$out/tails.json" || fail "paper: no revision in the result"
sed -i 's/"revision": "[^"]*"/"revision": "long-ago"/' "$out/tails.json"
expect_error other-version 'tails\.json;;another version;;long-ago;;--keep-older' \
  "${paper[@]}" --only tails --seed 9
run_ok keep-older 60 "${paper[@]}" --only tails --seed 9 --keep-older
require_match keep-older 'tails: done before by another version' "$SCRATCH/keep-older.log"
grep -q 'Measured by PulseDB [^<]*long-ago' "$out/report.html" || fail "paper: the report does not mark it"

# ---- a result without rows is none; a variant's turn is recorded, and changes
python3 - "$out/tails.json" <<'PY'
import json, sys
result = json.load(open(sys.argv[1]))
result["rows"] = []
json.dump(result, open(sys.argv[1], "w"))
PY
run_ok no-rows 120 "${paper[@]}" --only tails --pairs 2 --seed 9
require_match no-rows 'tails.json has no rows; runs again' "$SCRATCH/no-rows.log"
python3 - "$out/tails.json" <<'PY' || fail "paper: variants do not take turns"
import json, sys
runs = json.load(open(sys.argv[1]))["rows"][0]["runs"]
first = {run["pair"]: run["variant"] for run in runs if run["turn"] == 1}
assert len(set(first.values())) == 2, first
assert all("compaction_cpu_s" in run for run in runs), runs[0]
PY

# ---- killed in the middle of an experiment: its rows are kept
has_rows() { grep -q '"label": "128 B"' "$out/fillrandom.part" 2>/dev/null || [[ -e "$out/fillrandom.json" ]]; }
# Unless it had a row already, or all.
says_begun() { grep -qE 'fillrandom: (was interrupted before its first row|done before|.*(goes|go) on)' "$SCRATCH/killed-row.log"; }
begun() { [[ -s "$out/fillrandom.part" ]]; }
start "$SCRATCH/killed-begun.log" "${paper[@]}" --only fillrandom
await 120 begun || fail "paper: nothing says that an experiment was begun" "$SCRATCH/killed-begun.log"
kill -9 "$STARTED" 2>/dev/null
wait "$STARTED" 2>/dev/null
# Where it was faster than the signal, it is tried again.
for try in 1 2 3 4 5; do
  start "$SCRATCH/killed-row.log" "${paper[@]}" --only fillrandom
  if ((try == 1)); then
    await 60 says_begun || fail "paper: does not say that it begins again" "$SCRATCH/killed-row.log"
  fi
  await 120 has_rows || fail "paper: no rows kept" "$SCRATCH/killed-row.log"
  kill -9 "$STARTED" 2>/dev/null
  wait "$STARTED" 2>/dev/null
  [[ -e "$out/fillrandom.json" ]] || break
  ((try < 5)) || fail "paper: was always through before the signal came" "$SCRATCH/killed-row.log"
  rm -f "$out/fillrandom.json" "$out/fillrandom.part"
done
# The revision of a tree with changes says little: only if asked.
run_ok rest 200 "${paper[@]}" --only fillrandom --keep-older
require_match rest 'fillrandom: goes on where it was interrupted; done before: 128 B' "$SCRATCH/rest.log"
grep -q '"label": "2048 B"' "$out/fillrandom.json" || fail "paper: the rest was not run"

expect_error unknown-experiment '"tables";;fillrandom, overwrite, tails, ycsb' \
  "${paper[@]}" --only tables
expect_error bad-scale '--scale 0;;up to 1' "${paper[@]}" --scale 0
note "pulse bench paper goes on where it was stopped"

# ---- the report of what is there, without running anything
rm "$out/report.html"
printf 'By hand.\n' >"$SCRATCH/doc.md"
expect_error no-markers 'doc\.md does not say where;;pulse bench paper: begin' \
  "${paper[@]}" --only engines --markdown "$SCRATCH/doc.md"
[[ ! -e "$out/engines.json" ]] || fail "paper: ran before it saw that it could not report"
printf '<!-- pulse bench paper: begin -->\n<!-- pulse bench paper: end -->\n' >>"$SCRATCH/doc.md"
run_ok report-only 60 "$PULSE" bench paper --out "$out" --report-only --markdown "$SCRATCH/doc.md"
for word in 'id="tails"' 'To run it: <code>pulse bench paper --out [^<]* --tiny [^<]*--only ycsb</code>' '<svg'; do
  grep -q -- "$word" "$out/report.html" || fail "paper: the report lacks $word"
done
grep -q '^By hand\.$' "$SCRATCH/doc.md" || fail "paper: a document has lost what was not ours"
[[ -s "$SCRATCH/doc-plots/tails-dark.svg" ]] || fail "paper: no plots beside the document"
expect_error no-results 'no result in;;without --report-only' \
  "$PULSE" bench paper --out "$SCRATCH/nowhere" --report-only

# ---- a file that is no result is named; the rest is reported
printf '{' >"$out/serve.json"
run_ok malformed 60 "$PULSE" bench paper --out "$out" --report-only
require_match malformed 'serve\.json is no JSON;;run its benchmark again' "$SCRATCH/malformed.log"
rm "$out/serve.json"

# ---- without Python or its packages: results stay, and only a report that was asked for fails
mkdir "$SCRATCH/without"
printf 'raise ImportError("No module named matplotlib")\n' >"$SCRATCH/without/matplotlib.py"
for lacks in PYTHONPATH="$SCRATCH/without" PULSE_PYTHON=/nonexistent/python3; do
  rm -f "$out/engines.json"
  run_ok no-python 120 env "$lacks" "${paper[@]}" --only engines
  require_match no-python 'no report:;;python3-matplotlib;;the results are in' "$SCRATCH/no-python.log"
  [[ -s "$out/engines.json" ]] || fail "paper: no result without Python" "$SCRATCH/no-python.log"
  grep -q '^Report:' "$SCRATCH/no-python.log" && fail "paper: names a report that it has not made"
  expect_error no-python-report python3-matplotlib \
    env "$lacks" "$PULSE" bench paper --out "$out" --report-only
done
rm -f "$out/engines.json"
expect_error footprint-queue 'queue=;;leave that out' \
  "${paper[@]}" --only engines,footprint --redo --uri queue=8M
[[ ! -e "$out/engines.json" ]] || fail "paper: ran before it saw what it could not run"
note "pulse bench paper reports"

# `make bench-tiny` runs these experiments, too, and looks at no figure.
[[ ${PULSE_TEST_LONG:-} == 1 ]] || exit 0

# ---- memory of host and agent
run_ok footprint 120 "${paper[@]}" --only footprint
for word in '"mib_per_queue"' '"agent_idle_rss_mib"' '"4 compactions"'; do
  grep -q -- "$word" "$out/footprint.json" || fail "paper: footprint.json lacks $word"
done
[[ ! -e "$out/work/agent.sock" ]] || fail "paper: the agent has left its socket"
note "pulse bench paper measures memory"

# ---- where compactions run: what was no such thing is marked
run_ok placed 280 "${paper[@]}" --only shift,emulation
grep -q '"label": "2: the agent' "$out/shift.json" || fail "paper: shift has no rows of its phases"
grep -q '"whole_compactions": [1-9]' "$out/emulation.json" || fail "paper: nothing ran whole"
note "pulse bench paper measures placements"
