#!/usr/bin/env bash
# check-rocksdb-headers.sh [VERSION...]: compiles the plug-in's sources against the RocksDB headers of
# the crate librocksdb-sys VERSION (default 0.19: RocksDB 11.8.1), without building anything. Exit
# status 77: skipped, because there is no cargo to fetch them with.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

for version in "${@:-0.19}"; do
  headers="build/rocksdb-headers/$version"
  rc=0
  scripts/fetch-rocksdb-headers.sh "$version" "$headers" || rc=$?
  ((rc == 0)) || exit "$rc"
  name=$(awk '$2 == "ROCKSDB_MAJOR" {a = $3} $2 == "ROCKSDB_MINOR" {b = $3}
    $2 == "ROCKSDB_PATCH" {c = $3} END {print a "." b "." c}' "$headers/include/rocksdb/version.h")
  mapfile -t sources < <(grep '^src/services/lsm/' plugin/pulse/sources.txt)
  # All at once: nearly all of the time is RocksDB's headers. (A class of one file may hold what is in
  # that file's unnamed namespace; GCC takes an included file for a header.)
  printf '#include "%s"\n' "${sources[@]}" | g++ -std=c++20 -fsyntax-only -fno-rtti -Wall -Wextra \
    -Werror -Wno-unused-parameter -Wno-subobject-linkage -I . -I include -I src \
    -isystem "$headers/include" -x c++ -
  echo "check-rocksdb-headers: ${#sources[@]} files compile against RocksDB $name"
done
