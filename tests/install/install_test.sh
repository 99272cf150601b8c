#!/usr/bin/env bash
# install_test.sh BUILD: installs BUILD (a build directory with everything built) into a prefix of its own,
# builds and runs a program on each installed library, with CMake and with pkg-config, and runs the installed
# programs. Nothing of the build directory is used by them. Leaves nothing behind.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
root=$(pwd -P)
build=$(cd "${1:?usage: install_test.sh BUILD}" && pwd -P)
unset LD_PRELOAD LD_LIBRARY_PATH PULSE_OPTIONS PULSE_URI PULSE_MATCH PKG_CONFIG_PATH CMAKE_PREFIX_PATH DESTDIR

scratch=$(mktemp -d "${TMPDIR:-/tmp}/pulse-install.XXXXXX")
agent=
finish() {
  local rc=$?
  if [[ -n "$agent" ]]; then kill "$agent" 2>/dev/null || true; fi
  wait
  rm -rf "$scratch"
  exit "$rc"
}
trap finish EXIT
fail() {
  echo "FAIL: $1" >&2
  if [[ -n "${2:-}" ]]; then tail -n 30 "$2" >&2; fi
  exit 1
}
# await_listener SOCKET: until a server listens there; the limit only ends a hang.
await_listener() {
  local end=$((SECONDS + 60))
  until awk -v p="$1" '$8 == p && $4 == "00010000" {found = 1} END {exit !found}' /proc/net/unix; do
    ((SECONDS < end)) || return 1
    sleep 0.1
  done
}

cmake --install "$build" --prefix "$scratch/first" >"$scratch/install.log" || fail "cmake --install" "$scratch/install.log"
# An installed tree can be moved.
prefix=$scratch/P
mv "$scratch/first" "$prefix"
libdir=$(dirname "$(find "$prefix" -name 'libpulse_rocksdb.so')")
[[ -n "$libdir" ]] || fail "no plug-in is installed"
examples=$prefix/share/doc/pulsedb/examples

# Programs: no word of the build in what they need at run time.
while read -r object; do
  if readelf -d "$object" 2>/dev/null | grep -E 'RPATH|RUNPATH' | grep -F "$build"; then
    fail "$object looks for libraries in the build directory"
  fi
  if ldd "$object" 2>/dev/null | grep 'not found'; then fail "$object does not find what it needs"; fi
done < <(find "$prefix" -type f \( -perm -100 -o -name '*.so*' \) ! -name '*.py' ! -name '*.sh')
version=$("$prefix/bin/pulse" --version)
[[ "$version" == "$(sed -n 's/#define PULSE_VERSION_STRING "\(.*\)"/\1/p' include/pulse/version.h)" ]] ||
  fail "pulse --version says $version"
"$prefix/bin/pulse" bench --help >"$scratch/bench.log" 2>&1 || fail "pulse bench" "$scratch/bench.log"
grep -q compaction "$scratch/bench.log" || fail "pulse bench is not the benchmark" "$scratch/bench.log"
[[ -x $prefix/libexec/pulsedb/pulse-blocks && -f $prefix/share/pulsedb/report/report.py ]] ||
  fail "the parts of pulse bench are missing"
