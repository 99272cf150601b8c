#!/usr/bin/env bash
# Registration of `pulse kv` in a real etcd: its keys come, stay, and go. usage:
#   kv_etcd_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
python=/usr/bin/python3

# 1. Bad input.
url=http://127.0.0.1:2379
expect_error etcd-url '--etcd:;;expected a URL' "$PULSE" kv --port 0 --etcd 127.0.0.1:2379
expect_error etcd-ttl '--etcd-ttl;;whole seconds' "$PULSE" kv --port 0 --etcd "$url" --etcd-ttl 1500ms
expect_error etcd-no-ttl '--etcd-ttl;;whole seconds' "$PULSE" kv --port 0 --etcd "$url" --etcd-ttl 0
expect_error etcd-host '--etcd;;--announce-host' \
  "$PULSE" kv --port 0 --etcd "$url" --bind 0.0.0.0 --insecure

expect_error etcd-tls '--announce-tls;;--announce-port' "$PULSE" kv --port 0 --announce-tls
expect_error etcd-cluster '--announce-port and --cluster' \
  "$PULSE" kv --port 0 --cluster --announce-port 6380

prepare_etcd
url=$ETCD_URL

start_kv() { start_server kv "$1" --memory 128M --etcd "$url" "${@:2}"; }

# The values below a prefix, one a line.
keys() {
  "$python" - "$url" "$1" <<'EOF'
import base64, json, sys, urllib.request
url, prefix = sys.argv[1:]
b64 = lambda text: base64.b64encode(text.encode()).decode()
body = json.dumps({"key": b64(prefix), "range_end": b64(prefix + "\x7f")}).encode()
with urllib.request.urlopen(urllib.request.Request(url + "/v3/kv/range", body), timeout=10) as reply:
    for kv in json.load(reply).get("kvs", []):
        value = json.loads(base64.b64decode(kv["value"]))
        assert base64.b64decode(kv["key"]).decode() == f"{prefix}/{value['id']}"
        print(value["host"], value["port"], value["first_slot"], value["last_slot"],
              ",".join(value["protocols"]))
EOF
}
has() { (($(keys "$2" 2>/dev/null | wc -l) == $1)); }
serves_here() { [[ $(timeout 60 redis-cli -p "$PORT" set k v) == OK ]]; }
serves() {
  [[ $(timeout 60 redis-cli -p "$PORT" set k v) == OK ]] || fail "the server does not serve" "$SERVER_LOG"
}

# 2. An etcd that is away when the server starts, and comes.
start_kv early --threads 2 --cluster
redis-cli -c -p "$PORT" set k v | grep -q OK || fail "the server does not serve" "$SERVER_LOG"
await 60 grep -q 'cannot keep 2 endpoints registered' "$SERVER_LOG" || fail "no warning" "$SERVER_LOG"
start_etcd data
await 60 has 2 /pulse/kv || fail "no keys" "$SERVER_LOG"
[[ $(keys /pulse/kv | sort -k3n | head -n 1) == "127.0.0.1 $PORT 0 8191 redis,memcached" ]] ||
  fail "the first node's key: $(keys /pulse/kv)" "$SERVER_LOG"
(($(grep -c 'cannot keep' "$SERVER_LOG") == 1)) || fail "more than one warning" "$SERVER_LOG"
note "registered: $(keys /pulse/kv | tr '\n' ';')"

# 3. A server that ends takes its keys along; one that dies loses them.
kill "$SERVER"
ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"
has 0 /pulse/kv || fail "the keys stay: $(keys /pulse/kv)" "$SERVER_LOG"
start_kv one --etcd-prefix /other/ --etcd-ttl 2s
await 60 has 1 /other || fail "no key" "$SERVER_LOG"
kill -9 "$SERVER"
wait "$SERVER" 2>/dev/null
await 60 has 0 /other || fail "the key of a dead server stays" "$SERVER_LOG"

# 4. An etcd that hangs, and one that has lost everything.
start_kv steady --etcd-ttl 2s
await 60 has 1 /pulse/kv || fail "no key" "$SERVER_LOG"
kill -STOP "$ETCD"
await 60 grep -q 'cannot keep 1 endpoint registered' "$SERVER_LOG" || fail "no warning" "$SERVER_LOG"
serves
kill -CONT "$ETCD"
await 60 grep -q '1 endpoint registered$' "$SERVER_LOG" || fail "no return" "$SERVER_LOG"
await 60 has 1 /pulse/kv || fail "the key does not come back" "$SERVER_LOG"
kill -9 "$ETCD"
wait "$ETCD" 2>/dev/null
start_etcd empty
await 60 has 1 /pulse/kv || fail "the key does not come into a new etcd" "$SERVER_LOG"
serves
kill "$SERVER"
ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"
has 0 /pulse/kv || fail "the key stays" "$SERVER_LOG"

# 5. A store behind an agent of its own: clients are told of the agent.
lanes="$SOCKET_DIR/kv.sock"
start_agent "$SOCKET_DIR/agent.sock" --serve 0 --serve-kv "$lanes"
await 30 grep -q '(port [0-9]' "$AGENT_LOG" || fail "the agent does not say its port" "$AGENT_LOG"
front=$(grep -oE '\(port [0-9]+' "$AGENT_LOG" | grep -oE '[0-9]+')
start_kv behind --agent-socket "$lanes" --announce-port "$front"
await 60 has 1 /pulse/kv || fail "no key" "$SERVER_LOG"
told=$(keys /pulse/kv)
[[ "$told" == "127.0.0.1 $front "* ]] || fail "etcd tells $told, and the agent's port is $front" "$SERVER_LOG"
own=$PORT PORT=$front
((own != front)) || fail "the ports are the same"
await 60 serves_here || fail "nobody serves at the port that etcd tells" "$AGENT_LOG"
exec 3<>"/dev/tcp/127.0.0.1/$PORT" || fail "no connection" "$AGENT_LOG"
printf 'config get cluster\r\nquit\r\n' >&3
said=$(timeout 60 cat <&3)
exec 3>&-
[[ "$said" == *"127.0.0.1|127.0.0.1|$front"* ]] || fail "memcached's clients are told $said" "$SERVER_LOG"
kill "$SERVER"
ends_well "$SERVER" || fail "the server does not end well" "$SERVER_LOG"
stop_agent "$AGENT" "$AGENT_LOG"
