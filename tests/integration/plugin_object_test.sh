#!/usr/bin/env bash
# The preloadable object drags in nothing beyond RocksDB, liburing and the C/C++ run time,
# and exports nothing but its own names. usage: plugin_object_test.sh PLUGIN
set -euo pipefail
plugin=${1:?usage: plugin_object_test.sh PLUGIN}
[[ -e "$plugin" ]] || { echo "FAIL: $plugin is not there; build first" >&2; exit 1; }

allowed='^(librocksdb|liburing|libc|libm|libstdc\+\+|libgcc_s|libpthread|libdl|librt|ld-linux[^.]*)\.so'
needed=$(readelf -d "$plugin" | sed -n 's/.*(NEEDED).*\[\(.*\)\].*/\1/p')
[[ -n "$needed" ]] || { echo "FAIL: readelf finds no NEEDED entries in $plugin" >&2; exit 1; }
if extra=$(grep -vE "$allowed" <<<"$needed"); then
  printf 'FAIL: the plug-in needs libraries it must not drag in:\n%s\n' "$extra" >&2
  exit 1
fi
exported=$(nm -D --defined-only "$plugin" | awk '{print $NF}' | c++filt)
# DB::Open: src/services/lsm/plugin/preload_open.cc.
if extra=$(grep -vi 'pulse' <<<"$exported" | grep -v '^rocksdb::DB::Open(' | grep .); then
  printf 'FAIL: the plug-in exports %s names that are not its own, such as:\n%s\n' \
    "$(wc -l <<<"$extra")" "$(head -n 20 <<<"$extra")" >&2
  exit 1
fi
printf 'needs: %s\nexports %s names of its own\n' "$(tr '\n' ' ' <<<"$needed")" \
  "$(grep -c . <<<"$exported" || true)"
