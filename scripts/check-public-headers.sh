#!/usr/bin/env bash
# check-public-headers.sh: each public header compiles alone, and so do all of them together; those of C
# also as C99; the parts of the version agree with its text.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

compile() { "${CXX:-c++}" -std=c++20 -fsyntax-only -Wall -Wextra -Werror -Iinclude -x c++ -; }

for header in include/pulse/*.h; do
  printf '#include "pulse/%s"\n' "$(basename "$header")" | compile ||
    { echo "check-public-headers: $header does not compile alone" >&2; exit 1; }
done
for header in graph kv_client ops; do
  printf '#include "pulse/%s.h"\nint nothing;\n' "$header" |
    "${CC:-cc}" -std=c99 -fsyntax-only -Wall -Wextra -Wpedantic -Werror -Iinclude -x c - ||
    { echo "check-public-headers: $header.h does not compile as C99" >&2; exit 1; }
done
{
  for header in include/pulse/*.h; do printf '#include "pulse/%s"\n' "$(basename "$header")"; done
  printf '%s\n' '#define TEXT(x) #x' '#define JOIN(a, b, c) TEXT(a) "." TEXT(b) "." TEXT(c)' \
    'static_assert(__builtin_strcmp(JOIN(PULSE_VERSION_MAJOR, PULSE_VERSION_MINOR, PULSE_VERSION_PATCH),' \
    '                               PULSE_VERSION_STRING) == 0);'
} | compile
echo "check-public-headers: $(ls include/pulse/*.h | wc -l) headers compile alone and together"
