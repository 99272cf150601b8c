#!/usr/bin/env bash
# tests.sh [kafka|flink]...: Kafka Streams and Flink with their state on pulse:// (default: both): right sums, restarts, a
# killed instance or task manager, a killed agent, a checkpoint restored in another cluster, a wrong URI; of values of some
# KiB, which are checked. Some minutes, and 300 MB of Maven's artifacts the first
# time. Needs what java/build.sh needs, and build/release/bin/pulse. Brokers and clusters are started by the tests, in
# this machine's memory and below TMPDIR.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
engines=("$@")
((${#engines[@]} > 0)) || engines=(kafka flink)
java/build.sh
for engine in "${engines[@]}"; do
  [[ -f "java/streams/$engine/pom.xml" ]] || {
    echo "java/streams/tests.sh: no such engine: $engine (kafka, flink)" >&2
    exit 1
  }
  echo "java/streams/tests.sh: $engine"
  mvn -q -f "java/streams/$engine/pom.xml" test
done
