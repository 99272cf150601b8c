#!/usr/bin/env bash
# Subjects of commits have at most 72 characters. Checked are the commits after BASE; older ones stay as
# they are. Exit status 77: the history does not reach back to BASE, so there is nothing to check.
set -euo pipefail
export LC_ALL=C.UTF-8
cd "$(dirname "${BASH_SOURCE[0]}")/.."

BASE=2cdb744a45efefd7a81e3a271900711f476679e9
LIMIT=72

if [[ "$(git rev-parse --is-shallow-repository 2>/dev/null)" != false ]] ||
  ! git merge-base --is-ancestor "$BASE" HEAD 2>/dev/null; then
  echo "check-commits: the history does not reach back to ${BASE:0:12}; nothing is checked" >&2
  exit 77
fi
bad=0
while IFS=' ' read -r hash subject; do
  if ((${#subject} > LIMIT)); then
    echo "check-commits: $hash: a subject of ${#subject} characters, the limit is $LIMIT: $subject" >&2
    bad=1
  fi
done < <(git log --no-merges --format='%h %s' "$BASE..HEAD")
exit "$bad"
