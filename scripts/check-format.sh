#!/usr/bin/env bash
# Checks the formatting of every C++ file of the project, or with --fix applies it.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

formatter=${CLANG_FORMAT:-}
if [[ -z "$formatter" ]]; then
  formatter=$(command -v clang-format-14 || command -v clang-format || true)
fi
[[ -n "$formatter" ]] || { echo "check-format: no clang-format; run make setup" >&2; exit 1; }

if git rev-parse --is-inside-work-tree >/dev/null 2>&1; then
  mapfile -t files < <(git ls-files --cached --others --exclude-standard -- '*.cc' '*.h' | sort -u)
else
  mapfile -t files < <(find . -path ./build -prune -o \( -name '*.cc' -o -name '*.h' \) -print | sort)
fi
existing=()
for file in "${files[@]}"; do
  if [[ -f "$file" ]]; then existing+=("$file"); fi
done
[[ ${#existing[@]} -gt 0 ]] || { echo "check-format: found no C++ files" >&2; exit 1; }

if [[ "${1:-}" == --fix ]]; then
  "$formatter" -i "${existing[@]}"
else
  "$formatter" --dry-run -Werror "${existing[@]}" ||
    { echo "check-format: run make format" >&2; exit 1; }
  echo "check-format: ${#existing[@]} files are well formatted"
fi
