#!/usr/bin/env bash
# tests.sh [VERSION...]: the Java package's own tests on rocksdbjni of each VERSION (default: 7.8 8.10 10.4
# 11.8; 8.10 is Flink's), then RocksJava's own tests of 7.8 and 10.4 (the crate of 11.8 comes without), once
# as they are and once on pulse:// by the JVM agent: whatever passes without PulseDB has to pass on it.
# About 8 minutes for a version.
#   --quick   without RocksJava's own tests; exit code 77, with the reason, where there is no JDK or Maven
# Needs what java/build.sh needs, and build/release/bin/pulse.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
quick=""
if [[ "${1:-}" == --quick ]]; then
  quick=1
  shift
  for tool in javac mvn cargo; do
    command -v "$tool" >/dev/null || {
      echo "java/tests.sh: skipped: $tool is not installed (scripts/setup-debian.sh --java)"
      exit 77
    }
  done
fi
versions=("$@")
((${#versions[@]} > 0)) || versions=(7.8 8.10 10.4 11.8)
out=$PWD/build/java

# of_maven VERSION: the release of rocksdbjni, and the classifier of its native library.
of_maven() {
  case $1 in
    7.8) maven=(-Drocksdb.version=7.8.3) ;;
    8.10)
      maven=(-Drocksdb.group=com.ververica -Drocksdb.artifact=frocksdbjni
        -Drocksdb.version=8.10.0-ververica-1.0)
      ;;
    10.4) maven=(-Drocksdb.version=10.4.2 -Drocksdb.classifier=linux64) ;;
    11.8) maven=(-Drocksdb.version=11.8.1) ;;
    *)
      echo "java/tests.sh: there is no plug-in for RocksDB $1" >&2
      exit 1
      ;;
  esac
}

java/build.sh "${versions[@]}"
for version in "${versions[@]}"; do
  of_maven "$version"
  echo "java/tests.sh: PulseEnv on rocksdbjni $version"
  mvn -q -f java/pom.xml test "${maven[@]}" -Dtest.library="$PWD/build/java-$version/lib/libpulse_java_test.so"
done
[[ -z "$quick" ]] || exit 0

# rocksjava NAME VERSION: the reports are in build/java/rocksjava/VERSION/NAME.
rocksjava() {
  local name=$1 version=$2
  shift 2
  rm -rf "$out/rocksjava/$version/$name"
  mkdir -p "$out/rocksjava/$version/work"
  mvn -q -f java/rocksjava/pom.xml test "${maven[@]}" -Dsource.dir="$source" \
    -Dwork.dir="$out/rocksjava/$version/work" -Dreports.dir="$out/rocksjava/$version/$name" "$@" \
    >"$out/rocksjava/$version/$name.log" 2>&1 || {
    echo "java/tests.sh: RocksJava's tests cannot be run; see $out/rocksjava/$version/$name.log" >&2
    exit 1
  }
}

for version in "${versions[@]}"; do
  of_maven "$version"
  case $version in
    7.8)
      [[ -d "$out/rocksdb-source/rocksdb/java" ]] || {
        rm -rf "$out/rocksdb-source"
        mkdir -p "$out/rocksdb-source"
        scripts/fetch-debian-source.sh rocksdb "$out/rocksdb-source"
      }
      source=$out/rocksdb-source/rocksdb/java
      ;;
    10.4) source=$PWD/build/rocksdb-headers/0.17.3/source/java ;;
    *) continue ;;
  esac
  echo "java/tests.sh: RocksJava's own tests, $version, without PulseDB"
  rocksjava stock "$version"
  echo "java/tests.sh: the same on pulse://"
  PULSE_URI='pulse://' PULSE_LOG=warning rocksjava pulse "$version" \
    -Djvm.options="-agentpath:$out/native/libpulse_java.so"
  java/compare_reports.py "$out/rocksjava/$version/stock" "$out/rocksjava/$version/pulse"
done
