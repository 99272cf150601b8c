#!/usr/bin/env bash
# `pulse bench all`: that it runs what it says, goes on where it was stopped, names what failed, and
# compares. usage:
#   bench_all_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch

out="$SCRATCH/all"
all=("$PULSE" bench all --tiny --allow-tmpfs --out "$out")

run_ok list 60 "${all[@]}" --list
require_match list 'kv-designs;;in all' "$SCRATCH/list.log"
[[ ! -e "$out" ]] || fail "--list has made a directory"

run_ok first 300 "${all[@]}" --only ring,vdpu
require_match first '2 of 2 benchmarks to run;;report: ' "$SCRATCH/first.log"
for file in ring.json vdpu.json report.html logs/ring.log; do
  [[ -s "$out/$file" ]] || fail "there is no $file" "$SCRATCH/first.log"
done
[[ ! -e "$out/work" ]] || fail "its working directory is left"
grep -q 'id="ring"' "$out/report.html" || fail "the report has no page of the rings"
note "each benchmark leaves a result, and the report has a page for it"

# Again: what has a result is not run; one that is gone is.
rm "$out/ring.json"
run_ok again 300 "${all[@]}" --only ring,vdpu
require_match again '1 of 2 benchmarks to run' "$SCRATCH/again.log"
[[ -s "$out/ring.json" ]] || fail "what was missing is not made again" "$SCRATCH/again.log"
mkdir "$SCRATCH/released" "$SCRATCH/empty" "$SCRATCH/nothing-yet"
archive=$here/../../scripts/results-archive.sh
run_ok archive 60 "$archive" "$out" "$SCRATCH/released"
tar -xf "$SCRATCH"/released/pulsedb-results-*.tar.xz -C "$SCRATCH/released"
older=("$SCRATCH"/released/*/)
(cd "${older[0]}" && sha256sum --quiet -c SHA256SUMS) || fail "the archive's sums are wrong"
run_ok archive-again 60 "$archive" "$out" "$SCRATCH/empty"
cmp "$SCRATCH"/released/*.tar.xz "$SCRATCH"/empty/*.tar.xz || fail "the same results make another archive"
expect_error archive-empty 'has no JSON files;;bench all' "$archive" "$SCRATCH/nothing-yet" "$SCRATCH"
cp -r "$out" "$SCRATCH/damaged"
truncate -s 100 "$SCRATCH/damaged/ring.json"
expect_error archive-damaged 'ring.json is damaged' "$archive" "$SCRATCH/damaged" "$SCRATCH"
run_ok none 300 "${all[@]}" --only ring,vdpu --against "${older[0]}"
require_match none '0 of 2 benchmarks to run' "$SCRATCH/none.log"
grep -q 'Against the results in' "$out/report.html" || fail "the report compares nothing"
note "it goes on where it was stopped, and compares with an earlier one from a release archive"

# One that fails does not keep the others from running, and is named.
rm "$out"/logs/*.done
mkdir -p "$out/work" && printf 'not a directory\n' >"$out/work/ring"
expect_error failed '1 of 2 benchmarks failed: ring;;logs' "${all[@]}" --only ring,vdpu
[[ -e "$out/logs/vdpu.done" && ! -e "$out/logs/ring.done" ]] || fail "the other did not run"
rm -f "$out/work/ring"

expect_error unknown '--only: there is no rings;;kv-model' "${all[@]}" --only rings
expect_error no-older 'has no result;;--out of an earlier run' "${all[@]}" --against "$SCRATCH/nowhere"
note "what fails, and what is not there, is named"
