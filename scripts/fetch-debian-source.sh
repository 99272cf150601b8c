#!/usr/bin/env bash
# fetch-debian-source.sh PACKAGE DIR: the source of Debian 12's PACKAGE, with Debian's changes, in DIR/PACKAGE.
# By package lists of its own, so that nothing of the system's is changed. apt checks what it loads.
set -euo pipefail
package=${1:?usage: fetch-debian-source.sh PACKAGE DIR}
dir=$(realpath "${2:?usage: fetch-debian-source.sh PACKAGE DIR}")
key=/usr/share/keyrings/debian-archive-keyring.gpg
work=$(mktemp -d)
trap 'rm -rf "$work"' EXIT
echo "deb-src [signed-by=$key] http://deb.debian.org/debian bookworm main" >"$work/sources.list"
mkdir -p "$work/lists/partial" "$work/cache/archives/partial"
apt=(apt-get -q -o "Dir::Etc::SourceList=$work/sources.list" -o Dir::Etc::SourceParts=/dev/null
  -o "Dir::State::Lists=$work/lists" -o "Dir::Cache=$work/cache" -o APT::Sandbox::User=root)
"${apt[@]}" update >/dev/null
(cd "$work" && "${apt[@]}" source --download-only "$package" >/dev/null 2>&1) || {
  echo "fetch-debian-source: the source of $package cannot be had; check the network" >&2
  exit 1
}
dpkg-source --no-check --extract "$work"/*.dsc "$dir/$package" >/dev/null
