#!/usr/bin/env bash
# A library of PulseDB's drags in nothing beyond RocksDB, liburing, the C/C++ run time, (libpulse-ops) the
# codecs and matchers of the system, (libpulse-graph) RE2 and Abseil and (libpulse-kv-server) OpenSSL and
# Abseil, has the version of its ABI in its name, and exports what packaging/exports/NAME.txt lists, no more
# and no less.
#   plugin_object_test.sh LIBRARY            checks
#   plugin_object_test.sh LIBRARY --update   writes the list; docs/reference/abi.md says when that may be
set -euo pipefail
root=$(cd "$(dirname "${BASH_SOURCE[0]}")/../.." && pwd)
plugin=${1:?usage: plugin_object_test.sh LIBRARY [--update]}
[[ -e "$plugin" ]] || { echo "FAIL: $plugin is not there; build first" >&2; exit 1; }

allowed='^(librocksdb|liburing|libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|librt|ld-linux[^.]*)\.so'
needed=$(readelf -d "$plugin" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
[[ -n "$needed" ]] || { echo "FAIL: readelf finds no NEEDED entries in $plugin" >&2; exit 1; }
if [[ "$plugin" == *libpulse-ops.so* ]]; then
  allowed='^(libc|libm|libstdc\+\+|libgcc_s|ld-linux[^.]*|libisal|libdeflate|libz|libzstd|liblz4|libhs|libre2)\.so'
fi
if [[ "$plugin" == *libpulse-graph.so* ]]; then
  allowed='^(libc|libm|libstdc\+\+|libgcc_s|ld-linux[^.]*|libre2|libabsl_[a-z0-9_]*)\.so'
fi
if [[ "$plugin" == *libpulse-kv-server.so* ]]; then
  allowed="$allowed|^(libssl|libcrypto|libabsl_[a-z0-9_]*)\\.so"
fi
if extra=$(grep -vE "$allowed" <<<"$needed"); then
  printf 'FAIL: %s needs libraries it must not drag in:\n%s\n' "$plugin" "$extra" >&2
  exit 1
fi

number() { sed -n "s/#define PULSE_VERSION_$1 \([0-9]*\)/\1/p" "$root/include/pulse/version.h"; }
abi=$(number MAJOR)
if [[ "$abi" == 0 ]]; then abi=0.$(number MINOR); fi
soname=$(readelf -d "$plugin" | sed -n 's/.*(SONAME).*\[\(.*\)\].*/\1/p')
name=${soname%.so.*}
[[ "$soname" == "$name.so.$abi" ]] ||
  { echo "FAIL: $plugin says that it is $soname, which should end in .so.$abi" >&2; exit 1; }

# DB::Open and its like: src/services/lsm/plugin/preload_open.cc. What they take differs between versions of
# RocksDB, so only their names are looked at.
exported=$(nm -D --defined-only "$plugin" | awk '{print $NF}' | c++filt |
  sed -E 's/^(rocksdb::(DB|TransactionDB)::Open[A-Za-z]*)\(.*/\1/' | LC_ALL=C sort -u)
list=$root/packaging/exports/$name.txt
# ABI of the commit that this change is made to.
abi_before() {
  git -C "$root" show HEAD:include/pulse/version.h 2>/dev/null | awk '
    /define PULSE_VERSION_MAJOR/ {major = $3} /define PULSE_VERSION_MINOR/ {minor = $3}
    END {print major == 0 ? "0." minor : major}'
}
if [[ "${2:-}" == --update ]]; then
  gone=$([[ ! -s "$list" ]] || LC_ALL=C comm -23 "$list" <(printf '%s\n' "$exported"))
  if [[ -n "$gone" && "$(abi_before)" == "$abi" ]]; then
    printf 'FAIL: %s is not written. Raise the version in pulse/version.h, or keep these names, which programs use:\n%s\n' \
      "${list#"$root/"}" "$gone" >&2
    exit 1
  fi
  printf '%s\n' "$exported" >"$list"
fi
[[ -s "$list" ]] || { echo "FAIL: there is no $list; make it with --update" >&2; exit 1; }
# What the header offers can be linked with.
if [[ "$name" == libpulse_rocksdb ]]; then
  offered=$(tr '\n' ' ' <"$root/include/pulse/rocksdb.h" | grep -oE 'PULSE_EXPORT [^(;#]*\(' | grep -oE '[A-Za-z]+\($' | tr -d '(')
  [[ -n "$offered" ]] || { echo "FAIL: no function is found in pulse/rocksdb.h" >&2; exit 1; }
  for function in $offered; do
    grep -q "^pulse::$function(" <<<"$exported" || {
      echo "FAIL: $name does not export $function() of pulse/rocksdb.h; see src/services/lsm/plugin/exports.map" >&2
      exit 1
    }
  done
fi
gone=$(LC_ALL=C comm -23 "$list" <(printf '%s\n' "$exported"))
new=$(LC_ALL=C comm -13 "$list" <(printf '%s\n' "$exported"))
if [[ -n "$gone" ]]; then
  printf 'FAIL: %s no longer exports these; programs that use them would not start:\n%s\n' "$name" "$gone" >&2
fi
if [[ -n "$new" ]]; then
  printf 'FAIL: %s exports these, which %s does not list:\n%s\n' "$name" "${list#"$root/"}" "$(head -n 20 <<<"$new")" >&2
fi
if [[ -n "$gone$new" ]]; then
  echo "docs/reference/abi.md says what to do; --update writes the list" >&2
  exit 1
fi
printf '%s needs: %s\nand exports %s names\n' "$soname" "$(tr '\n' ' ' <<<"$needed")" "$(wc -l <"$list")"
