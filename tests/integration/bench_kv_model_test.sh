#!/usr/bin/env bash
# `pulse bench kv --part model`: that it measures, that the same costs give the same figures, and what
# it refuses. usage:
#   bench_kv_model_test.sh PLUGIN PULSE SCRATCH DB_CHECK

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch

model=("$PULSE" bench kv --part model --tiny --allow-tmpfs --dir "$SCRATCH/bench")

run_ok measured 200 "${model[@]}" --json "$SCRATCH/measured.json"
require_match measured 'beside what two CPUs measure;;bf2, inputs measured;;bf3, inputs paper;;leaves out dual' \
  "$SCRATCH/measured.log"
for run in a b; do
  run_ok "$run" 100 "${model[@]}" --costs "$SCRATCH/measured.json" --json "$SCRATCH/$run.json" \
    --hypothetical --seed 5
done
python3 - "$SCRATCH" <<'PY' || fail "the model's figures"
import json, sys
load = lambda name: json.load(open(f"{sys.argv[1]}/{name}.json"))["model"]
first, a, b = load("measured"), load("a"), load("b")
assert a == b, "the same costs and seed give other figures"
assert a["costs"] == first["costs"]
designs = lambda model, card: {row["design"] for row in model["peaks"] if row["card"] == card}
six = {"cpu", "dpu", "lat", "sav", "dual", "shrd"}
assert designs(first, "bf2") == designs(a, "bf3") == six
assert designs(first, "bf3") == six - {"dual", "shrd"}
cores = {row["design"]: row["host_cores"] for row in a["peaks"]}
assert cores == {"shrd": 8, "dual": 3, "cpu": 8, "lat": 8, "sav": 1, "dpu": 0}, cores
assert len({row["workload"] for row in a["peaks"]}) == 6
assert {row["verdict"] for row in a["paper"]} <= {"within 25 %", "missed"}
PY
note "the model measures, and repeats itself"

# So slow that some designs serve nothing within the simulated time: they have no latencies.
python3 - "$SCRATCH/measured.json" "$SCRATCH/slow.json" <<'PY'
import json, sys
report = json.load(open(sys.argv[1]))
for workload in report["model"]["costs"].values():
    if isinstance(workload, dict):
        for run in ("lat", "lat-small"):
            workload.get(run, {}).update(host_ns=1e6, receive_ns=1e6)
json.dump(report, open(sys.argv[2], "w"))
PY
run_ok slow 100 "${model[@]}" --costs "$SCRATCH/slow.json" --json "$SCRATCH/slow-out.json"
require_match slow 'lat  .*0.00.* -  .* -' "$SCRATCH/slow.log"
note "the model prints designs that serve nothing"

expect_error bf3-dual 'dual cannot run on bf3;;--hypothetical' "${model[@]}" --designs cpu,dual --profiles bf3
expect_error no-design '--designs fast;;cpu, dpu, lat, sav, dual, shrd' "${model[@]}" --designs fast
expect_error no-profile 'bf9;;bf2, bf3' "${model[@]}" --profiles bf9
expect_error no-costs 'no such file' "${model[@]}" --costs "$SCRATCH/none.json"
echo '{"model": {"costs": {"transfer_ns": 5}}}' >"$SCRATCH/half.json"
expect_error half-costs 'no measured costs;;--json' "${model[@]}" --costs "$SCRATCH/half.json"
sed 's/"host_ns": [0-9][0-9.e+-]*/"host_ns": 0/' "$SCRATCH/measured.json" >"$SCRATCH/zero.json"
expect_error zero-costs 'no measured costs;;host_ns;;--json' "${model[@]}" --costs "$SCRATCH/zero.json"
note "the model refuses what cannot be"
