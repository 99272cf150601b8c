#!/usr/bin/env bash
# fetch-rocksdb-headers.sh VERSION DEST: puts the RocksDB headers that the crate librocksdb-sys
# VERSION carries into DEST/include, and a link to that RocksDB as a whole at DEST/source. 0.19 is
# RocksDB 11.8.1, 0.17.3 is 10.4.2. Exit status 77, with the reason, where it cannot be done for want
# of cargo.
set -euo pipefail
version=${1:?usage: fetch-rocksdb-headers.sh VERSION DEST}
dest=${2:?usage: fetch-rocksdb-headers.sh VERSION DEST}

if [[ -f "$dest/include/rocksdb/version.h" && -f "$dest/source/CMakeLists.txt" &&
  "$(cat "$dest/VERSION" 2>/dev/null)" == "$version" ]]
then
  exit 0
fi
if ! command -v cargo >/dev/null; then
  echo "fetch-rocksdb-headers: skipped: cargo is not installed, and the headers come as a crate"
  exit 77
fi

work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
mkdir "$work/src"
touch "$work/src/lib.rs"
cat >"$work/Cargo.toml" <<EOF
[package]
name = "headers"
version = "0.0.0"
edition = "2021"
[dependencies]
librocksdb-sys = { version = "$version", default-features = false }
EOF
cargo fetch --quiet --manifest-path "$work/Cargo.toml" </dev/null
manifest=$(cargo metadata --offline --format-version 1 --manifest-path "$work/Cargo.toml" |
  tr ',' '\n' | sed -n 's/.*"manifest_path":"\([^"]*\/librocksdb-sys-[^"]*\)".*/\1/p' | head -n 1)
include=$(dirname "${manifest:?the crate librocksdb-sys is not in the dependency graph}")/rocksdb/include
[[ -f "$include/rocksdb/version.h" ]] ||
  { echo "fetch-rocksdb-headers: no headers in crate librocksdb-sys $version" >&2; exit 1; }
rm -rf "$dest"
mkdir -p "$dest"
cp -r "$include" "$dest/include"
ln -s "$(dirname "$include")" "$dest/source"
echo "$version" >"$dest/VERSION"
