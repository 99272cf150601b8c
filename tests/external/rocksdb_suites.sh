#!/usr/bin/env bash
# RocksDB's own test suites on pulse://. See --help and docs/evidence/external_suites.md.
set -euo pipefail

here=$(cd "$(dirname "${BASH_SOURCE[0]}")" && pwd -P)
pulse_root=$(cd "$here/../.." && pwd -P)

usage() {
  cat <<'TEXT'
usage: rocksdb_suites.sh [options] RESULT_DIR ROCKSDB_SOURCE

Builds a copy of the RocksDB source tree with PulseDB in-tree, runs RocksDB's own suites on
pulse://, and prints what passed, failed, was skipped and why. A case that fails is run again on the
default file system; one that fails there, too, counts as "upstream". ROCKSDB_SOURCE is not changed;
crate:VERSION takes that of the crate librocksdb-sys VERSION (crate:0.19 is RocksDB 11.8.1).
RESULT_DIR must be on a real disk, with about 15 GB free. A second run with the same RESULT_DIR goes
on where the first one ended.

  --suites LIST       of env,db,stress,blackbox,whitebox,make (default: all but make)
                        env       env_basic_test, the CustomEnv cases
                        db        test programs that take TEST_FS_URI
                        stress    db_stress, several settings
                        blackbox  db_crashtest.py blackbox
                        whitebox  db_crashtest.py whitebox
                        make      RocksDB's Makefile instead of CMake: a static db_bench
  --tests GLOBS       programs of the suite db (default: 'db_*_test'), such as
                      'db_basic_test,db_flush*'; 'all' for every one that takes TEST_FS_URI
  --cases FILTER      only these cases of them, as in --gtest_filter
  --jobs N            compile and run so many at a time (default: number of CPUs)
  --limit SECONDS     for one program (default: 3600)
  --case-limit SECONDS  for one case (default: 600)
  --crash-minutes M   for each crash test (default: 10)
  --uri URI           default: pulse://. Options can also come from PULSE_OPTIONS
  --retries N         runs of a failed case on either file system (default: 3)
  --seed N            of the crash tests (default: from the clock; printed)
  --rerun             forget earlier results
  --run-expected      run what expected_VERSION.txt lists as skipped
  --build-only        stop after the build
  --cxxflags FLAGS    for RocksDB's debug build (default: -O1 -g0)

Exit status: 0 nothing failed on pulse:// only; 1 something did; 2 it could not be run.
TEXT
}

die() {
  printf 'rocksdb_suites.sh: %s\n' "$*" >&2
  exit 2
}
note() { printf '[%s] %s\n' "$(date +%H:%M:%S)" "$*"; }

suites=env,db,stress,blackbox,whitebox
tests='db_*_test'
jobs=$(nproc)
cxxflags='-O1 -g0'
build_only=
runner_args=()
positional=()
while (($# > 0)); do
  case $1 in
    -h | --help)
      usage
      exit 0
      ;;
    --suites | --tests | --jobs | --cxxflags | --limit | --case-limit | --crash-minutes | --uri | \
      --cases | --retries | --seed)
      (($# > 1)) || die "$1 needs a value"
      case $1 in
        --suites) suites=$2 ;;
        --tests) tests=$2 ;;
        --jobs) jobs=$2 ;;
        --cxxflags) cxxflags=$2 ;;
        *) runner_args+=("$1" "$2") ;;
      esac
      shift
      ;;
    --rerun | --run-expected) runner_args+=("$1") ;;
    --build-only) build_only=1 ;;
    -*) die "unknown option $1; see --help" ;;
    *) positional+=("$1") ;;
  esac
  shift
