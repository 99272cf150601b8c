# shellcheck shell=bash
# Sourced by the scripts that run other projects' tests against a server of ours; never run. The
# caller has `set -euo pipefail`, and `pulse` set to the program. It gets a scratch directory, `work`,
# which goes with the shell, as does the server.

me=$(basename "$0" .sh)
die() {
  echo "$me: $1" >&2
  exit 1
}
[[ -x "$pulse" ]] || die "$pulse is not there; build it with: make build"
work=$(mktemp -d)
server=
end_server() {
  [[ -n "$server" ]] || return 0
  kill "$server" 2>/dev/null || true
  wait "$server" 2>/dev/null || true
  server=
}
trap 'end_server; rm -rf "$work"' EXIT

# start_server ARGUMENTS...: `pulse ARGUMENTS... --port 0`, in place of the one before; its port is in
# `port`, its output in $work/server.log.
start_server() {
  end_server
  "$pulse" "$@" --port 0 >"$work/server.log" 2>&1 &
  server=$!
  for _ in $(seq 600); do
    grep -q 'process [0-9]' "$work/server.log" && break
    kill -0 "$server" 2>/dev/null || break
    sleep 0.1
  done
  port=$(grep -oE ':[0-9]+ ' "$work/server.log" | head -n 1 | tr -d ': ') || true
  [[ -n "$port" ]] || {
    cat "$work/server.log" >&2
    die "the server does not start"
  }
}

# fetch_source PACKAGE...: Debian's sources, unpacked in $work, by lists of its own, so that nothing of
# the system's is changed.
fetch_source() {
  local key=/usr/share/keyrings/debian-archive-keyring.gpg archive
  echo "deb-src [signed-by=$key] http://deb.debian.org/debian bookworm main" >"$work/sources.list"
  mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
  local apt=(apt-get -q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
    -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache")
  "${apt[@]}" update >/dev/null
  (cd "$work" && "${apt[@]}" source --download-only "$@" >/dev/null 2>&1) ||
    die "the sources of $* cannot be had; check the network"
  for archive in "$work"/*.orig.tar.*; do tar -xf "$archive" -C "$work"; done
}

# fetch_tests NAME VERSION SHA256: a Python client's source distribution, unpacked in $work: it has the
# tests; the library itself is Debian's, and of the same version. pip looks at the checksum before it
# runs anything of theirs.
python=/usr/bin/python3 # which has the distribution's libraries
fetch_tests() {
  local found
  export PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1
  scripts/setup-debian.sh --clients
  found=$("$python" -c "import $1; print($1.__version__)") || found=none
  [[ "$found" == "$2" ]] ||
    die "these are the tests of $1 $2, and $python has $found; run this on Debian 12"
  echo "$1==$2 --hash=sha256:$3" >"$work/requirements.txt"
  "$python" -m pip download --quiet --no-deps --no-build-isolation --no-binary :all: -d "$work" \
    --require-hashes -r "$work/requirements.txt" ||
    die "$1 $2 cannot be had; check the network and pip's index"
  tar -xzf "$work/$1-$2.tar.gz" -C "$work"
}
