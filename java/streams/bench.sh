#!/usr/bin/env bash
# bench.sh DIR [RECORDS [PAIRS]]: records put into a Kafka Streams store in DIR, which is to be on a real disk: stock on
# CPU 0; on pulse:// with the program on CPU 0 and the agent on CPU 1; stock on both. In turn, PAIRS (3) times, RECORDS
# (2000000) of 1 KiB each. Prints a line of JSON for each run. Run `make stream-tests` before: it builds what is needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
dir=${1:?usage: bench.sh DIR [RECORDS [PAIRS]]}
records=${2:-2000000}
pairs=${3:-3}
[[ -f build/java/pulsedb-rocksdb.jar ]] || {
  echo "bench.sh: build/java/pulsedb-rocksdb.jar is not there; run make java" >&2
  exit 1
}
mvn -q -f java/streams/kafka/pom.xml test-compile
mvn -q -f java/streams/kafka/pom.xml dependency:build-classpath -Dmdep.outputFile="$PWD/build/java/kafka/classpath"
classpath=build/java/kafka/test-classes:$(cat build/java/kafka/classpath)
state=$dir/kafka-streams-bench
trap 'rm -rf "$state"' EXIT

# run NAME CPUS [URI]
run() {
  local name=$1 cpus=$2
  shift 2
  rm -rf "$state"
  printf '{"name": "%s", ' "$name"
  taskset -c "$cpus" java -Xmx1g -XX:+UseSerialGC -cp "$classpath" org.pulsedb.kafka.PutBench "$state" \
    "$records" 1024 "$@" 2>/dev/null | sed 's/^{//'
}
for ((pair = 0; pair < pairs; ++pair)); do
  run stock 0
  run pulse 0 'pulse://?agent_cpus=1'
  run stock-both 0,1
done
