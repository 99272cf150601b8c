#!/usr/bin/env bash
# A cluster of three `pulse kv` processes, as stock cluster clients see it: keys spread, a process
# dies, clients go on with the rest, and another process takes its place. usage:
#   kv_processes_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
export LC_ALL=C.UTF-8 NO_COLOR=1
# The distribution's interpreter, which has the distribution's client library.
python=/usr/bin/python3

# 1. Bad input.
url=http://127.0.0.1:2379
part() { expect_error "$1" "$2" "$PULSE" kv --port 0 "${@:3}"; }
part no-cluster '--cluster-part: it needs --cluster' --cluster-part 1/3 --etcd "$url"
part no-etcd '--cluster-part;;--etcd' --cluster --cluster-part 1/3
for bad in 0/3 4/3 1 1/0 1/2000 x/3 1/3/5 -1/3; do
  part "part-${bad//\//-}" "--cluster-part '$bad'" --cluster --etcd "$url" "--cluster-part=$bad"
done
part both '--cluster-part and --cluster-members' --cluster --cluster-part 1/3 --cluster-members a:1,b:2
members() { expect_error "$1" "$2" "$PULSE" kv --port 7001 --cluster --cluster-members "$3"; }
members one-member '1 processes' 127.0.0.1:7001
members not-in-it '127.0.0.1:7001, is not in it' 127.0.0.1:7002,127.0.0.1:7003
members no-port "no port" 127.0.0.1:7001,127.0.0.1:x
members no-address "no address" 127.0.0.1:7001,b
members no-host "no host" '127.0.0.1:7001,a b:1'
members twice 'is there twice' 127.0.0.1:7001,127.0.0.1:7009/2,127.0.0.1:7010
members threads '--threads 1;;the same' 127.0.0.1:7001/2,127.0.0.1:7009
members nodes '1 to 256 nodes' 127.0.0.1:7001,127.0.0.1:7009/300

"$python" -c 'import redis.cluster' || {
  echo 'redis-py is not installed (Debian: python3-redis): the test is left out'
  exit 77
}

# 2. All processes listed: no etcd is asked.
read -r -a port < <(free_ports 3)
list=$(printf ',127.0.0.1:%s' "${port[@]}")
declare -a pids=() logs=()
# member K PORT ARGUMENTS...: its pid is in pids[K], its output's file in logs[K].
member() {
  local k=$1 at=$2
  shift 2
  logs[k]="$SCRATCH/member.$k.$((++MEMBERS)).log"
  start "${logs[k]}" "$PULSE" kv --port "$at" --memory 128M --cluster "$@"
  pids[k]=$STARTED
  await 60 grep -q 'process [0-9]' "${logs[k]}" || fail "member $k does not start" "${logs[k]}"
}
MEMBERS=0
for k in 0 1 2; do member "$k" "${port[k]}" --cluster-members "${list:1}"; done
for word in alpha beta gamma delta epsilon; do
  says "set $word" OK redis-cli -c -p "${port[0]}" set "$word" "$word!"
  says "get $word" "$word!" redis-cli -c -p "${port[2]}" get "$word"
done
for k in 0 1 2; do
  says "check $k" 'All 16384 slots covered' redis-cli --cluster check "127.0.0.1:${port[k]}"
done
says info '5 keys in 3 masters' redis-cli --cluster info "127.0.0.1:${port[0]}"
for k in 0 1 2; do
  kill "${pids[k]}"
  ends_well "${pids[k]}" || fail "member $k does not end well" "${logs[k]}"
done

