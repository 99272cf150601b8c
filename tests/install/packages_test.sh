#!/usr/bin/env bash
# packages_test.sh BUILD [KEEP]: makes the packages of BUILD and looks at what is in them and what they depend
# on. With KEEP, a directory, the packages stay there. That they install on a bare Debian is for
# tests/install/bare_debian.sh. Exit status 77: no dpkg-deb or dpkg-shlibdeps here.
set -euo pipefail
build=$(cd "${1:?usage: packages_test.sh BUILD [KEEP]}" && pwd -P)
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
command -v dpkg-deb >/dev/null && command -v dpkg-shlibdeps >/dev/null || { echo "no dpkg-dev"; exit 77; }

scratch=$(mktemp -d "${TMPDIR:-/tmp}/pulse-packages.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
fail() {
  echo "FAIL: $1" >&2
  if [[ -n "${2:-}" ]]; then tail -n 40 "$2" >&2; fi
  exit 1
}
out=${2:-$scratch/out}
mkdir -p "$out"
rm -f "$out"/*.deb
(cd "$build" && cpack -G DEB -B "$scratch/cpack") >"$scratch/cpack.log" 2>&1 || fail "cpack -G DEB" "$scratch/cpack.log"
mv "$scratch/cpack"/*.deb "$out/"

version=$(sed -n 's/#define PULSE_VERSION_STRING "\(.*\)"/\1/p' include/pulse/version.h)
architecture=$(dpkg --print-architecture)
# package NAME: its file.
package() { echo "$out/$1_${version}_$architecture.deb"; }
libraries=libpulsedb${version%.*}
[[ "$version" == 0.* ]] || libraries=libpulsedb${version%%.*}
packages=(pulsedb pulsedb-rocksdb "$libraries" libpulsedb-dev)
for name in "${packages[@]}"; do
  [[ -f "$(package "$name")" ]] || fail "no package $name, but $(ls "$out")"
  dpkg-deb -I "$(package "$name")" >"$scratch/$name.info"
  dpkg-deb -c "$(package "$name")" | awk '{print $1, $2, $6}' >"$scratch/$name.files"
  # Owned by root, nothing that anyone may write, nothing outside /usr.
  if grep -v ' root/root ' "$scratch/$name.files"; then fail "$name: files of somebody else"; fi
  if grep -E '^[-d].......w' "$scratch/$name.files"; then fail "$name: everyone may write these"; fi
  if grep -vE ' \./(usr/.*)?$' "$scratch/$name.files"; then fail "$name: files outside /usr"; fi
  if grep -F "$build" "$scratch/$name.info"; then fail "$name: the build directory is in its description"; fi
done
[[ $(ls "$out"/*.deb | wc -l) == "${#packages[@]}" ]] || fail "other packages: $(ls "$out")"

# has PACKAGE REGEX...: a file of the package.
has() {
  local name=$1 regex
  shift
  for regex in "$@"; do
    grep -qE " \./usr/$regex$" "$scratch/$name.files" || fail "$name has no $regex" "$scratch/$name.files"
  done
}
has pulsedb bin/pulse libexec/pulsedb/pulse-bench libexec/pulsedb/pulse-blocks-offload.so \
  'lib/systemd/system/pulse-agent@\.service' lib/systemd/system/pulse-kv.service 'lib/systemd/system/pulse-graph@\.service' \
  share/bash-completion/completions/pulse share/doc/pulsedb/README.md share/doc/pulsedb/docs/services/rocksdb.md \
  share/pulsedb/report/report.py
has pulsedb-rocksdb 'lib/.*/libpulse_rocksdb\.so'
has "$libraries" "lib/.*/libpulse-files\.so\.$version" "lib/.*/libpulse-kv\.so\.$version" "lib/.*/libpulse-kv-client\.so\.$version" \
  "lib/.*/libpulse-kv-server\.so\.$version" "lib/.*/libpulse-kv-udp-client\.so\.$version" "lib/.*/libpulse-ops\.so\.$version" "lib/.*/libpulse-graph\.so\.$version"
has libpulsedb-dev include/pulse/rocksdb.h include/pulse/kv.h 'lib/.*/cmake/PulseDB/PulseDBConfig.cmake' \
  'lib/.*/pkgconfig/pulsedb.pc' 'lib/.*/libpulse-files\.so'
# Two packages must not have one file.
dup=$(awk '$1 !~ /^d/ {print $3}' "$scratch"/*.files | sort | uniq -d)
[[ -z "$dup" ]] || fail "in two packages: $dup"

# depends PACKAGE REGEX...: on these, by dpkg-shlibdeps, with versions where libraries have them.
depends() {
  local name=$1 line regex
  shift
  line=$(dpkg-deb -f "$(package "$name")" Depends)
  for regex in "$@"; do grep -qE "$regex" <<<"$line" || fail "$name depends on \"$line\", not on $regex"; done
}
depends pulsedb 'libc6 \(>= ' 'libstdc\+\+6 \(>= ' 'librocksdb[0-9.]+' liburing libprometheus-cpp
depends pulsedb-rocksdb 'libc6 \(>= ' 'librocksdb[0-9.]+' liburing
depends "$libraries" 'libc6 \(>= ' 'libstdc\+\+6 \(>= ' 'librocksdb[0-9.]+' 'libssl[0-9]' 'libabsl[0-9]+'
depends libpulsedb-dev "$libraries \(= $version\)" "pulsedb-rocksdb \(= $version\)" librocksdb-dev libabsl-dev
# Nothing but the run time in what other programs load.
if dpkg-deb -f "$(package pulsedb-rocksdb)" Depends | grep -E 'absl|spdlog|fmt'; then fail "the plug-in drags in libraries"; fi
# Units start what is installed, and a program's symbols are not in it.
dpkg-deb -x "$(package pulsedb)" "$scratch/x"
grep -q '^ExecStart="/usr/bin/pulse" ' "$scratch/x/usr/lib/systemd/system/pulse-serve.service" || fail "pulse-serve.service starts another program"
dpkg-deb -e "$(package pulsedb)" "$scratch/control"
for script in postinst prerm postrm; do
  [[ -x "$scratch/control/$script" ]] && sh -n "$scratch/control/$script" || fail "pulsedb has no $script that runs"
done
if readelf -S "$scratch/x/usr/bin/pulse" | grep -q '\.debug_info'; then fail "pulse is not stripped"; fi
for name in "${packages[@]}"; do
  printf '%-18s %9s bytes; depends on %s\n' "$name" "$(stat -c %s "$(package "$name")")" "$(dpkg-deb -f "$(package "$name")" Depends)"
done
