#!/usr/bin/env bash
# Installs with apt what PulseDB needs to build and test, and only what is missing. Silent when
# nothing is. PULSE_SKIP_SETUP=1 skips it, for systems that provide the same by other means. With
# --fuzz also what scripts/fuzz.sh needs: clang and its run-time libraries; with --browser one for the
# test of the report, unless there is one; with --java what java/build.sh needs; with --dpdk what the
# module for DPDK's devices needs, which is built only where that is; with --clients what
# scripts/redis-py-tests.sh, kv-clients.sh and kv-suites.sh need.
set -euo pipefail

packages=(
  g++ cmake ninja-build pkg-config ccache make binutils
  librocksdb-dev rocksdb-tools liburing-dev
  libabsl-dev libcli11-dev libspdlog-dev libfmt-dev nlohmann-json3-dev libtomlplusplus-dev libxxhash-dev
  prometheus-cpp-dev libcivetweb-dev libssl-dev libcurl4-openssl-dev libedit-dev
  libisal-dev libdeflate-dev zlib1g-dev liblz4-dev libzstd-dev libvectorscan-dev libre2-dev libhwy-dev
  libgtest-dev libgmock-dev libbenchmark-dev
  libdeflate-tools tabix
  nbdkit nbdkit-plugin-dev libnbd-bin qemu-utils fio
  redis-tools python3-redis openssl etcd-server
  python3 python3-dev python3-venv python3-matplotlib python3-jinja2
  help2man dpkg-dev file
)

die() {
  printf 'setup: %s\n' "$1" >&2
  exit 1
}

[[ -z "${PULSE_SKIP_SETUP:-}" ]] || exit 0

if ! command -v dpkg-query >/dev/null || ! command -v apt-get >/dev/null; then
  die "this system has no apt. Install the equivalents of these Debian packages, then set PULSE_SKIP_SETUP=1: ${packages[*]}"
fi

# Of several architectures, one a line.
is_installed() { dpkg-query -W -f='${db:Status-Status}\n' "$1" 2>/dev/null | grep -qx installed; }

missing=()
for package in "${packages[@]}"; do
  is_installed "$package" || missing+=("$package")
done
# The checks use version 14; a release that has no such packages gets its defaults.
has_candidate() { apt-cache policy "$1" 2>/dev/null | grep -q 'Candidate: [0-9]'; }
for tool in clang-format clang-tidy; do
  if command -v "$tool-14" >/dev/null; then continue; fi
  if has_candidate "$tool-14"; then
    missing+=("$tool-14")
  elif ! command -v "$tool" >/dev/null; then
    missing+=("$tool")
  fi
done
if [[ "${1:-}" == --browser ]] &&
  ! command -v chromium >/dev/null && ! command -v google-chrome >/dev/null; then
  missing+=(chromium)
fi
if [[ "${1:-}" == --clients ]]; then
  for package in python3-pip python3-pytest python3-pytest-asyncio python3-setuptools python3-wheel \
    python3-pymemcache libmemcached-tools memcached perl tcl; do
    is_installed "$package" || missing+=("$package")
  done
fi
if [[ "${1:-}" == --java ]]; then
  command -v javac >/dev/null || missing+=(default-jdk-headless)
  command -v mvn >/dev/null || missing+=(maven)
  command -v cargo >/dev/null || missing+=(cargo)
fi
if [[ "${1:-}" == --dpdk ]]; then
  # All of DPDK's drivers come with it: some 200 packages.
  is_installed libdpdk-dev || missing+=(libdpdk-dev)
fi
if [[ "${1:-}" == --fuzz ]]; then
  # The run-time libraries are a package of their own, of clang's version, from Debian 12 on.
  if has_candidate clang-14; then
    fuzz_packages=(clang-14 libclang-rt-14-dev llvm-14)
  else
    fuzz_packages=(clang llvm libclang-rt-dev)
  fi
  for package in "${fuzz_packages[@]}"; do
    is_installed "$package" || missing+=("$package")
  done
fi
# The policy below, of a setup that was killed.
marker="# of PulseDB's scripts/setup-debian.sh"
if grep -qsxF "$marker" /usr/sbin/policy-rc.d; then
  if [[ $EUID -eq 0 ]]; then rm -f /usr/sbin/policy-rc.d; else sudo rm -f /usr/sbin/policy-rc.d; fi
fi
[[ ${#missing[@]} -gt 0 ]] || exit 0

as_root=()
if [[ $EUID -ne 0 ]]; then
  command -v sudo >/dev/null ||
    die "missing: ${missing[*]}. Run as root: apt-get install ${missing[*]}"
  as_root=(sudo)
fi
apt() {
  ${as_root[@]+"${as_root[@]}"} env DEBIAN_FRONTEND=noninteractive apt-get -qq \
    -o DPkg::Lock::Timeout=120 "$@" </dev/null
}

printf 'setup: installing %s\n' "${missing[*]}"
apt update || die "apt-get update failed; check the network and the package sources, then run again"
for i in "${!missing[@]}"; do # a fresh machine knows its packages only now
  if [[ ${missing[i]} == clang-* ]] && has_candidate "${missing[i]}-14"; then
    missing[i]+=-14
  fi
done
log=$(mktemp)
policy=""
cleanup() {
  rm -f "$log"
  [[ -z "$policy" ]] || ${as_root[@]+"${as_root[@]}"} rm -f "$policy"
}
trap cleanup EXIT

# The packages of etcd and memcached start a service, now and at each boot. The tests start servers of their own
# and need the programs alone; a service would hold the standard ports, and keep state from test to test. The
# policy keeps dpkg from starting these two as it installs them; a machine that has a policy already keeps its own.
services=()
for package in etcd-server memcached; do
  if [[ " ${missing[*]} " == *" $package "* ]]; then services+=("${package%-server}"); fi
done
if [[ ${#services[@]} -gt 0 && ! -e /usr/sbin/policy-rc.d ]]; then
  policy=/usr/sbin/policy-rc.d
  # The service is an argument behind options; systemd adds .service to it.
  printf '%s\n' '#!/bin/sh' "$marker" \
    'for a in "$@"; do case "$a" in etcd | etcd.service | memcached | memcached.service) exit 101 ;; esac; done' 'exit 0' |
    ${as_root[@]+"${as_root[@]}"} install -m 755 /dev/stdin "$policy"
fi
installed=true
apt install -y --no-install-recommends "${missing[@]}" >"$log" 2>&1 || installed=false
# Also after a failure, which may have left the two installed: the next run would not find them missing.
for service in ${services[@]+"${services[@]}"}; do
  if [[ ! -e /etc/init.d/$service ]]; then continue; fi
  ${as_root[@]+"${as_root[@]}"} update-rc.d "$service" disable >>"$log" 2>&1 ||
    printf 'setup: %s starts at the next boot; to prevent that: update-rc.d %s disable\n' "$service" "$service" >&2
done
if [[ $installed == false ]]; then
  tail -n 30 "$log" >&2
  die "apt-get could not install: ${missing[*]}. The lines above say why; PulseDB wants Debian 12 or newer"
fi
