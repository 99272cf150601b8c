#!/usr/bin/env bash
# check-newest.sh [--bench-only DIR] [CASE...]: db_bench and db_stress of the newest RocksDB on pulse://, with
# an embedded agent and with an agent process; then the same RocksDB without the plug-in verifies the
# databases. Without CASEs it runs all of tests/external/newest_suite.py. Needs build/release/bin/pulse.
#   --bench-only DIR   builds only, and leaves in DIR bin/db_bench, bin/db_stress, lib/librocksdb.so and the
#                      plug-in lib/libpulse_rocksdb.so
# The whole of RocksDB takes twenty minutes to compile, so the library is that of Maven's rocksdbjni, which
# exports all of RocksDB's names. Only the tools are compiled, from the crate librocksdb-sys of the same
# release; and the plug-in, as for any RocksDB that is not the distribution's. Exit status 77, with the
# reason: skipped, for want of cargo or Maven or on another processor than x86-64.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
crate=0.19
jobs=${JOBS:-2}
out=$PWD/build/newest
bench_only=""

die() {
  printf 'check-newest: %s\n' "$1" >&2
  exit 1
}
skip() {
  printf 'check-newest: skipped: %s\n' "$1"
  exit 77
}
case ${1:-} in
  --bench-only)
    (($# == 2)) || die "--bench-only takes one directory"
    bench_only=1
    mkdir -p "$2" || die "cannot create $2"
    out=$(realpath "$2")
    shift 2
    ;;
  -*) die "unknown option $1; there is --bench-only DIR" ;;
esac
[[ $(uname -m) == x86_64 ]] || skip "rocksdbjni's library for $(uname -m) is not tried"
command -v mvn >/dev/null || skip "mvn is not installed (scripts/setup-debian.sh --java)"
rc=0
scripts/fetch-rocksdb-headers.sh "$crate" "build/rocksdb-headers/$crate" || rc=$?
((rc == 0)) || exit "$rc"
headers=$PWD/build/rocksdb-headers/$crate
version=$(awk '$2 == "ROCKSDB_MAJOR" {a = $3} $2 == "ROCKSDB_MINOR" {b = $3}
  $2 == "ROCKSDB_PATCH" {c = $3} END {print a "." b "." c}' "$headers/include/rocksdb/version.h")

# logged NAME COMMAND...: its output goes to a log, of which only a failure shows something.
logged() {
  local log=$out/$1.log
  shift
  "$@" >"$log" 2>&1 </dev/null || {
    tail -n 20 "$log" >&2
    die "failed, see $log: $*"
  }
}

library=$out/lib/librocksdb.so
mkdir -p "$out/lib"
if [[ ! -f "$library" || "$(cat "$out/VERSION" 2>/dev/null)" != "$version" ]]; then
  logged maven mvn -q -B dependency:copy "-Dartifact=org.rocksdb:rocksdbjni:$version" -DoutputDirectory="$out"
  python3 - "$out/rocksdbjni-$version.jar" "$library" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as jar, open(sys.argv[2], 'wb') as out:
    out.write(jar.read('librocksdbjni-linux64.so'))
PY
  rm "$out/rocksdbjni-$version.jar"
  echo "$version" >"$out/VERSION"
fi

began=$SECONDS
logged tools-configure cmake -G Ninja -S tests/external/newest -B "$out/tools" \
  -DROCKSDB_SOURCE="$(readlink -f "$headers/source")" -DROCKSDB_LIBRARY="$library" \
  -DCMAKE_RUNTIME_OUTPUT_DIRECTORY="$out/bin"
logged tools cmake --build "$out/tools" -j "$jobs"
# As deep as build/release and with the flags of the Java package's plug-in, so that ccache has one for both.
logged plugin-configure cmake -G Ninja -S . -B build/newest-plugin -DPULSE_UNITY=ON -DPULSE_BUILD_TESTS=OFF \
  -DPULSE_BUILD_APP=OFF -DPULSE_BUILD_BENCH=OFF -DCMAKE_BUILD_RPATH="\$ORIGIN" -DROCKSDB_ROOT="$headers" \
  -DROCKSDB_LIB="$library"
logged plugin cmake --build build/newest-plugin -j "$jobs" --target pulse_rocksdb
cp -a build/newest-plugin/lib/libpulse_rocksdb.so* "$out/lib"
echo "check-newest: RocksDB $version's db_bench and db_stress, and the plug-in, in $((SECONDS - began)) s: $out"
[[ -z "$bench_only" ]] || exit 0

[[ -x build/release/bin/pulse ]] || die "build/release/bin/pulse is not there; run: make build"
exec python3 -B tests/external/newest_suite.py --programs "$out" --pulse build/release/bin/pulse \
  --result "$out/run" "$@"
