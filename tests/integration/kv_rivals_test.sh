#!/usr/bin/env bash
# bench/rivals/kv/tcp_rivals.py in its tiny form, with those rivals that are installed. usage:
#   kv_rivals_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH MEMCACHED_LOAD

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 LOAD=$6
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch

# 1. The comparisons.
for served in kv serve; do
  options=()
  [[ $served == kv ]] || options=(--serve)
  run_ok "rivals-$served" 600 "$here/../../bench/rivals/kv/tcp_rivals.py" "$PULSE" "$LOAD" --tiny \
    "${options[@]}" --json "$SCRATCH/rivals.json"
  python3 - "$SCRATCH/rivals.json" "$served" <<'EOP' || fail "the results make no sense" "$SCRATCH/rivals-$served.log"
import json, shutil, sys
result = json.load(open(sys.argv[1]))
assert result["served"] == sys.argv[2], result
rows = {(r["rival"], r["operation"], r["pipeline"], r["connections"]) for r in result["rows"]}
for rival, program in (("redis-server", "redis-benchmark"), ("memcached", "memcached")):
    there = shutil.which(rival) and shutil.which(program) and (rival != "memcached" or sys.argv[2] == "kv")
    assert len([r for r in rows if r[0] == rival]) == (8 if there else 0), rows
for row in result["rows"]:
    assert len(row["runs"]["pulse"]) == len(row["runs"][row["rival"]]) == result["pairs"], row
    assert row["ratio"] > 0 and all(r["requests_per_s"] > 0 for runs in row["runs"].values() for r in runs), row
EOP
done

# 2. The load by itself, as memcached may not be installed; and what it is not given, it refuses.
start_server kv load --memory 128M
for operation in get set; do
  for pipeline in 1 32; do
    run_ok "load-$operation-$pipeline" 60 "$LOAD" "$PORT" "$operation" 20 "$pipeline" 1000 100 0.2
    grep -qE '"requests_per_s": [1-9]' "$SCRATCH/load-$operation-$pipeline.log" ||
      fail "no requests" "$SCRATCH/load-$operation-$pipeline.log"
  done
done
expect_error load-usage 'usage: memcached_load' "$LOAD" "$PORT" get 20
kill "$SERVER"
ends_well "$SERVER" || fail "the store does not end well" "$SERVER_LOG"
expect_error load-nobody 'connecting to port' "$LOAD" "$PORT" get 1 1 10 100 0.1
