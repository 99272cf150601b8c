#!/usr/bin/env bash
# redis-py-tests.sh [PULSE]: the integration tests of redis-py, the Python client library, against
# `pulse serve` with its agent: those of commands, pipelines and transactions, locks, connections and
# encodings, for blocking clients and asyncio's. A test that meets a command of
# tests/clients/unserved_commands.txt is skipped, and counted by command; redis_py_others.txt beside
# it names the others that do not apply, each with the reason. Every test else must pass, and they
# must be as many as they were.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pulse=$(realpath "${1:-build/release/bin/pulse}")
version=4.3.4 # Debian 12's python3-redis
least=700 # tests that pass
sha256=ddf27071df4adf3821c4f2ca59d67525c3a82e5f268bed97b813cb4fabf87880

[[ -x "$pulse" ]] || {
  echo "redis-py-tests: $pulse is not there; build it with: make build" >&2
  exit 1
}
scripts/setup-debian.sh --clients
python=/usr/bin/python3 # which has the distribution's library
export PYTHONNOUSERSITE=1 PYTHONDONTWRITEBYTECODE=1
found=$("$python" -c 'import redis; print(redis.__version__)') || found=none
[[ "$found" == "$version" ]] || {
  echo "redis-py-tests: these are the tests of redis-py $version, and $python has $found; run this on Debian 12" >&2
  exit 1
}
plugin=$PWD/tests/clients
others=$PWD/tests/clients/redis_py_others.txt

work=$(mktemp -d)
server=
stop() {
  if [[ -n "$server" ]]; then
    kill "$server" 2>/dev/null || true
    wait "$server" 2>/dev/null || true
  fi
  rm -rf "$work"
}
trap stop EXIT

# The sources, which have the tests; the library itself is the distribution's. pip looks at the
# checksum before it runs anything of theirs.
echo "redis==$version --hash=sha256:$sha256" >"$work/requirements.txt"
"$python" -m pip download --quiet --no-deps --no-build-isolation --no-binary :all: -d "$work" \
  --require-hashes -r "$work/requirements.txt" || {
  echo "redis-py-tests: redis-py $version cannot be had; check the network and pip's index" >&2
  exit 1
}
tar -xzf "$work/redis-$version.tar.gz" -C "$work" "redis-$version/tests"

"$pulse" serve --db "$work/db" --port 0 --offload on >"$work/serve.log" 2>&1 &
server=$!
for _ in $(seq 600); do
  grep -q 'process [0-9]' "$work/serve.log" && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
port=$(grep -oE ':[0-9]+ ' "$work/serve.log" | head -n 1 | tr -d ': ') || true
[[ -n "$port" ]] || {
  cat "$work/serve.log" >&2
  exit 1
}

deselect=()
while read -r test _; do
  [[ -z "$test" || "$test" == \#* ]] || deselect+=(--deselect "$test")
done <"$others"

cd "$work/redis-$version"
rc=0
PYTHONPATH="$plugin" "$python" -m pytest -p served_commands \
  -p no:cacheprovider -q -rs --asyncio-mode=auto -W ignore "${deselect[@]}" \
  --redis-url "redis://127.0.0.1:$port/0" \
  tests/test_{commands,pipeline,lock,connection,connection_pool,encoding,retry,multiprocessing}.py \
  tests/test_asyncio/test_{commands,pipeline,lock,connection_pool,encoding,retry}.py \
  >"$work/tests.log" 2>&1 || rc=$?
grep -vE '^SKIPPED' "$work/tests.log" || true
echo 'redis-py-tests: not served, and so skipped (tests, command):'
# "SKIPPED [2] FILE:LINE: not served: NAME"
awk '/^SKIPPED .* not served: / { n = $2; gsub(/[^0-9]/, "", n); tests[$NF] += n }
  END { for (name in tests) print tests[name], name }' "$work/tests.log" | sort -k 1,1rn -k 2 |
  awk '{ printf "%s%s %s", (NR > 1 ? ", " : "  "), $1, $2 } END { print "" }'
passed=$(grep -oE '[0-9]+ passed' "$work/tests.log" | tail -n 1 | cut -d ' ' -f 1) || passed=0
if ((passed < least)); then
  echo "redis-py-tests: only ${passed:-0} tests passed; there were $least and more" >&2
  exit 1
fi
exit "$rc"
