#!/usr/bin/env bash
# bench-tiny.sh BUILD_DIR: every benchmark in its tiny size, so that none rots. Figures mean nothing.
set -euo pipefail
build=${1:?usage: bench-tiny.sh BUILD_DIR}

out=$build/bench-tiny  # ignored by git, whatever ends this
rm -rf "$out"
trap 'rm -rf "$out"' EXIT
printf '== pulse bench all --tiny\n'
"$build/bin/pulse" bench all --tiny --out "$out" || {
  tail -n 20 "$out"/logs/*.log
  exit 1
}
# What is not a paper's.
for name in fill soak crash; do
  printf '== pulse bench %s --tiny\n' "$name"
  "$build/bin/pulse" bench "$name" --tiny
done
# Workloads that read, scan, insert, and read, modify, write.
printf '== pulse bench ycsb --tiny\n'
"$build/bin/pulse" bench ycsb --tiny --workloads load,E,F
for program in "$build"/bin/*_bench; do
  [[ -x "$program" ]] || continue
  printf '== %s\n' "$(basename "$program")"
  # Without what makes a million of something.
  PULSE_BENCH_EDGES=20000 "$program" --benchmark_min_time=0.01 --benchmark_filter=-/1000000
done
