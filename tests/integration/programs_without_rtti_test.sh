#!/usr/bin/env bash
# Programs need no run-time type information of RocksDB's: its own Release build, which -DROCKSDB_ROOT may name,
# has none, and they would not link with it. What derives from RocksDB's classes is compiled with -fno-rtti.
# usage: programs_without_rtti_test.sh PROGRAM...
set -euo pipefail
for program in "$@"; do
  undefined=$(nm -DC --undefined-only "$program")
  grep -q 'rocksdb::' <<<"$undefined" || { echo "FAIL: $program uses nothing of a shared RocksDB" >&2; exit 1; }
  if types=$(grep 'typeinfo for rocksdb::' <<<"$undefined"); then
    printf 'FAIL: %s does not link with a Release build of RocksDB:\n%s\n' "$program" "$types" >&2
    exit 1
  fi
done
echo "no type information of RocksDB's is used"
