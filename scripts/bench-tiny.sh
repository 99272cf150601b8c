#!/usr/bin/env bash
# bench-tiny.sh BUILD_DIR: every benchmark in its tiny size, so that none rots. Figures mean nothing.
set -euo pipefail
build=${1:?usage: bench-tiny.sh BUILD_DIR}

for name in compaction fill soak crash failover ring kv files blocks serve director; do
  printf '== pulse bench %s --tiny\n' "$name"
  "$build/bin/pulse" bench "$name" --tiny
done
printf '== pulse bench kv --part model --tiny\n'
"$build/bin/pulse" bench kv --part model --tiny
for part in designs queue; do
  printf '== pulse bench kv --part %s --tiny\n' "$part"
  "$build/bin/pulse" bench kv --part "$part" --tiny
done
printf '== pulse bench vdpu --tiny\n'
"$build/bin/pulse" bench vdpu --tiny
# Workloads that read, scan, insert, and read, modify, write.
printf '== pulse bench ycsb --tiny\n'
"$build/bin/pulse" bench ycsb --tiny --workloads load,E,F
printf '== pulse bench paper --tiny\n'
"$build/bin/pulse" bench paper --tiny --only tails,engines,footprint,shift,emulation --redo
for program in "$build"/bin/*_bench; do
  [[ -x "$program" ]] || continue
  printf '== %s\n' "$(basename "$program")"
  # Without what makes a million of something.
  PULSE_BENCH_EDGES=20000 "$program" --benchmark_min_time=0.01 --benchmark_filter=-/1000000
done
