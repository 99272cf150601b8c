#!/usr/bin/env bash
# bare_debian.sh BUILD [SUITE]: installs the packages of BUILD in an empty Debian (SUITE; default: this
# machine's) that mmdebstrap makes from this machine's package sources, and runs them there: the programs, an
# unmodified ldb on PulseDB by PULSE_URI, and a program built with the installed libraries on nothing but a
# compiler. Some minutes, and 2 GiB below TMPDIR. Needs root, mmdebstrap, and a network or mirror.
# With another release of Debian as SUITE the packages must be refused by name; that is then the test.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
build=${1:?usage: bare_debian.sh BUILD [SUITE]}
# shellcheck disable=SC1091
here=$(. /etc/os-release && echo "$VERSION_CODENAME")
suite=${2:-$here}
((EUID == 0)) || { echo "bare_debian: must be root, to run programs in another root directory" >&2; exit 77; }
command -v mmdebstrap >/dev/null || { echo "bare_debian: install mmdebstrap" >&2; exit 77; }

scratch=$(mktemp -d "${TMPDIR:-/tmp}/pulse-bare.XXXXXX")
trap 'rm -rf --one-file-system "$scratch"' EXIT
fail() {
  echo "FAIL: $1" >&2
  if [[ -n "${2:-}" ]]; then tail -n 40 "$2" >&2; fi
  exit 1
}
tests/install/packages_test.sh "$build" "$scratch/packages" >/dev/null

# The sources of this machine, of the suite that is asked for.
sources=()
for file in /etc/apt/sources.list /etc/apt/sources.list.d/*.list /etc/apt/sources.list.d/*.sources; do
  [[ -s "$file" ]] || continue
  sources+=("$scratch/$(basename "$file")")
  sed "s/\b$here\b/$suite/g" "$file" >"${sources[-1]}"
done
root=$scratch/root
mmdebstrap --variant=apt --mode=root "$suite" "$root" "${sources[@]}" >"$scratch/bootstrap.log" 2>&1 ||
  fail "mmdebstrap $suite" "$scratch/bootstrap.log"
mkdir -p "$root/packages"
cp "$scratch/packages"/*.deb "$root/packages/"
cp -r tests/install/consumer "$root/packages/"
# run COMMAND: in there, with a /proc, and with nothing of this machine's environment.
run() {
  env -i PATH=/usr/sbin:/usr/bin:/sbin:/bin HOME=/root DEBIAN_FRONTEND=noninteractive TMPDIR=/tmp LC_ALL=C.UTF-8 \
    unshare --mount --pid --fork --root="$root" --mount-proc=/proc /bin/bash -euo pipefail -c "$1" </dev/null >"$scratch/run.log" 2>&1
}

if [[ "$suite" != "$here" ]]; then
  if run 'apt-get update; apt-get install -y --no-install-recommends /packages/pulsedb_*.deb /packages/pulsedb-rocksdb_*.deb'; then
    fail "packages for $here were installed on $suite" "$scratch/run.log"
  fi
  grep -E 'Depends: .* (but|it is not)|unmet dependencies' "$scratch/run.log" || fail "refused without a reason" "$scratch/run.log"
  echo "bare_debian: $suite refuses the packages of $here, by name"
  exit 0
fi

run 'apt-get update
  apt-get install -y --no-install-recommends /packages/pulsedb_*.deb /packages/pulsedb-rocksdb_*.deb' ||
  fail "apt-get install" "$scratch/run.log"
run 'pulse --version; pulse bench --help >/dev/null; pulse pool create /tmp/pool --size 64M --segment 1M; pulse pool check /tmp/pool' ||
  fail "the installed programs" "$scratch/run.log"
run 'apt-get install -y --no-install-recommends rocksdb-tools
  export LD_PRELOAD=libpulse_rocksdb.so PULSE_URI="pulse://?layout=pool&pool=/tmp/pool"
  ldb --db=/tmp/db --create_if_missing put key value
  ldb --db=/tmp/db compact
  [[ "$(ldb --db=/tmp/db get key)" == value ]]
  unset LD_PRELOAD
  pulse pool ls /tmp/pool /tmp/db | grep sst' || fail "ldb on PulseDB by PULSE_URI" "$scratch/run.log"
run 'apt-get install -y --no-install-recommends g++ cmake make pkg-config /packages/*.deb
  cmake -S /packages/consumer -B /tmp/consumer -DEXAMPLES=/usr/share/doc/pulsedb/examples
  cmake --build /tmp/consumer
  /tmp/consumer/kv_example
  /tmp/consumer/rocksdb_example /tmp/example.db
  c++ -std=c++20 -o /tmp/files /usr/share/doc/pulsedb/examples/files_example.cc $(pkg-config --cflags --libs pulsedb-files)
  ldd /tmp/files | grep libpulse-files' || fail "a program on the installed libraries" "$scratch/run.log"
run 'apt-get purge -y pulsedb pulsedb-rocksdb libpulsedb*; ! ls /usr/bin/pulse /usr/libexec/pulsedb /usr/lib/*/libpulse* 2>/dev/null' ||
  fail "removing the packages leaves something" "$scratch/run.log"
echo "bare_debian: installed, run, built upon and removed on $suite"
