#!/usr/bin/env bash
# results-archive.sh RESULTS [OUT_DIR]: the raw data of an evaluation as an archive for a release. RESULTS is an
# --out of `pulse bench all`, or docs/results-data. The archive, OUT_DIR/pulsedb-results-VERSION.tar.xz (OUT_DIR: the
# current directory), has the JSON files, with RESULTS' report if there is one, the revision and a SHA256SUMS, and
# is the same whenever it is made of the same. Unpacked it is a directory that `pulse bench all --report-only`,
# `--against` and bench/report/report.py take.
set -euo pipefail
here=$(cd "$(dirname "${BASH_SOURCE[0]}")/.." && pwd -P)
die() {
  echo "results-archive: $1" >&2
  exit 1
}
results=${1:?usage: results-archive.sh RESULTS [OUT_DIR]}
out=${2:-.}
[[ -d "$results" ]] || die "$results is no directory"
[[ -d "$out" ]] || die "$out is no directory; make it first"
version=$(sed -n 's/#define PULSE_VERSION_STRING "\(.*\)"/\1/p' "$here/include/pulse/version.h")
name=pulsedb-results-$version
scratch=$(mktemp -d)
trap 'rm -rf "$scratch"' EXIT
mkdir "$scratch/$name"

shopt -s nullglob
files=("$results"/*.json)
((${#files[@]} > 0)) || die "$results has no JSON files; pulse bench all --out $results makes them"
for file in "${files[@]}"; do
  python3 -m json.tool "$file" /dev/null 2>"$scratch/error" ||
    die "$file is damaged ($(tail -n 1 "$scratch/error")); measure it again"
done
[[ ! -f "$results/report.html" ]] || files+=("$results/report.html")
cp -- "${files[@]}" "$scratch/$name/"
git -C "$here" rev-parse HEAD >"$scratch/$name/REVISION" 2>/dev/null || echo unknown >"$scratch/$name/REVISION"
(cd "$scratch/$name" && find . -type f ! -name SHA256SUMS -printf '%P\n' | LC_ALL=C sort | xargs -d '\n' sha256sum >SHA256SUMS)

# Of no time and no user, so that two archives can be compared. Renamed when it is whole.
date=$(git -C "$here" log -1 --format=%ct 2>/dev/null || echo 0)
tar -C "$scratch" --sort=name --mtime="@$date" --owner=0 --group=0 --numeric-owner --mode=go=rX,u+rw -c "$name" |
  xz -9 -T1 >"$scratch/archive"
archive=$out/$name.tar.xz
mv "$scratch/archive" "$archive"
chmod 644 "$archive"
echo "$archive: ${#files[@]} files, $(stat -c %s "$archive") bytes, sha256 $(sha256sum "$archive" | cut -d ' ' -f 1)"
