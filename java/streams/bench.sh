#!/usr/bin/env bash
# bench.sh DIR [kafka|flink [RECORDS [PAIRS]]]: RECORDS (700000; of Flink, whose JVM compiles for some seconds, 2000000) of
# 1 KiB each, put into a Kafka Streams store or Flink's RocksDB state in DIR, which is to be on a real disk: stock on CPU 0; on pulse:// in several ways, with the program on CPU
# 0 and the agent on CPU 1; stock on both. In turn, PAIRS (3) times. Prints a line of JSON for each run. Run `make
# stream-tests` before: it builds what is needed. CHECKPOINT_SECONDS: between Flink's checkpoints (10), whose files its
# threads copy on the CPU of the records.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/../.."
dir=${1:?usage: bench.sh DIR [kafka|flink [RECORDS [PAIRS]]]}
engine=${2:-kafka}
pairs=${4:-3}
case $engine in
  kafka) program=org.pulsedb.kafka.PutBench records=700000 ;;
  flink) program=org.pulsedb.flink.StateBench records=2000000 ;;
  *)
    echo "bench.sh: no such engine: $engine (kafka, flink)" >&2
    exit 1
    ;;
esac
records=${3:-$records}
[[ -f build/java/pulsedb-rocksdb.jar ]] || {
  echo "bench.sh: build/java/pulsedb-rocksdb.jar is not there; run make java" >&2
  exit 1
}
mvn -q -f "java/streams/$engine/pom.xml" test-compile
mvn -q -f "java/streams/$engine/pom.xml" dependency:build-classpath -Dmdep.outputFile="$PWD/build/java/$engine/classpath"
classpath=build/java/$engine/test-classes:$(cat "build/java/$engine/classpath")
state=$dir/streams-bench
trap 'rm -rf "$state"' EXIT

# run NAME CPUS [URI]
run() {
  local name=$1 cpus=$2
  shift 2
  rm -rf "$state"
  printf '{"name": "%s", ' "$name"
  taskset -c "$cpus" java -Dcheckpoint.seconds="${CHECKPOINT_SECONDS:-10}" -Xmx1g -XX:+UseSerialGC --add-opens java.base/java.util=ALL-UNNAMED \
    --add-opens java.base/java.lang=ALL-UNNAMED -cp "$classpath" "$program" "$state" "$records" 1024 "$@" 2>/dev/null |
    sed 's/^{//'
}
for ((pair = 0; pair < pairs; ++pair)); do
  run stock 0
  run split 0 'pulse://?agent_cpus=1'
  run adaptive 0 'pulse://?agent_cpus=1&placement=adaptive&flushes=agent'
  run whole 0 'pulse://?agent_cpus=1&placement=whole&flushes=agent'
  run stock-both 0,1
done
