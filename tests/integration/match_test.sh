#!/usr/bin/env bash
# `pulse agent --match`: the agent looks at the clients that a rule matches, and passes all others
# through to the host. usage:
#   match_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
command -v python3 >/dev/null || fail "python3 is not installed"
blocks=$(dirname "$PULSE")/pulse-blocks
offload=$(dirname "$PULSE")/../lib/pulse-blocks-offload.so
socket="$SOCKET_DIR/agent.sock"
host_socket="$SOCKET_DIR/host.sock"
run_ok create 120 "$PULSE" pool create "$SCRATCH/store" --size 64M --segment 1M

# 1. Bad input. Each is refused before the agent listens.
agent=("$PULSE" agent --socket "$socket")
front=("${agent[@]}" --store "$SCRATCH/store" --offload "$offload" --serve 0
  --serve-host "$host_socket")
expect_error match-bits '--match client=127.0.0.1/8;;beyond its prefix length;;KEY=VALUE' \
  "${front[@]}" --match client=127.0.0.1/8
expect_error match-prefix 'prefix length that is not from 0 to 32' \
  "${front[@]}" --match client=10.0.0.0/33
expect_error match-name "'localhost' is no IP address" "${front[@]}" --match client=localhost
expect_error match-key "'port' is no key;;client-port;;server-port" "${front[@]}" --match port=9000
expect_error match-twice "'client' is given twice" \
  "${front[@]}" --match client=127.0.0.1,client=127.0.0.2
expect_error match-port "'70000' is no port" "${front[@]}" --match server-port=70000
expect_error match-protocol "'udp' is none of the protocols" "${front[@]}" --match protocol=udp
expect_error match-positional "'10.0.0.0/8' is no KEY=VALUE" "${front[@]}" --match 10.0.0.0/8
expect_error match-second-rule "--match oops;;'oops' is no KEY=VALUE" \
  "${front[@]}" --match client=10.0.0.0/8 --match oops
expect_error match-alone '--match;;--serve' "${agent[@]}" --match client=10.0.0.0/8
expect_error match-without-serve '--serve' "${agent[@]}" --store "$SCRATCH/store" \
  --offload "$offload" --match client=10.0.0.0/8
expect_error match-redis '--match;;--serve-db' "${agent[@]}" --serve 0 --serve-host "$host_socket" \
  --serve-db "$SCRATCH/db" --match client=10.0.0.0/8

# 2. Real flows. 127.0.0.2, .4 and .5 match, 127.0.0.3 does not.
start_agent "$socket" --metrics 0 --store "$SCRATCH/store" --offload "$offload" --serve 0 \
  --serve-host "$host_socket" --match client=127.0.0.2 --match protocol=tcp,client=127.0.0.4/31
await 30 grep -q '(port ' "$AGENT_LOG" || fail "the agent does not serve" "$AGENT_LOG"
url=$(grep -o 'http://127.0.0.1:[0-9]*/metrics' "$AGENT_LOG") || fail "no URL is named" "$AGENT_LOG"
port=$(sed -n 's/.*(port \([0-9]*\)).*/\1/p' "$AGENT_LOG")
host_log="$SCRATCH/host.log"
start "$host_log" "$blocks" serve --agent "$socket" --size 8M --ordered --socket "$host_socket"
host=$STARTED
await 60 grep -q 'serving at ' "$host_log" || fail "the host does not serve" "$host_log"
run_ok blocks 120 python3 "$here/match_check.py" blocks "$url" "$port" "$host_socket"
note "$(tail -n 1 "$SCRATCH/blocks.log")"
stop_agent "$host" "$host_log"

# 3. A host of which the agent understands nothing: any bytes pass, both ways, and each side's end.
run_ok bytes 120 python3 "$here/match_check.py" bytes "$url" "$port" "$host_socket"
note "$(tail -n 1 "$SCRATCH/bytes.log")"
stop_agent "$AGENT" "$AGENT_LOG"
note "passed"
