#!/usr/bin/env bash
# Whether `pulse kv` and its agent obey --memory under churn, in short: scripts/kv-memory.py, whose
# long form measures what docs/services/kv.md promises. usage:
#   kv_memory_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
script="$here/../../scripts/kv-memory.py"

# 1. More than the limit is written, most of it expires or is evicted, and the sum stays below; so it does
# with values of the longest length, also where --max-value makes that longer.
run_ok memory 300 "$script" "$PULSE" --seconds 8 --bytes 384M --memory 192M --longest-ttl 5 \
  --json "$SCRATCH/memory.json"
python3 - "$SCRATCH/memory.json" <<'EOP' || fail "the numbers make no sense" "$SCRATCH/memory.log"
import json, sys
result = json.load(open(sys.argv[1]))
assert result["ok"] and result["samples"] > 1 and result["sets"] > 0, result
assert result["bytes"] > result["memory_bytes"], result
assert set(result["largest_pss"]) == {"kv", "agent"} and min(result["largest_pss"].values()) > 1 << 20, result
assert result["largest_sum"] <= sum(result["largest_pss"].values()), result
assert result["large_values"] > 0 and result["longest_value"] > 1 << 20, result
assert result["kv_peak"] >= result["largest_pss"]["kv"], result
EOP
run_ok large 300 "$script" "$PULSE" --seconds 1 --bytes 256M --memory 256M --max-value 48M --alone

# 2. It can fail: a limit that the process cannot keep, and a program that does not start.
"$script" "$PULSE" --seconds 1 --memory 192M --alone --tolerance -0.99 >"$SCRATCH/exceeded.log" 2>&1
(($? == 1)) || fail "a sum above the limit is no failure" "$SCRATCH/exceeded.log"
"$script" "$PULSE" --seconds 1 --memory 1M >"$SCRATCH/small.log" 2>&1
(($? == 2)) || fail "a server that does not start is no error" "$SCRATCH/small.log"
grep -q -- '--memory 1M' "$SCRATCH/small.log" || fail "it does not say why" "$SCRATCH/small.log"
