#!/usr/bin/env bash
# python.sh [BUILD] [--test] [--existing]: builds the wheel of the Python package into build/python/dist from the static
# libraries of BUILD, which it brings up to date. With --test it also runs the package's tests on it, in an
# environment of its own. Tools come from PyPI, in the versions below, into build/python, once.
# With --existing it takes nothing from PyPI: where an earlier run has not, it says so and exits with 77.
# PYTHON names the interpreter (python3); its headers are needed.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
build=build/release
test=
existing=
for argument in "$@"; do
  case "$argument" in
    --test) test=yes ;;
    --existing) existing=yes ;;
    *) build=$argument ;;
  esac
done
[[ -f "$build/build.ninja" ]] || {
  echo "python: $build is no build directory; configure it with: make build" >&2
  exit 1
}
build=$(cd "$build" && pwd -P)
python=${PYTHON:-python3}
work=$(pwd -P)/build/python
tools=(scikit-build-core==1.1.2 nanobind==3.1.0)
test_tools=(pytest==9.2.0 numpy==2.4.6 pandas==3.1.1 pyarrow==26.0.1 networkx==3.6.1
  scipy==1.17.1)
export PIP_DISABLE_PIP_VERSION_CHECK=1 PIP_ROOT_USER_ACTION=ignore PYTHONDONTWRITEBYTECODE=1

"$python" - <<'CHECK' || exit 1
import os, sys, sysconfig
if sys.version_info < (3, 11):
    sys.exit(f"python: {sys.executable} is Python {sys.version.split()[0]}; 3.11 or later is needed (set PYTHON)")
if not os.path.exists(os.path.join(sysconfig.get_paths()["include"], "Python.h")):
    sys.exit(f"python: there is no Python.h for {sys.executable}; on Debian: apt install python3-dev")
CHECK

# environment NAME PACKAGES...: a virtual environment with these, made again where they have changed.
environment() {
  local place=$work/$1
  shift
  local wanted
  wanted="$("$python" -c 'import sys; print(sys.executable, sys.version.split()[0])') $*"
  if [[ ! -f "$place/done" || "$(cat "$place/done")" != "$wanted" ]]; then
    if [[ -n "$existing" ]]; then
      echo "python: skipped, as $place is not there: make python-test makes it"
      exit 77
    fi
    rm -rf "$place" "$work/module" # which remembers its interpreter
    mkdir -p "$work"
    "$python" -m venv "$place" || {
      echo "python: no virtual environment; on Debian: apt install python3-venv" >&2
      exit 1
    }
    "$place/bin/pip" install --quiet "$@"
    echo "$wanted" >"$place/done"
  fi
}

environment tools "${tools[@]}"
if [[ -n "$test" ]]; then environment tests "${test_tools[@]}"; fi
cmake --build "$build" --target pulse_graph_library -j "${JOBS:-2}"
PATH=$work/tools/bin:$PATH "$work/tools/bin/pip" wheel --quiet --no-build-isolation --no-deps \
  --wheel-dir "$work/dist.new" --config-settings build-dir="$work/module" \
  --config-settings cmake.define.PULSE_BUILD="$build" ./python
rm -rf "$work/dist"
mv "$work/dist.new" "$work/dist"
echo "python: $(ls "$work"/dist/*.whl)"
[[ -n "$test" ]] || exit 0

"$work/tests/bin/pip" install --quiet --no-deps --force-reinstall "$work"/dist/*.whl
# -P: the package as it was installed, not the folder of the sources.
PULSE_PROGRAM=$build/bin/pulse timeout 600 "$work/tests/bin/python" -P -m pytest -q -p no:cacheprovider python/tests