(
  # shellcheck disable=SC1091
  source "$prefix/share/bash-completion/completions/pulse"
  PATH=$prefix/bin:$PATH COMP_WORDS=(pulse pool im) COMP_CWORD=2
  _pulse
  [[ "${COMPREPLY[*]}" == import ]]
) || fail "bash does not complete 'pulse pool im' to import"
for words in '--engine io' '--engine = io'; do
  (
    # shellcheck source=/dev/null
    source "$prefix/share/bash-completion/completions/pulse"
    # shellcheck disable=SC2206
    PATH=$prefix/bin:$PATH COMP_WORDS=(pulse agent $words)
    COMP_CWORD=$((${#COMP_WORDS[@]} - 1))
    _pulse
    [[ "${COMPREPLY[*]}" == io_uring ]]
  ) || fail "bash does not complete 'pulse agent $words'"
done
if command -v help2man >/dev/null; then
  for page in pulse pulse-agent pulse-pool-import pulse-bench-demo; do
    grep -q '^\.SH OPTIONS' "$prefix/share/man/man1/$page.1" || fail "no manual page $page"
  done
fi
for unit in pulse-agent@ pulse-serve pulse-kv pulse-graph@; do
  # In quotes, as the prefix may have a space.
  grep -q '^ExecStart="[^"]*/first/bin/pulse" ' "$prefix/lib/systemd/system/$unit.service" ||
    fail "$unit.service starts another program"
  sed -i "s#$scratch/first#$prefix#" "$prefix/lib/systemd/system/$unit.service"
done
if command -v systemd-analyze >/dev/null; then
  cp "$prefix/lib/systemd/system/pulse-agent@.service" "$scratch/pulse-agent@$(id -un).service"
  cp "$prefix/lib/systemd/system/pulse-graph@.service" "$scratch/pulse-graph@social.service"
  SYSTEMD_LOG_LEVEL=warning systemd-analyze verify --man=no "$scratch/pulse-agent@$(id -un).service" \
    "$scratch/pulse-graph@social.service" \
    "$prefix/lib/systemd/system/pulse-serve.service" "$prefix/lib/systemd/system/pulse-kv.service" \
    2>"$scratch/units.log" || fail "systemd refuses a unit" "$scratch/units.log"
  if grep -iE 'pulse-[a-z@]*.*(unknown|failed|invalid|ignoring)' "$scratch/units.log"; then
    fail "systemd has a complaint about a unit" "$scratch/units.log"
  fi
fi

# run_all DIRECTORY: the consumers in it work.
run_all() {
  local dir=$1 said
  said=$("$dir/rocksdb_example" "$scratch/db") || fail "$dir/rocksdb_example"
  [[ "$said" == *"bytes written by the agent"* ]] || fail "rocksdb_example said: $said"
  rm -rf "$scratch/db"
  "$dir/kv_example" >/dev/null || fail "$dir/kv_example"
  "$dir/kv_server_example" >/dev/null || fail "$dir/kv_server_example"
  "$dir/ops_example" >/dev/null || fail "$dir/ops_example"
  examples/run_ops_filter_example.sh "$dir/ops_filter_example" "$scratch/hits" 2>"$scratch/hits.log" ||
    fail "$dir/ops_filter_example" "$scratch/hits.log"
  examples/run_graph_example.sh "$dir/graph_example" "$dir/graph_example_cxx" "$scratch/graph" 2>"$scratch/graph.log" ||
    fail "$dir/graph_example" "$scratch/graph.log"
  if "$dir/kv_client_example" "$scratch/nobody.sock" 2>"$scratch/client.log"; then fail "a client without a server"; fi
  examples/run_files_example.sh "$prefix/bin/pulse" "$dir/files_example" "$scratch/files" >"$scratch/files.log" 2>&1 ||
    fail "$dir/files_example" "$scratch/files.log"
  "$prefix/bin/pulse" kv --port 0 --shm "$scratch/kv.sock" --memory 192M --udp-port 0 2>"$scratch/kv.log" &
  agent=$!
  await_listener "$scratch/kv.sock" || fail "pulse kv does not listen" "$scratch/kv.log"
  "$dir/kv_client_example" "$scratch/kv.sock" >"$scratch/client.log" 2>&1 ||
    fail "$dir/kv_client_example" "$scratch/client.log"
  port=$(grep -oE 'datagrams on [^ ]*' "$scratch/kv.log" | grep -oE ':[0-9]+' | head -n 1)
  "$dir/kv_udp_example" "127.0.0.1$port" >"$scratch/client.log" 2>&1 || fail "$dir/kv_udp_example" "$scratch/client.log"
  kill "$agent"
  wait "$agent" || fail "pulse kv did not end well" "$scratch/kv.log"
  agent=
  # An agent takes the offload program, which needs a store and a host to give requests to.
  "$prefix/bin/pulse" pool create "$scratch/store" --size 64M --segment 1M >/dev/null
  "$prefix/bin/pulse" agent --socket "$scratch/a.sock" --store "$scratch/store" --offload "$2" \
    --serve "$scratch/f.sock" --serve-host "$scratch/h.sock" 2>"$scratch/agent.log" &
  agent=$!
  await_listener "$scratch/f.sock" || fail "the agent does not take $2" "$scratch/agent.log"
  kill "$agent"
  wait "$agent" || true
  agent=
  rm -f "$scratch/store"
}

# With CMake.
cmake -S tests/install/consumer -B "$scratch/cmake" -DCMAKE_PREFIX_PATH="$prefix" -DEXAMPLES="$examples" \
  -DCMAKE_BUILD_TYPE=Debug >"$scratch/configure.log" 2>&1 || fail "find_package(PulseDB)" "$scratch/configure.log"
cmake --build "$scratch/cmake" -j "${JOBS:-2}" >"$scratch/build.log" 2>&1 || fail "consumers with CMake" "$scratch/build.log"
run_all "$scratch/cmake" "$scratch/cmake/liboffload_program.so"
# Directories of one project may ask for it each for itself.
mkdir -p "$scratch/twice/below"
printf 'find_package(PulseDB 0.1 REQUIRED COMPONENTS rocksdb kv)\n' | tee "$scratch/twice/below/CMakeLists.txt" >"$scratch/twice/tail"
{ printf 'cmake_minimum_required(VERSION 3.25)\nproject(x CXX)\n'; cat "$scratch/twice/tail"; echo 'add_subdirectory(below)'; } \
  >"$scratch/twice/CMakeLists.txt"
cmake -S "$scratch/twice" -B "$scratch/twice/b" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/twice.log" 2>&1 ||
  fail "find_package(PulseDB) below a directory that has called it" "$scratch/twice.log"
# A prefix from where one is; units need to know where that was.
(cd "$scratch" && cmake --install "$build" --prefix near --component runtime) >"$scratch/near.log" || fail "a relative prefix" "$scratch/near.log"
grep -q "^ExecStart=\"$scratch/near/bin/pulse\" " "$scratch/near/lib/systemd/system/pulse-kv.service" ||
  fail "a relative prefix stays relative in units"
rm -rf "$scratch/near"
# What a build is configured with, at once or later, counts.
cached() { sed -n "s/^$1:[A-Z]*=//p" "$scratch/again/CMakeCache.txt"; }
configure() { cmake -G Ninja -S . -B "$scratch/again" -DPULSE_BUILD_TESTS=OFF "$@" >"$scratch/again.log" 2>&1 || fail "cmake $*" "$scratch/again.log"; }
configure -DCMAKE_INSTALL_LIBDIR=lib
[[ "$(cached CMAKE_INSTALL_LIBDIR)" == lib ]] || fail "CMAKE_INSTALL_LIBDIR=lib became $(cached CMAKE_INSTALL_LIBDIR)"
usual=$(cached ROCKSDB_INCLUDE)
mkdir -p "$scratch/rocks/include" "$scratch/rocks/lib"
ln -s "$usual/rocksdb" "$scratch/rocks/include/rocksdb"
ln -s "$(cached ROCKSDB_LIB)" "$scratch/rocks/lib/librocksdb.so"
configure -DROCKSDB_ROOT="$scratch/rocks"
[[ "$(cached ROCKSDB_INCLUDE)" == "$scratch/rocks/include" && "$(cached ROCKSDB_LIB)" == "$scratch/rocks/lib/librocksdb.so" ]] ||
  fail "ROCKSDB_ROOT has no effect in a tree that was configured before"
mkdir -p "$scratch/headers"
ln -s "$scratch/rocks/include" "$scratch/headers/include"
configure -DROCKSDB_ROOT="$scratch/headers" -DROCKSDB_LIB="$scratch/rocks/lib/librocksdb.so"
[[ "$(cached ROCKSDB_INCLUDE)" == "$scratch/headers/include" && "$(cached ROCKSDB_LIB)" == "$scratch/rocks/lib/librocksdb.so" ]] ||
  fail "ROCKSDB_LIB that is given has no effect"
configure -DROCKSDB_ROOT= -UROCKSDB_LIB
[[ "$(cached ROCKSDB_INCLUDE)" == "$usual" ]] || fail "ROCKSDB_ROOT cannot be taken back"
rm -rf "$scratch/again" "$scratch/rocks"
# A component that does not exist, and a version that is not this one, are refused by name.
mkdir "$scratch/wrong"
for wrong in '0.1 REQUIRED COMPONENTS graphs' '9.0 REQUIRED'; do
  printf 'cmake_minimum_required(VERSION 3.25)\nproject(x CXX)\nfind_package(PulseDB %s)\n' "$wrong" >"$scratch/wrong/CMakeLists.txt"
  if cmake -S "$scratch/wrong" -B "$scratch/wrong/b" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/wrong.log" 2>&1; then
    fail "find_package(PulseDB $wrong) was satisfied"
  fi
  grep -qE 'graphs|9\.0' "$scratch/wrong.log" || fail "find_package does not say what is wrong" "$scratch/wrong.log"
done

sed -i 's/(PulseDB .*/(PulseDB COMPONENTS ops foo)\nmessage("because ${PulseDB_NOT_FOUND_MESSAGE}")/' "$scratch/wrong/CMakeLists.txt"
cmake -S "$scratch/wrong" -B "$scratch/wrong/b" -DCMAKE_PREFIX_PATH="$prefix" >"$scratch/wrong.log" 2>&1
grep -q 'because there is no component foo' "$scratch/wrong.log" && ! grep -q Abseil "$scratch/wrong.log" ||
  fail "find_package does not say what is wrong with the components that were asked for" "$scratch/wrong.log"

# With pkg-config, and nothing else.
export PKG_CONFIG_PATH=$libdir/pkgconfig
mkdir "$scratch/pc"
# compile PC COMPILER OUTPUT SOURCE FLAGS...
compile() {
  local pc=$1 compiler=$2 output=$3 source=$4
  shift 4
  # shellcheck disable=SC2046
  "$compiler" "$@" -o "$scratch/pc/$output" "$source" $(pkg-config --cflags --libs "$pc") "-Wl,-rpath,$libdir" \
    2>"$scratch/pc.log" || fail "pkg-config $pc" "$scratch/pc.log"
}
compile pulsedb "${CXX:-c++}" rocksdb_example "$examples/rocksdb_example.cc" -std=c++20
compile pulsedb-files "${CXX:-c++}" files_example "$examples/files_example.cc" -std=c++20
compile pulsedb-kv "${CXX:-c++}" kv_example "$examples/kv_example.cc" -std=c++20
compile pulsedb-kv-client "${CC:-cc}" kv_client_example "$examples/kv_client_example.c" -std=c99
compile pulsedb-kv-server "${CXX:-c++}" kv_server_example "$examples/kv_server_example.cc" -std=c++20
compile pulsedb-kv-udp-client "${CXX:-c++}" kv_udp_example "$examples/kv_udp_example.cc" -std=c++20
compile pulsedb-ops "${CC:-cc}" ops_example "$examples/ops_example.c" -std=c99
compile pulsedb-ops "${CXX:-c++}" ops_filter_example "$examples/ops_filter_example.cc" -std=c++20
compile pulsedb-graph "${CC:-cc}" graph_example "$examples/graph_example.c" -std=c99
compile pulsedb-graph "${CXX:-c++}" graph_example_cxx "$examples/graph_example.cc" -std=c++20
compile pulsedb-offload "${CXX:-c++}" offload.so tests/install/consumer/offload_program.cc -std=c++20 -shared -fPIC
run_all "$scratch/pc" "$scratch/pc/offload.so"
plugin=$(pkg-config --variable=plugin pulsedb)
[[ -e $plugin ]] || fail "pulsedb.pc names no plug-in: $plugin"

# What it exports, from where it was installed.
for library in "$libdir"/libpulse*.so; do
  "$root/tests/integration/plugin_object_test.sh" "$library" >"$scratch/exports.log" || fail "names of $library" "$scratch/exports.log"
done
echo "install_test: installed, moved, ten consumers by CMake and ten by pkg-config"
