#!/usr/bin/env bash
# run_ops_filter_example.sh PROGRAM SCRATCH: what it writes is what gzip reads, with the lines that match.
set -euo pipefail
program=$1
scratch=$2
rm -rf "$scratch"
mkdir -p "$scratch"
for i in $(seq 20000); do echo "line $i of a log"; done >"$scratch/log"
"$program" '7[0-9] of' <"$scratch/log" >"$scratch/hits.gz"
grep '7[0-9] of' "$scratch/log" >"$scratch/expected"
gzip -dc "$scratch/hits.gz" | cmp - "$scratch/expected"
if "$program" 'no such line' <"$scratch/log" >"$scratch/none.gz"; then echo "FAIL: nothing matched, and it said 0" >&2; exit 1; fi
rm -rf "$scratch"
