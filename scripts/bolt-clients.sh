#!/usr/bin/env bash
# bolt-clients.sh [BUILD]: Neo4j's drivers for Python and JavaScript against the Bolt server on a graph
# in memory, the newest for Python also against `pulse graph serve`; each in its newest version and in one that
# speaks Bolt 5 without the manifest: tests/clients/bolt_driver_test.*.
# They come from PyPI and npm, into BUILD/bolt-clients, once. Without node the JavaScript part is
# skipped, and says so.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=$(realpath "${1:-build/release}")
server=$build/bin/bolt_test_server
[[ -x "$server" ]] || {
  echo "bolt-clients: $server is not there; build it with: make build" >&2
  exit 1
}
python_versions=(6.4.1 5.14.1)
node_versions=(6.3.0 5.14.0)
clients=$build/bolt-clients
export PYTHONDONTWRITEBYTECODE=1

python3 -m pip --version >/dev/null 2>&1 || scripts/setup-debian.sh --clients
some=() # of the tests, after the first version
for version in "${python_versions[@]}"; do
  library=$clients/python-$version
  if [[ ! -f "$library/done" ]]; then
    rm -rf "$library"
    python3 -m pip install --quiet --disable-pip-version-check --root-user-action=ignore \
      --target "$library" "neo4j==$version"
    touch "$library/done"
  fi
  PYTHONPATH=$library python3 tests/clients/bolt_driver_test.py "$server" "${some[@]}"
  ((${#some[@]} == 0)) || continue
  some=(-k Values -k Graph -k Transaction -k Errors -k Basic)
  # The server that ships, whose commits nobody makes fail.
  PYTHONPATH=$library python3 tests/clients/bolt_driver_test.py \
    "tests/clients/graph_server.py $build/bin/pulse" DriverTest AccessTest
done

if ! command -v npm >/dev/null; then
  echo "bolt-clients: skipped for JavaScript, as there is no npm"
  exit 0
fi
for version in "${node_versions[@]}"; do
  library=$clients/node-$version
  if [[ ! -f "$library/done" ]]; then
    rm -rf "$library"
    mkdir -p "$library"
    npm install --silent --no-audit --no-fund --prefix "$library" "neo4j-driver@$version" >/dev/null
    touch "$library/done"
  fi
  echo "neo4j-driver for JavaScript $version"
  BOLT_SERVER=$server NODE_PATH=$library/node_modules node tests/clients/bolt_driver_test.js
done
