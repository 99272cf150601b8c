#!/usr/bin/env bash
# redis-py-tests.sh [PULSE]: the integration tests of redis-py, the Python client library, against
# `pulse serve` with its agent: those of commands, pipelines and transactions, locks, connections and
# encodings, for blocking clients and asyncio's. A test that meets a command which the server does
# not know is skipped, and the commands are listed; tests/clients/redis_py_others.txt names the others
# that do not apply, each with the reason. Every test else must pass.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
pulse=$(realpath "${1:-build/release/bin/pulse}")
version=4.3.4 # Debian 12's python3-redis
sha256=ddf27071df4adf3821c4f2ca59d67525c3a82e5f268bed97b813cb4fabf87880

[[ -x "$pulse" ]] || {
  echo "redis-py-tests: $pulse is not there; build it with: make build" >&2
  exit 1
}
scripts/setup-debian.sh --clients
python=/usr/bin/python3
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

# The sources, which have the tests; the library itself is the distribution's.
"$python" -m pip download --quiet --no-deps --no-build-isolation --no-binary :all: -d "$work" \
  "redis==$version" || {
  echo "redis-py-tests: redis-py $version cannot be had; check the network and pip's index" >&2
  exit 1
}
echo "$sha256  $work/redis-$version.tar.gz" | sha256sum --check --quiet
tar -xzf "$work/redis-$version.tar.gz" -C "$work" "redis-$version/tests"

"$pulse" serve --db "$work/db" --port 0 >"$work/serve.log" 2>&1 &
server=$!
for _ in $(seq 600); do
  grep -q 'process [0-9]' "$work/serve.log" && break
  kill -0 "$server" 2>/dev/null || break
  sleep 0.1
done
port=$(grep -oE ':[0-9]+ ' "$work/serve.log" | head -n 1 | tr -d ': ')
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
PYTHONPATH="$plugin" PYTHONDONTWRITEBYTECODE=1 "$python" -m pytest -p served_commands \
  -p no:cacheprovider -q -rs --asyncio-mode=auto -W ignore "${deselect[@]}" \
  --redis-url "redis://127.0.0.1:$port/0" \
  tests/test_{commands,pipeline,lock,connection,connection_pool,encoding,retry,multiprocessing}.py \
  tests/test_asyncio/test_{commands,pipeline,lock,connection_pool,encoding,retry}.py \
  >"$work/tests.log" 2>&1 || rc=$?
grep -vE '^SKIPPED' "$work/tests.log" || true
echo 'redis-py-tests: not served, and so skipped (tests, command):'
grep -oE "not served: .*" "$work/tests.log" | grep -oiE "unknown (sub)?command '?[a-z .|_-]+" |
  sed -E "s/.*'//" | tr '[:lower:]' '[:upper:]' | sort | uniq -c | sort -rn | head -n 200 |
  awk '{ printf "%s%s %s", (NR > 1 ? ", " : "  "), $1, $2 } END { print "" }'
exit "$rc"
