#!/usr/bin/env bash
# check-in-tree.sh [VERSION...]: compiles PulseDB's sources as RocksDB's CMake does in its Release build
# with ROCKSDB_PLUGINS=pulse: those that plugin/pulse names, with the flags that come out of both; and with the
# same flags the sources of the preloaded object, which belong to no such build. The RocksDB is that of the
# crate librocksdb-sys VERSION (default 0.19: RocksDB 11.8.1). Objects only: RocksDB itself is not built, but
# what they use of PulseDB they have to define. Exit status 77: skipped, because there is no cargo to fetch
# it with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
root=$(pwd -P)
jobs=${JOBS:-2}

for version in "${@:-0.19}"; do
  rc=0
  scripts/fetch-rocksdb-headers.sh "$version" "build/rocksdb-headers/$version" || rc=$?
  ((rc == 0)) || exit "$rc"
  upstream=$(readlink -f "build/rocksdb-headers/$version/source")
  name=$(awk '$2 == "ROCKSDB_MAJOR" {a = $3} $2 == "ROCKSDB_MINOR" {b = $3}
    $2 == "ROCKSDB_PATCH" {c = $3} END {print a "." b "." c}' "$upstream/include/rocksdb/version.h")

  # A copy, because the plug-in has to be linked into it.
  dir="build/in-tree/$version"
  rm -rf "$dir"
  mkdir -p "$dir/objects"
  cp -as "$upstream" "$dir/source"
  ln -sfn "$root/plugin/pulse" "$dir/source/plugin/pulse"
  cmake -S "$dir/source" -B "$dir/build" -DCMAKE_EXPORT_COMPILE_COMMANDS=ON -DROCKSDB_PLUGINS=pulse \
    -DCMAKE_BUILD_TYPE=Release -DWITH_GFLAGS=OFF -DWITH_TESTS=OFF -DWITH_TOOLS=OFF \
    -DWITH_CORE_TOOLS=OFF -DWITH_BENCHMARK_TOOLS=OFF >"$dir/configure.log" 2>&1 || {
    tail -n 20 "$dir/configure.log" >&2
    echo "check-in-tree: RocksDB $name does not configure with the plug-in" >&2
    exit 1
  }

  # Nearly all of the time is RocksDB's headers, so some files at once. (A class of one file may hold what
  # is in that file's unnamed namespace; GCC takes an included file for a header.)
  python3 - "$root" "$dir" <<'PY'
import glob, json, shlex, sys
root, dir = sys.argv[1:]
commands = {}
for entry in json.load(open(f'{dir}/build/compile_commands.json')):
    if entry['file'].startswith(root + '/src/'):
        command = shlex.split(entry['command'])
        commands[entry['file']] = command[:command.index('-o')]
named = {f'{root}/{line.strip()}' for line in open(f'{root}/plugin/pulse/sources.txt')}
if set(commands) != named:
    sys.exit(f'check-in-tree: RocksDB compiles other sources than sources.txt names: {set(commands) ^ named}')
if len({tuple(c) for c in commands.values()}) != 1:
    sys.exit('check-in-tree: the sources have different flags')
flags = next(iter(commands.values()))
if '-fno-rtti' not in flags or '-DNDEBUG' not in flags:
    sys.exit('check-in-tree: this is not a Release build')
preloaded = {f for f in glob.glob(f'{root}/src/services/lsm/plugin/preload*.cc') if not f.endswith('_test.cc')}
rooms = {}
for file in sorted(named):
    rooms.setdefault(file.split('/src/')[1].rsplit('/', 1)[0], []).append(file)
rooms['preloaded'] = sorted(preloaded)  # last
with open(f'{dir}/commands', 'wb') as out:
    n = 0
    for files in rooms.values():
        for first in range(0, len(files), 12):
            n += 1
            batch = f'{dir}/objects/{"preloaded" if files is rooms["preloaded"] else "batch"}_{n}.cc'
            with open(batch, 'w') as source:
                source.writelines(f'#include "{file}"\n' for file in files[first:first + 12])
            out.write(shlex.join(flags + ['-Werror', '-Wno-subobject-linkage', '-o', batch[:-2] + 'o',
                                          '-c', batch]).encode() + b'\0')
PY
  launcher=$(command -v ccache || true)
  xargs -0 -P "$jobs" -I COMMAND bash -c "$launcher COMMAND" <"$dir/commands" || {
    echo "check-in-tree: PulseDB does not compile inside RocksDB $name, Release" >&2
    exit 1
  }
  # RocksDB links the named sources alone: what they use of PulseDB, they must hold.
  missing=$(comm -13 <(nm -C --defined-only "$dir"/objects/batch_*.o | cut -d ' ' -f 3- | sort -u) \
    <(nm -C --undefined-only "$dir"/objects/batch_*.o | sed -n 's/^ *U //p' | sort -u) |
    grep -E '^(vtable for |typeinfo for )?pulse::' || true)
  [[ -z "$missing" ]] || {
    echo "check-in-tree: inside RocksDB $name no source of plugin/pulse/sources.txt defines: $missing" >&2
    exit 1
  }
  echo "check-in-tree: $(wc -l <plugin/pulse/sources.txt) files compile inside RocksDB $name, Release"
done
