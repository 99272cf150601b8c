#!/usr/bin/env bash
# build.sh [VERSION...]: the Java package, build/java/pulsedb-rocksdb.jar: the class org.pulsedb.PulseEnv,
# what attaches to RocksJava's native library, and a plug-in for each VERSION of RocksDB (default: 7.8 8.10
# 10.4 11.8; 8.10 is that of Flink's fork, frocksdbjni, which has the same public C++ headers). Needs a JDK
# (11 or newer), Maven, and but for 7.8 cargo, since the headers come as crates.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
versions=("$@")
((${#versions[@]} > 0)) || versions=(7.8 8.10 10.4 11.8)
out=$PWD/build/java
jobs=${JOBS:-2}

die() {
  printf 'java/build.sh: %s\n' "$1" >&2
  exit 1
}
for tool in javac mvn cmake ninja; do
  command -v "$tool" >/dev/null || die "$tool is not installed (scripts/setup-debian.sh --java)"
done
mkdir -p "$out/native"
rm -f "$out"/native/lib*.so # the jar is of one release

# Maven's libraries before 11 are made with the std::string of GCC 4, and so have to be PulseDB and Abseil.
old_string=-D_GLIBCXX_USE_CXX11_ABI=0
build_old_abseil() {
  local root=$out/absl-old
  [[ ! -f "$root/done" ]] || return 0
  echo "java/build.sh: Abseil for the old std::string (log: $out/absl.log)"
  rm -rf "$root" "$out/absl-source"
  mkdir -p "$out/absl-source"
  scripts/fetch-debian-source.sh abseil "$out/absl-source"
  cmake -G Ninja -S "$out/absl-source/abseil" -B "$out/absl-source/build" -DCMAKE_BUILD_TYPE=Release \
    -DCMAKE_CXX_STANDARD=20 -DCMAKE_POSITION_INDEPENDENT_CODE=ON -DCMAKE_CXX_VISIBILITY_PRESET=hidden \
    -DABSL_PROPAGATE_CXX_STD=ON -DBUILD_TESTING=OFF -DCMAKE_INSTALL_LIBDIR=lib \
    -DCMAKE_CXX_FLAGS=$old_string -DCMAKE_INSTALL_PREFIX="$root" >"$out/absl.log"
  cmake --build "$out/absl-source/build" -j "$jobs" --target install >>"$out/absl.log" ||
    die "Abseil does not build; see $out/absl.log"
  rm -rf "$out/absl-source"
  touch "$root/done"
}

for version in "${versions[@]}"; do
  args=(-DPULSE_JAVA_PLUGIN=ON -DPULSE_UNITY=ON)
  crate=""
  case $version in
    7.8) ;; # the distribution's headers
    8.10) crate=0.16.0 ;;
    10.4) crate=0.17.3 ;;
    11.8) crate=0.19 ;;
    *) die "no headers are known for RocksDB $version; there are 7.8, 8.10, 10.4 and 11.8" ;;
  esac
  if [[ -n "$crate" ]]; then
    scripts/fetch-rocksdb-headers.sh "$crate" "build/rocksdb-headers/$crate"
    args+=(-DROCKSDB_ROOT="$PWD/build/rocksdb-headers/$crate")
  fi
  pkg_config_path=${PKG_CONFIG_PATH:-}
  if [[ $version != 11.* ]]; then
    build_old_abseil
    args+=(-DCMAKE_CXX_FLAGS=$old_string -DPULSE_ABSL_ROOT="$out/absl-old")
    pkg_config_path=$out/absl-old/lib/pkgconfig
  fi
  echo "java/build.sh: plug-in for RocksDB $version (log: $out/$version.log)"
  # As deep as build/release, so that ccache knows what is compiled there.
  build=build/java-$version
  rm -f "$build"/lib/libpulse_rocksdb_java-*.so  # of what the build directory was for before
  PKG_CONFIG_PATH=$pkg_config_path cmake -G Ninja -S . -B "$build" "${args[@]}" \
    >"$out/$version.log" 2>&1 || die "see $out/$version.log"
  cmake --build "$build" -j "$jobs" --target pulse_java pulse_java_test pulse_rocksdb_java \
    >>"$out/$version.log" 2>&1 || die "it does not build; see $out/$version.log"
  ls "$build"/lib/libpulse_rocksdb_java-"$version"-*.so >/dev/null 2>&1 ||
    die "the headers that were found are not of RocksDB $version (Debian 12's librocksdb-dev is 7.8)"
  for library in "$build"/lib/libpulse_java.so "$build"/lib/libpulse_rocksdb_java-*.so; do
    strip --strip-debug -o "$out/native/$(basename "$library")" "$library"
  done
done
(cd "$out/native" && printf '%s\n' lib*.so >libraries.txt)

rm -f "$out"/maven/pulsedb-rocksdb-*.jar
mvn -q -f java/pom.xml package -DskipTests -Dnative.dir="$out/native"
cp "$out"/maven/pulsedb-rocksdb-*.jar "$out/pulsedb-rocksdb.jar"
echo "java/build.sh: $out/pulsedb-rocksdb.jar"
