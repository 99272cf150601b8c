#!/usr/bin/env bash
# man-pages.sh PULSE OUT: a manual page OUT/man1/pulse-COMMAND.1 for each command of PULSE and each command
# below it, from its --help, by help2man. Reproducible: the date is that of the last commit, or of the
# variable SOURCE_DATE_EPOCH.
set -euo pipefail
pulse=${1:?usage: man-pages.sh PULSE OUT}
out=${2:?usage: man-pages.sh PULSE OUT}
here=$(dirname "${BASH_SOURCE[0]}")
export SOURCE_DATE_EPOCH=${SOURCE_DATE_EPOCH:-$(git -C "$here" log -1 --format=%ct 2>/dev/null || date +%s)}
export LC_ALL=C.UTF-8
rm -rf "$out"
mkdir -p "$out/man1"
version=$("$pulse" --version)
directory=$(cd "$(dirname "$pulse")" && pwd)
export PATH=$directory:$PATH

# The names below "Subcommands:", and the first line of what each is for.
commands_of() {
  "$@" --help | sed -n '/^Subcommands:/,/^[^ ]*$/{s/^  \([a-z][a-z-]*\)  *\(.*\)/\1 \2/p}'
}

# page PURPOSE WORDS...
page() {
  local purpose=$1 name
  shift
  name=$(IFS=-; echo "$*")
  help2man --no-info --no-discard-stderr --section=1 --source="PulseDB $version" --manual="PulseDB" \
    --version-string="$version" --name="$purpose" --include="$out/see" \
    "$*" >"$out/man1/$name.1" 2>"$out/errors" || {
    cat "$out/errors" >&2
    echo "man-pages: no page for $*" >&2
    exit 1
  }
  # It is named after the first word.
  sed -i "s/^\.TH [^ ]*/.TH ${name^^}/; s/^$* \\\\- /$name \\\\- /" "$out/man1/$name.1"
  local command rest
  while read -r command rest; do
    page "$(brief "$rest")" "$@" "$command"
  done < <(commands_of "$@")
}

# The first clause, without what a name of a page cannot have.
brief() {
  local text=${1%%[.:;]*}
  [[ -n "$text" ]] || text=$1
  printf '%s' "${text,}"
}

printf '[SEE ALSO]\nThe pages in share/doc/pulsedb/docs, beside the programs.\n' >"$out/see"
page "background I/O of RocksDB on an agent, files and keys served by it" pulse
rm "$out/errors" "$out/see"
touch "$out/done"