# 3. Found in etcd: the second process has two threads, and keys that outlive it.
prepare_etcd
url=$ETCD_URL
start_etcd data
file=/dev/shm/pulse-kv-processes-test.$$
trap 'rc=$?; rm -f "$file"; (exit "$rc"); clean_up' EXIT
part_of() {
  local k=$1 more=()
  ((k == 1)) && more=(--threads 2 --memory-file "$file")
  member "$k" "${2:-0}" --cluster-part "$((k + 1))/3" --etcd "$url" --etcd-ttl 2s "${more[@]}" "${@:3}"
}
port_of() { grep -oE ':[0-9]+ ' "${logs[$1]}" | head -n 1 | tr -d ': '; }
# The second one comes back at its address later, which nobody may take meanwhile.
part_of 0
part_of 1 "$(free_ports 2 | cut -d ' ' -f 1)" # of two, for its threads
part_of 2
for k in 0 1 2; do port[k]=$(port_of "$k"); done
state() { [[ $(timeout 20 redis-cli -p "$1" cluster info) == *"cluster_state:$2"* ]]; }
await_state() { # WANTED K...
  local wanted=$1 k
  shift
  for k in "$@"; do
    await 60 state "${port[k]}" "$wanted" || fail "member $k does not come to $wanted" "${logs[k]}"
  done
}
await_state ok 0 1 2
for k in 0 1 2; do
  says "check $k" 'All 16384 slots covered' redis-cli --cluster check "127.0.0.1:${port[k]}"
done

# 4. redis-py's cluster client, which stays connected through all of it and is told what happens.
mkfifo "$SCRATCH/steps"
start "$SCRATCH/client.log" timeout 500 "$python" "$here/kv_processes_client.py" "$SCRATCH/steps" "${port[0]}" \
  "${port[2]}"
client=$STARTED
exec 9>"$SCRATCH/steps"
step() {
  echo "$1" >&9
  await 120 grep -qx "done $1" "$SCRATCH/client.log" || fail "the client: $1" "$SCRATCH/client.log"
}
step fill
kill -9 "${pids[1]}"
wait "${pids[1]}" 2>/dev/null
await_state fail 0 2
grep -q 'is gone' "${logs[0]}" || fail "member 0 says nothing of it" "${logs[0]}"
says nodes 'master,fail' redis-cli -p "${port[0]}" cluster nodes
says size 'cluster_known_nodes:4' redis-cli -p "${port[0]}" cluster info
step lost
# Started again at its address with its memory file: nothing is lost.
part_of 1 "${port[1]}"
await_state ok 0 1 2
step back
# Gone for good, and its place is taken by an empty process elsewhere.
kill -9 "${pids[1]}"
wait "${pids[1]}" 2>/dev/null
rm -f "$file"
part_of 1
port[1]=$(port_of 1)
serves() { timeout 20 redis-cli -p "$1" cluster nodes | grep -q ":$2@0 .* connected $3"; }
for k in 0 1 2; do
  await 60 serves "${port[k]}" "${port[1]}" 5462 || fail "nobody takes its place" "${logs[k]}"
done
await_state ok 0 1 2
step replaced
# 5. A second process for slots that have one waits, and redirects to it; etcd away changes nothing.
member 3 0 --cluster-part 1/3 --etcd "$url" --etcd-ttl 2s
port[3]=$(port_of 3)
await 60 grep -q "has slots that an older node has" "${logs[3]}" || fail "it does not wait" "${logs[3]}"
says waits "MOVED 3300 127.0.0.1:${port[0]}" redis-cli -p "${port[3]}" get b
kill -STOP "$ETCD"
await 60 grep -q 'cannot read the cluster' "${logs[0]}" || fail "no warning" "${logs[0]}"
step etcd-away
kill -CONT "$ETCD"
await 60 grep -q 'nodes again' "${logs[0]}" || fail "etcd is not heard again" "${logs[0]}"
await_state ok 0 1 2
# The first one ends, and the one that waits takes over its slots, without keys.
kill "${pids[0]}"
ends_well "${pids[0]}" || fail "member 0 does not end well" "${logs[0]}"
for k in 1 2 3; do
  await 60 serves "${port[k]}" "${port[3]}" 0 || fail "the spare does not take over" "${logs[k]}"
done
await_state ok 1 2 3
says took-over "" redis-cli -p "${port[3]}" get b
step taken-over
echo end >&9
ends_well "$client" || fail "the client" "$SCRATCH/client.log"
for k in 1 2 3; do
  kill "${pids[k]}"
  ends_well "${pids[k]}" || fail "member $k does not end well" "${logs[k]}"
done
