#!/usr/bin/env bash
# `pulse bench ycsb`: that it sees a wrong database, and what it refuses. usage:
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

# ---- what is refused
expect_error unknown-workload '"G";;load, A, B, C, F, D, E' "${ycsb[@]}" --workloads A,G
expect_error unknown-opponent '"rocks";;stock-default, stock-bps' "${ycsb[@]}" --opponents rocks
expect_error value-too-small '--value 7;;8 to' "${ycsb[@]}" --value 7
expect_error no-room 'needs;;smaller --size' "${ycsb[@]}" --size 1000T

note "pulse bench ycsb reports, checks and refuses"