done
((${#positional[@]} == 2)) || {
  usage >&2
  exit 2
}
[[ $jobs =~ ^[1-9][0-9]*$ ]] || die "--jobs wants a number, not '$jobs'"
for suite in ${suites//,/ }; do
  case $suite in
    env | db | stress | blackbox | whitebox | make) ;;
    *) die "no such suite: $suite (env, db, stress, blackbox, whitebox, make)" ;;
  esac
done

if [[ ${positional[1]} == crate:* ]]; then
  crate=${positional[1]#crate:}
  "$pulse_root/scripts/fetch-rocksdb-headers.sh" "$crate" "$pulse_root/build/rocksdb-headers/$crate" ||
    die "cannot fetch the crate librocksdb-sys $crate"
  positional[1]="$pulse_root/build/rocksdb-headers/$crate/source"
fi
[[ -d ${positional[1]} ]] || die "no RocksDB source at ${positional[1]}"
source_given=$(cd "${positional[1]}" && pwd -P)
for file in CMakeLists.txt include/rocksdb/version.h db/db_basic_test.cc tools/db_crashtest.py; do
  [[ -e "$source_given/$file" ]] ||
    die "$source_given is not a complete RocksDB source tree: $file is missing (a source release or
a git checkout has it, and crate:0.19; some distributions' trees come without the tests)"
done
for tool in cmake python3 pkg-config g++ tar; do
  command -v "$tool" >/dev/null || die "$tool is needed and not installed"
done
pkg-config --exists absl_status liburing gflags ||
  die "development packages of Abseil, liburing and gflags are needed (scripts/setup-debian.sh)"
mkdir -p "${positional[0]}" || die "cannot create ${positional[0]}"
result=$(cd "${positional[0]}" && pwd -P)
case $(stat -f -c %T "$result") in
  tmpfs | ramfs) die "$result is in memory; RESULT_DIR must be on a real disk" ;;
esac

number() { sed -nE "s/^#define ROCKSDB_$1 ([0-9]+).*/\1/p" "$source_given/include/rocksdb/version.h"; }
version=$(number MAJOR).$(number MINOR)
note "RocksDB $version.$(number PATCH) from $source_given"

# copy_source DIR: a copy of the tree with the plug-in linked in. Made once.
copy_source() {
  if [[ ! -e $1/.complete ]]; then
    rm -rf "$1"
    mkdir -p "$1"
    tar -C "$source_given" -cf - --exclude=./.git . | tar -C "$1" -xf -
    printf '%s\n' "$source_given" >"$1/.complete"
  fi
  [[ $(cat "$1/.complete") == "$source_given" ]] ||
    die "$1 is a copy of $(cat "$1/.complete"); take another RESULT_DIR for $source_given"
  ln -sfn "$pulse_root/plugin/pulse" "$1/plugin/pulse"
}

# Programs of the suite db: those whose source takes the file system from the environment. A test
# takes TEST_FS_URI by itself, or through DBTestBase.
db_programs() {
  local file name glob
  for file in $(cd "$result/source" && grep -lE \
    'DBTestBase|DBBasicTestWithTimestampBase|CreateEnvFromSystem' \
    $(find . -name '*_test.cc' -not -path './java/*' -not -path './.pc/*') | sort); do
    name=$(basename "$file" .cc)
    for glob in ${tests//,/ }; do
      # shellcheck disable=SC2053 # a pattern
      if [[ $glob == all || $name == $glob ]]; then
        printf '%s\n' "$name"
        break
      fi
    done
  done
}

has() { [[ ,$suites, == *,$1,* ]]; }

launcher=()
if command -v ccache >/dev/null; then
  export CCACHE_BASEDIR="$result" CCACHE_NOHASHDIR=1
  launcher=(-DCMAKE_CXX_COMPILER_LAUNCHER=ccache)
fi

programs=()
if has db; then
  copy_source "$result/source"
  set -f # the globs are for names, not for files here
  mapfile -t programs < <(db_programs)
  set +f
  ((${#programs[@]} > 0)) || die "--tests $tests matches no program that takes TEST_FS_URI"
fi

build_with_cmake() {
  local targets=() generator=() failed=() log="$result/build.log"
  copy_source "$result/source"
  if has env; then targets+=(env_basic_test); fi
  if has stress || has blackbox || has whitebox; then targets+=(db_stress); fi
  targets+=(${programs[@]+"${programs[@]}"})
  if command -v ninja >/dev/null && [[ ! -e $result/build/Makefile ]]; then generator=(-G Ninja); fi
  # Sync points need a debug build. Unity builds compile the library in a fraction of the time.
  note "configuring (log: $result/configure.log)"
  cmake -S "$result/source" -B "$result/build" "${generator[@]}" "${launcher[@]}" \
    -DROCKSDB_PLUGINS=pulse -DCMAKE_BUILD_TYPE=Debug -DCMAKE_CXX_FLAGS_DEBUG="$cxxflags" \
    -DWITH_TESTS=ON -DROCKSDB_BUILD_SHARED=ON -DFAIL_ON_WARNINGS=OFF \
    -DCMAKE_UNITY_BUILD=ON -DCMAKE_UNITY_BUILD_BATCH_SIZE=10 \
    -DCMAKE_GTEST_DISCOVER_TESTS_DISCOVERY_MODE=PRE_TEST >"$result/configure.log" 2>&1 ||
    die "configuring failed: $(tail -n 5 "$result/configure.log")"
  : >"$log"
  note "building librocksdb with the plug-in (log: $log)"
  cmake --build "$result/build" -j "$jobs" --target rocksdb-shared >>"$log" 2>&1 ||
    die "the build failed: $(grep -E 'error|FAILED' "$log" | head -n 5)"
  local target
  for target in "${targets[@]}"; do
    note "building $target"
    # A program that does not compile is reported, and the others run.
    cmake --build "$result/build" -j "$jobs" --target "$target" >>"$log" 2>&1 ||
      failed+=("$target")
  done
  printf '%s\n' ${failed[@]+"${failed[@]}"} >"$result/not_built.txt"
}

# The Makefile builds in its tree; a copy of its own keeps the two builds apart.
build_with_make() {
  local log="$result/make.log" cache=""
  copy_source "$result/source_make"
  if command -v ccache >/dev/null; then cache="ccache "; fi
  note "building a static db_bench with RocksDB's Makefile (log: $log)"
  make -C "$result/source_make" -j "$jobs" ROCKSDB_PLUGINS=pulse DEBUG_LEVEL=0 \
    DISABLE_WARNING_AS_ERROR=1 EXTRA_CXXFLAGS='-O1 -g0' CXX="${cache}g++" CC="${cache}gcc" \
    static_lib db_bench >"$log" 2>&1 ||
    die "RocksDB's Makefile failed: $(grep -E 'error|Error' "$log" | head -n 5)"
}

if [[ $suites != make ]]; then build_with_cmake; fi
if has make; then build_with_make; fi
if [[ -n $build_only ]]; then
  note "built; not run"
  exit 0
fi

exec python3 "$here/run_suites.py" --result "$result" --version "$version" \
  --pulse-root "$pulse_root" --expected "$here/expected_$version.txt" --suites "$suites" --jobs "$jobs" \
  --programs "$(
    IFS=,
    printf '%s' "${programs[*]-}"
  )" ${runner_args[@]+"${runner_args[@]}"}
