#!/usr/bin/env bash
# `pulse bench kv --part designs`, `--part queue`, `--part redis` and `--engine mica`: that they measure
# what their names say, and what they refuse. usage:
#   bench_kv_designs_test.sh PLUGIN PULSE SCRATCH DB_CHECK

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch

bench=("$PULSE" bench kv --tiny --allow-tmpfs --dir "$SCRATCH/bench")

run_ok plain 200 "${bench[@]}" --part designs --json "$SCRATCH/plain.json"
run_ok bf2 200 "${bench[@]}" --part designs --profile bf2 --engine mica --json "$SCRATCH/bf2.json"
run_ok bf3 200 "${bench[@]}" --part designs --profile bf3 --hypothetical --designs dual,shrd \
  --json "$SCRATCH/bf3.json"
run_ok queue 200 "${bench[@]}" --part queue --json "$SCRATCH/queue.json"
run_ok engine 200 "${bench[@]}" --part engine --json "$SCRATCH/engine.json"
run_ok mica 200 "${bench[@]}" --part network --engine mica --json "$SCRATCH/mica.json"
servers=(pulse-kv mica-packets)
if command -v redis-server >/dev/null; then servers+=(redis-server); fi
run_ok redis 200 "${bench[@]}" --part redis --variants "${servers[@]}" --json "$SCRATCH/redis.json"
require_match bf2 'The agent as on bf2' "$SCRATCH/bf2.log"
python3 - "$SCRATCH" "${servers[@]}" <<'PY' || fail "the figures of designs and queue"
import json, sys
load = lambda name: json.load(open(f"{sys.argv[1]}/{name}.json"))
def runs(found, begin):
    return {name: {run["variant"]: run for run in part["runs"]}
            for name, part in found["parts"].items() if name.startswith(begin)}
plain, bf2, bf3 = (runs(load(name), "designs-") for name in ("plain", "bf2", "bf3"))
for found, names in ((plain, {"cpu", "cpu-2", "dpu", "lat", "sav"}),
                     (bf2, {"cpu", "cpu-2", "dpu", "lat", "sav", "dual", "shrd"}),
                     (bf3, {"dual", "shrd"})):
    assert len(found) == 2, found.keys()
    for workload, designs in found.items():
        assert set(designs) == names, (workload, designs.keys())
        for name, run in designs.items():
            assert run["ops_per_s"] > 0 and run["malformed"] == 0, (workload, run)
            # Of pulse nothing is missing; of mica a key that its index lost.
            assert found is bf2 or run["not_ok"] == 0, (workload, run)
            for load_percent in (20, 95):
                assert run[f"p99_us_{load_percent}"] >= run[f"p50_us_{load_percent}"] > 0, run
            assert (run["host_ns"] > 0) == (name != "dpu"), run
            assert ("request_bytes" in run) == (name in ("lat", "sav", "dual")), run
for designs in bf2.values():
    # A request waits for one transfer each way, of 7.8 us and more.
    assert designs["lat"]["p50_us_20"] > 15.6, designs["lat"]
queue = runs(load("queue"), "queue-")
for op, packet in (("queue-get", (66, 66)), ("queue-set", (74, 58))):
    for name, run in queue[op].items():
        batch = int(name.split("-")[1])
        assert abs(run["request_bytes"] - (32 + 8 / batch)) < 1e-6, run
        assert abs(run["response_bytes"] - (16 + 8 / batch)) < 1e-6, run
        assert (run["packet_request_bytes"], run["packet_response_bytes"]) == packet, run
for way in ("queue-write", "queue-read"):
    for card in ("bf2", "bf3"):
        assert queue[way][f"{card}-polling"]["ns_2"] >= 7800
        assert queue[way][f"{card}-event"]["ns_2"] >= 7800
        assert queue[way][f"{card}-nonblocking"]["ns_2"] > 0
engine = runs(load("engine"), "engine-")
assert all({"batch", "mica"} <= set(part) for part in engine.values())
assert all(part["batch"]["missed_percent"] == 0 for part in engine.values())
mica = runs(load("mica"), "network-")
assert all(part["lat"]["ops_per_s"] > 0 for part in mica.values())
redis = runs(load("redis"), "redis-")
assert set(redis) == {"redis-A-uniform", "redis-C-zipf"}, redis.keys()
for servers in redis.values():
    assert set(servers) == set(sys.argv[2:]), servers.keys()
    for name, run in servers.items():
        assert run["ops_per_s"] >= run.get("within_50us_per_s", 1) > 0 and run["least_p50_us"] > 0, run
        if name == "mica-packets": continue
        counts = (1, 2, 4, 8, 16, 64, 256)
        assert run["ops_per_s"] == max(run[f"per_s_c{count}"] for count in counts), run
        assert run["least_p50_us"] == min(run[f"p50_us_c{count}"] for count in counts), run
PY
note "designs, queue, the paper's store and Redis are measured"

expect_error bf3-dual 'dual cannot run on bf3;;--hypothetical' \
  "${bench[@]}" --part designs --profile bf3 --designs dual
expect_error no-design '--designs fast;;cpu, dpu, lat, sav, dual, shrd' \
  "${bench[@]}" --part designs --designs fast
expect_error no-profile 'bf9;;bf2, bf3' "${bench[@]}" --part designs --profile bf9
expect_error queue-profile 'bf9;;bf2, bf3' "${bench[@]}" --part queue --profile bf9
expect_error engine-profile '--profile is of --part designs and queue' \
  "${bench[@]}" --part engine --profile bf2
expect_error shm-mica '--engine mica is of --part engine, network and designs' \
  "${bench[@]}" --part shm --engine mica
expect_error queue-designs '--designs is of --part designs and model' \
  "${bench[@]}" --part queue --designs lat
expect_error no-engine '--engine' "${bench[@]}" --part engine --engine cuckoo
note "what cannot be is refused"
