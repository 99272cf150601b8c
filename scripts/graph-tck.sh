#!/usr/bin/env bash
# Runs the openCypher TCK (Apache-2.0) on the query engine of src/services/graph/cypher:
#   scripts/graph-tck.sh [BUILD [ARG...]]    BUILD: the build directory, build/release by default
# Fetches org.opencypher:tck with Maven into BUILD/tck, builds cypher_tck_driver, runs every scenario and
# prints how many of each feature pass and which do not. TCK_JAR names a jar that is there already, and
# TCK_MINIMUM the percentage at which the script succeeds (90). ARGs go to tests/cypher/tck.py, as --only
# TEXT, --verbose, and --store, which runs all of it on the graph store. The list of failures is left in
# BUILD/tck/failures.txt.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."

build=${1:-build/release}
shift || true
version=1.0.0-M23
folder=$build/tck
jar=${TCK_JAR:-$folder/tck-$version.jar}
test -f "$build/build.ninja" || { echo "graph-tck: $build is not configured; run: cmake --preset release" >&2; exit 2; }
mkdir -p "$folder"
if [[ ! -f "$jar" ]]; then
  command -v mvn >/dev/null || { echo "graph-tck: Maven is missing (apt-get install maven), or name the jar in TCK_JAR" >&2; exit 2; }
  mvn -q -B dependency:copy "-Dartifact=org.opencypher:tck:$version" "-DoutputDirectory=$folder" </dev/null
fi
if [[ ! -d "$folder/features" || "$jar" -nt "$folder/features" ]]; then
  rm -rf "$folder/features" "$folder/graphs"
  python3 - "$jar" "$folder" <<'PY'
import sys, zipfile
with zipfile.ZipFile(sys.argv[1]) as jar:
    jar.extractall(sys.argv[2], [n for n in jar.namelist() if n.startswith(("features/", "graphs/"))])
PY
  touch "$folder/features"
fi
cmake --build "$build" --target cypher_tck_driver -j "${JOBS:-2}" >/dev/null
exec tests/cypher/tck.py "$build/bin/cypher_tck_driver" "$folder/features" --graphs "$folder/graphs" \
  --failures "$folder/failures.txt" --minimum "${TCK_MINIMUM:-90}" "$@"
