#!/usr/bin/env bash
# redis-py-tests.sh [serve|kv [PULSE]]: the integration tests of redis-py, the Python client library,
# against `pulse serve` with its agent, or `pulse kv`: those of commands, pipelines and transactions,
# locks, connections and encodings, for blocking clients and asyncio's. A test that meets a command of
# tests/clients/unserved_commands.txt is skipped, and counted by command; redis_py_others.txt beside
# it names the others that do not apply, each with the reason. Every test else must pass, and they
# must be as many as they were.
set -euo pipefail
cd "$(dirname "${BASH_SOURCE[0]}")/.."
which=${1:-serve}
pulse=$(realpath "${2:-build/release/bin/pulse}")
version=4.3.4 # Debian 12's python3-redis
least=700     # tests that pass
# shellcheck source=scripts/test-server.sh
source scripts/test-server.sh
fetch_tests redis "$version" ddf27071df4adf3821c4f2ca59d67525c3a82e5f268bed97b813cb4fabf87880
plugin=$PWD/tests/clients

case "$which" in
  serve) start_server serve --db "$work/db" --offload on ;;
  kv) start_server kv --memory 1G --threads 2 ;;
  *) die "'$which' is neither serve nor kv" ;;
esac

# "TEST REASON"; a line that begins with "serve:" or "kv:" is for that one alone.
deselect=()
while read -r test _; do
  [[ "$test" != serve:* && "$test" != kv:* || "$test" == "$which:"* ]] || continue
  [[ -z "$test" || "$test" == \#* ]] || deselect+=(--deselect "${test#"$which:"}")
done <"$plugin/redis_py_others.txt"

cd "$work/redis-$version"
rc=0
PYTHONPATH="$plugin" "$python" -m pytest -p served_commands \
  -p no:cacheprovider -q -rs --asyncio-mode=auto -W ignore "${deselect[@]}" \
  --redis-url "redis://127.0.0.1:$port/0" \
  tests/test_{commands,pipeline,lock,connection,connection_pool,encoding,retry,multiprocessing}.py \
  tests/test_asyncio/test_{commands,pipeline,lock,connection_pool,encoding,retry}.py \
  >"$work/tests.log" 2>&1 || rc=$?
grep -vE '^SKIPPED' "$work/tests.log" || true
echo "$me: not served, and so skipped (tests, command):"
# "SKIPPED [2] FILE:LINE: not served: NAME"
awk '/^SKIPPED .* not served: / { n = $2; gsub(/[^0-9]/, "", n); tests[$NF] += n }
  END { for (name in tests) print tests[name], name }' "$work/tests.log" | sort -k 1,1rn -k 2 |
  awk '{ printf "%s%s %s", (NR > 1 ? ", " : "  "), $1, $2 } END { print "" }'
passed=$(grep -oE '[0-9]+ passed' "$work/tests.log" | tail -n 1 | cut -d ' ' -f 1) || passed=0
((passed >= least)) || die "only ${passed:-0} tests passed; there were $least and more"
exit "$rc"
