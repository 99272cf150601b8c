#!/usr/bin/env bash
# check-tidy.sh [--all | FILE...]: clang-tidy with the checks of .clang-tidy. Of a whole tree it takes
# many minutes; without arguments it looks at C++ sources that the last commits changed, newest first
# and at most 16 of them, and at what is not committed; in CI also at a few others, which
# PULSE_TEST_SAMPLE, or the commit's checksum, chooses.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
commits=15
most=16
others=6

tidy=${CLANG_TIDY:-}
for name in clang-tidy-14 clang-tidy; do
  if [[ -z "$tidy" ]]; then tidy=$(command -v "$name" || true); fi
done
[[ -n "$tidy" ]] || { echo "check-tidy: no clang-tidy; run make setup" >&2; exit 1; }

if [[ "${1:-}" == --all ]]; then
  mapfile -t files < <(git ls-files -- '*.cc')
elif (($# > 0)); then
  files=("$@")
else
  mapfile -t files < <({ git diff --name-only HEAD -- '*.cc'
    git log -n "$commits" --format= --name-only -- '*.cc'; } | awk '!seen[$0]++')
fi
existing=()
for file in "${files[@]}"; do
  if [[ -f "$file" ]]; then existing+=("$file"); fi
done
if (($# == 0)); then existing=("${existing[@]:0:$most}"); fi
if (($# == 0)) && [[ -n "${CI:-}" ]]; then
  sample=${PULSE_TEST_SAMPLE:-$(git rev-parse HEAD | cksum | cut -d ' ' -f 1)}
  mapfile -t -O "${#existing[@]}" existing < <(git ls-files -- '*.cc' |
    grep -vxFf <(printf '%s\n' "${existing[@]}") |
    awk -v seed="$sample" 'BEGIN { srand(seed) } { print rand() "\t" $0 }' | sort -n | head -n "$others" | cut -f 2)
fi
if ((${#existing[@]} == 0)); then echo "check-tidy: no file to look at"; exit 0; fi

# The flags that matter to a parser are few, so that no build has to be configured. What clang-tidy
# counts goes to its standard error, what it found to the other.
flags=(-std=c++20 -I. -Iinclude -Isrc -Itests -DSPDLOG_FMT_EXTERNAL -DFMT_HEADER_ONLY)
# Those that CMake gives to a file of its own.
for name in PULSE_VERSION PULSE_REPORT_SOURCE PULSE_PROGRAM PULSE_TEST_BLOCKS_OFFLOAD \
  PULSE_TEST_PAGES_OFFLOAD PULSE_TEST_FAULTY_PROGRAM PULSE_OPS_LIBDIR PULSE_TEST_DRIVERS \
  PULSE_GRAPH_FIXTURES; do flags+=("-D$name=\"x\""); done
# leave_out FOLDER WHY: what needs headers that are not here.
leave_out() {
  local file kept=()
  for file in "${existing[@]}"; do
    if [[ "$file" == "$1"/* ]]; then echo "check-tidy: leaves out $file: $2"; else kept+=("$file"); fi
  done
  if ((${#kept[@]} == 0)); then
    echo "check-tidy: no other file to look at"
    exit 0
  fi
  existing=("${kept[@]}")
}
# The Python package is compiled with headers that scripts/python.sh brings.
nanobind=$(compgen -G 'build/python/tools/lib/python3*/site-packages/nanobind/include' | head -n 1 || true)
if [[ -n "$nanobind" ]]; then
  flags+=(-Ipython/native -isystem "$nanobind" -isystem
    "$(build/python/tools/bin/python -c 'import sysconfig; print(sysconfig.get_paths()["include"])')")
else
  leave_out python "make python first"
fi
# What a JVM loads, with a JDK's.
if javac=$(command -v javac); then
  jdk=$(dirname "$(dirname "$(readlink -f "$javac")")")/include
  flags+=(-isystem "$jdk" -isystem "$jdk/linux")
else
  leave_out java "there is no JDK (scripts/setup-debian.sh --java)"
fi
# What includes DPDK.
if pkg-config --exists libdpdk; then
  flags+=(-DALLOW_EXPERIMENTAL_API "$(pkg-config --cflags libdpdk | sed 's/-I/-isystem /g')")
else
  leave_out src/services/ops/dpdk/module "there is no DPDK (scripts/setup-debian.sh --dpdk)"
fi
rc=0
printf '%s\0' "${existing[@]}" |
  xargs -0 -n 4 -P "${JOBS:-2}" bash -c \
    'tidy=$1 flags=$2; shift 2; exec "$tidy" --quiet "$@" -- $flags 2>/dev/null' \
    tidy "$tidy" "${flags[*]}" || rc=$?
((rc == 0)) || { echo "check-tidy: see above; .clang-tidy lists the checks" >&2; exit 1; }
echo "check-tidy: nothing found in ${#existing[@]} files"
