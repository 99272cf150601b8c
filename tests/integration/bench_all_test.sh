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

# One that fails does not keep the others from running, and is named; its earlier result is set aside.
rm "$out"/logs/*.done
mkdir -p "$out/work" && printf 'not a directory\n' >"$out/work/ring"
expect_error failed '1 of 2 benchmarks failed: ring;;logs' "${all[@]}" --only ring,vdpu
[[ -e "$out/logs/vdpu.done" && ! -e "$out/logs/ring.done" ]] || fail "the other did not run"
[[ ! -e "$out/ring.json" && -s "$out/ring.json.old" ]] || fail "the earlier result passes for the one that failed"
! grep -q 'id="ring"' "$out/report.html" || fail "the report shows the earlier result"
rm -f "$out/work/ring"

# Somebody's files in the way, and a --dir that was there before, are left.
mine=$SCRATCH/mine
mkdir -p "$mine/ring" && printf 'precious\n' >"$mine/ring/letter"
expect_error foreign '1 of 1 benchmarks failed: ring;;holds files that are not' "${all[@]}" --only ring --dir "$mine"
[[ $(cat "$mine/ring/letter") == precious ]] || fail "somebody's file was removed"
rm -r "$mine/ring"
run_ok own-dir 300 "${all[@]}" --only ring --dir "$mine"
[[ -d "$mine" && -z $(ls -A "$mine") ]] || fail "--dir was removed, or something is left in it"
note "only what is of the benchmark is removed"

# The file of the program tells one build from another where the revision does not.
run_ok this-build 60 "${all[@]}" --only vdpu --list
grep -q ' done$' "$SCRATCH/this-build.log" || fail "what has a result is not done" "$SCRATCH/this-build.log"
cp --reflink=auto "$(dirname "$PULSE")/pulse-bench" "$SCRATCH/another"
run_ok another-build 60 "$SCRATCH/another" "${all[@]:2}" --only vdpu --list
rm "$SCRATCH/another"
another=$(grep -c ' done$' "$SCRATCH/another-build.log")
if grep -qE '"revision": "(unknown|[^"]*-dirty)"' "$out/ring.json"; then
  ((another == 0)) || fail "the result of another build is taken for this one's"
else
  ((another == 1)) || fail "a copy of the program of this revision has no result"
fi

# begins NAME YES|NO ARGUMENTS...: whether `bench paper` is told to begin anew. It is stopped where it
# writes its first file.
mkdir -p "$out/experiments.json.part/in-the-way"
begins() {
  local name=$1 anew=$2 said=NO
  shift 2
  expect_error "$name" '1 of 1 benchmarks failed: paper;;experiments.json' "${all[@]}" --only paper "$@"
  if grep -q 'tails: begins anew' "$out/logs/paper.log"; then said=YES; fi
  [[ $said == "$anew" ]] || fail "$name: begins anew: $said" "$out/logs/paper.log"
}
begins paper-first NO
begins paper-goes-on NO
begins paper-redo YES --redo
begins paper-redo-goes-on YES
rm "$out/logs/paper.begun"
printf 'another build\n' >"$out/logs/paper.done"
begins paper-another-build YES
rm -r "$out/experiments.json.part"
note "paper begins anew over results of another build, and goes on where it was stopped"

expect_error unknown '--only: there is no rings;;kv-model' "${all[@]}" --only rings
expect_error no-older 'has no result;;--out of an earlier run' "${all[@]}" --against "$SCRATCH/nowhere"
note "what fails, and what is not there, is named"
