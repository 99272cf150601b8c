#!/usr/bin/env bash
# Builds and runs the libFuzzer targets of tests/fuzz, each for SECONDS, and fails on a finding:
#   scripts/fuzz.sh [SECONDS [TARGET...]]    targets: NAME of each tests/fuzz/fuzz_NAME.cc
# What a run learns stays in build/fuzz/corpus; the committed corpus is only read. A finding is
# written to build/fuzz/findings, and belongs into tests/fuzz/corpus once its cause is mended.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

all=(tests/fuzz/fuzz_*.cc)
all=("${all[@]#tests/fuzz/fuzz_}")
all=("${all[@]%.cc}")
seconds=${1:-20}
[[ "$seconds" =~ ^[1-9][0-9]*$ ]] || { echo "fuzz: SECONDS must be a positive number: $seconds" >&2; exit 2; }
shift || true
targets=("$@")
((${#targets[@]} > 0)) || targets=("${all[@]}")
for target in "${targets[@]}"; do
  [[ " ${all[*]} " == *" $target "* ]] ||
    { echo "fuzz: no target $target; there are: ${all[*]}" >&2; exit 2; }
done

scripts/setup-debian.sh --fuzz
compiler=${CLANGXX:-}
for name in clang++ clang++-{14..22}; do
  if [[ -z "$compiler" ]]; then compiler=$(command -v "$name" || true); fi
done
[[ -n "$compiler" ]] || { echo "fuzz: no clang++ found; install clang, or name it in CLANGXX" >&2; exit 1; }

test -f build/fuzz/build.ninja || cmake --preset fuzz -DPULSE_UNITY=ON -DCMAKE_CXX_COMPILER="$compiler"
cmake --build --preset fuzz -j "${JOBS:-2}" --target "${targets[@]/#/fuzz_}"

export PULSE_LOG=error UBSAN_OPTIONS=print_stacktrace=1:halt_on_error=1
mkdir -p build/fuzz/findings
rm -f build/fuzz/*.failed

fuzz_one() {
  local target=$1 learned=build/fuzz/corpus/$1 log=build/fuzz/$1.log
  mkdir -p "$learned"
  build/fuzz/bin/fuzz_"$target" -max_total_time="$seconds" -timeout=20 -rss_limit_mb=2048 \
    -max_len=4096 -print_final_stats=1 -artifact_prefix="build/fuzz/findings/$target-" \
    "$learned" "tests/fuzz/corpus/$target" >"$log" 2>&1 || touch "build/fuzz/$target.failed"
  printf 'fuzz: %s: %s\n' "$target" "$(grep -oE 'stat::number_of_executed_units.*' "$log" || true)"
}
printf 'fuzz: %s, %s s each\n' "${targets[*]}" "$seconds"
for target in "${targets[@]}"; do
  while (($(jobs -rp | wc -l) >= ${JOBS:-2})); do wait -n || true; done
  fuzz_one "$target" &
done
wait

failed=()
for target in "${targets[@]}"; do
  if [[ -e build/fuzz/$target.failed ]]; then
    tail -n 60 "build/fuzz/$target.log" >&2
    failed+=("$target")
  fi
done
if ((${#failed[@]} > 0)); then
  echo "fuzz: findings in ${failed[*]}; the inputs are in build/fuzz/findings" >&2
  exit 1
fi
echo "fuzz: no findings"
