#!/usr/bin/env bash
# What all commands have in common: words and options that are wrong, the exit codes, output that is lost,
# and machines that have no memory or threads left. usage:
#   command_line_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
cd "$SCRATCH" || fail "no scratch directory"
SCRATCH=$(realpath .)
err="$SCRATCH/err"

# exits CODE WHAT COMMAND...: its standard error is in $err.
exits() {
  local expected=$1 what=$2 code=0
  shift 2
  timeout -k 10 120 "$@" 2>"$err" || code=$?
  ((code == expected)) || fail "$what: status $code, expected $expected" "$err"
}
says() { grep -qF -- "$1" "$err" || fail "it does not say: $1" "$err"; }
not_says() { ! grep -qF -- "$1" "$err" || fail "it says: $1" "$err"; }

note "words that name no command"
exits 2 "an unknown command" "$PULSE" frobnicate
says "there is no command 'frobnicate'; there are: agent, serve"
exits 2 "a misspelt command" "$PULSE" docter
says "did you mean doctor?"
exits 2 "an unknown command of a pool" "$PULSE" pool foo
says "pulse pool: there is no command 'foo'; there are: create"
exits 2 "no command" "$PULSE"
says "there are: agent"
exits 2 "an unknown option" "$PULSE" --wrong
says "'--wrong'"

note "one exit code for command lines that are wrong"
for command in agent serve kv top doctor "graph query" "pool create"; do
  # shellcheck disable=SC2086
  exits 2 "an unknown option of $command" "$PULSE" $command --wrong x
  says "--" # that one, or one that is missing
done
exits 2 "a value out of range" "$PULSE" kv --threads 0
says "--threads"
for command in "kv --threads" "serve --db db --threads" "agent --socket a.sock --serve-loops"; do
  # shellcheck disable=SC2086
  exits 2 "$command 65" "$PULSE" $command 65
  says "range 1 to 64"
done
for words in "top --interval nan" "graph query db x --timeout nan"; do
  # shellcheck disable=SC2086
  exits 2 "$words" "$PULSE" $words
  says "not a number"
done
exits 2 "an agent without a socket" "$PULSE" agent
says "--socket is required; see pulse agent --help"
exits 0 "a profile without a socket" "$PULSE" agent --print-profile bf2 >out
exits 2 "a socket that no URI names" "$PULSE" agent --socket "$SOCKET_DIR/q?x"
says "a URI cannot name it"
for words in "--workers 0" "--engine x" "--mover x"; do
  # shellcheck disable=SC2086
  exits 2 "agent $words" "$PULSE" agent --socket a.sock $words
  says "${words% *}"
done
exits 2 "a pool without a size" "$PULSE" pool create "$SCRATCH/new"
says "--size"
exits 2 "a pool without a name" "$PULSE" pool create "" --size 1G
says "an empty name"
exits 2 "words too many" "$PULSE" pool create a b c d
says "there is no place for: b c d; see pulse pool create --help"
exits 1 "an unknown option of compress" "$PULSE" compress --wrong
exits 2 "an unknown option of filter" "$PULSE" filter --wrong
exits 2 "JSON" env PULSE_LOG_FORMAT=json "$PULSE" kv --threads 0
says '"level":"error"'

note "options that would have no effect, and empty values"
needs() { # OPTION NEEDED COMMAND...
  exits 2 "$1 without $2" "$PULSE" "${@:3}"
  says "$1"
  says "$2"
}
needs --shm-value --shm kv --port 0 --shm-value 1M
needs --shm-clients --shm kv --port 0 --shm-clients 2
needs --agent-loops --agent-socket kv --port 0 --agent-loops 2
needs --udp-threads --udp-port kv --port 0 --udp-threads 1
needs --etcd-ttl --etcd kv --port 0 --etcd-ttl 5s
needs --level --compress filter -e x --level 3
needs --metrics-anywhere --metrics kv --port 0 --metrics-anywhere
needs --metrics-anywhere --metrics agent --socket a.sock --metrics-anywhere
needs --ingest-anywhere --ingest agent --socket a.sock --ingest-anywhere
needs --ingest-max-line --ingest agent --socket a.sock --ingest-max-line 1M
needs --filter --ingest agent --socket a.sock --filter rules
needs --ingest --to agent --socket a.sock --ingest 0 --filter rules
needs --ops-threads --ops agent --socket a.sock --ops-threads 5
needs --copy-payload --store agent --socket a.sock --copy-payload
needs --offload-items --offload agent --socket a.sock --offload-items 5
needs --offload-loops --offload agent --socket a.sock --offload-loops 5
needs --serve-anywhere --serve agent --socket a.sock --serve-anywhere
needs --serve-spin-us --serve agent --socket a.sock --serve-spin-us 5
needs --serve-db --serve agent --socket a.sock --serve-db db
for option in "--serve-cache 1M" --serve-no-password "--serve-idle-timeout 5"; do
  # shellcheck disable=SC2086
  needs "${option%% *}" --serve-db agent --socket a.sock $option
done
needs --serve-kv-max-value --serve-kv agent --socket a.sock --serve-kv-max-value 1M
needs --serve-kv-tls-cert --serve-kv agent --socket a.sock --serve-kv-tls-cert cert
for command in "serve --db db" kv "graph serve db"; do
  # shellcheck disable=SC2086
  needs --tls-cert --tls-key $command --tls-cert cert
  # shellcheck disable=SC2086
  needs --tls-ca --tls-cert $command --tls-ca ca
done
seq 1 100000 >lines
exits 1 "--max-output of compress" "$PULSE" compress --max-output 1M -k lines
says "--max-output"
exits 1 "--salvage of compress" "$PULSE" compress --salvage -k lines
says "--salvage"
[[ ! -e lines.gz ]] || fail "a refused option compresses"
"$PULSE" compress -k lines
exits 1 "an empty --range" "$PULSE" decompress -c --range '' lines.gz >out
says "--range: the value is empty"
exits 2 "an empty --socket" "$PULSE" kv --port 0 --socket ''
says "--socket: the value is empty"
exits 0 "an empty rule" "$PULSE" filter -c --regexp '' lines >out
exits 0 "a level that is none" env PULSE_LOG=foo "$PULSE" compress -c lines >out
says "PULSE_LOG=foo is no level"
exits 0 "a format that is none" env PULSE_LOG_FORMAT=xml "$PULSE" compress -c lines >out
says "PULSE_LOG_FORMAT=xml is no format"
exits 0 "no log" env PULSE_LOG=off "$PULSE" compress -c lines >out
[[ ! -s "$err" ]] || fail "PULSE_LOG=off says something" "$err"

note "options are looked at before a server says that it is there"
for options in "--etcd foo" "--etcd http://127.0.0.1:1 --etcd-ttl 0"; do
  # shellcheck disable=SC2086
  exits 1 "kv $options" "$PULSE" kv --port 0 $options
  says "--etcd"
  not_says "of memory on"
done
exits 1 "a filter that is missing" "$PULSE" agent --socket "$SOCKET_DIR/a.sock" --ingest 0 --filter nofile --to 127.0.0.1:1
says "nofile"
not_says "listening on"
exits 1 "a graph's metrics" "$PULSE" graph serve "$SCRATCH/graph" --bolt 0 --metrics nonsense
says "--metrics"
not_says "bolt://"
# Where the library of HTTP has no IPv6, that is said; elsewhere the server runs until its signal.
timeout 2 "$PULSE" kv --port 0 --memory 64M --metrics '[::1]:0' 2>"$err"
grep -qE 'metrics at http://\[::1\]|has no IPv6|no such address' "$err" || fail "metrics at an address of IPv6" "$err"
exits 1 "--bind '*'" "$PULSE" kv --port 0 --bind '*'
says "0.0.0.0"
exits 1 "--bind nonsense." "$PULSE" kv --port 0 --bind nonsense.
says "without a port"
not_says "HOST:PORT"
exits 1 "--total-memory 1" "$PULSE" agent --socket "$SOCKET_DIR/a.sock" --total-memory 1
says "at least 2M"
exits 1 "--hot 1" "$PULSE" serve --port 0 --db "$SCRATCH/none" --hot 1
says "give at least 16M, or 0 for none"

note "output that is lost"
pool="$SCRATCH/pool"
run_ok pool-create 60 "$PULSE" pool create "$pool" --size 64M --segment 1M
# As another process has it that writes.
flock "$pool" "$PULSE" doctor --pool "$pool" --json >doctor.json
python3 - doctor.json <<'PYTHON' || fail "a pool that is in use" doctor.json
import json, sys
found = [check for check in json.load(open(sys.argv[1]))["checks"] if check["check"] == "pool"]
assert [check["verdict"] for check in found] == ["ok"] and found[0]["remedy"] == "", found
assert "is in use by " in found[0]["found"] and "when nobody has it open" in found[0]["found"], found
assert "end it first" not in found[0]["found"], found
PYTHON
for words in --help --version "doctor --help" "pool ls $pool" "compress --help"; do
  # shellcheck disable=SC2086
  exits 1 "a full device: $words" "$PULSE" $words >/dev/full
  says "standard output"
done
exits 2 "a full device: filter --help" "$PULSE" filter --help >/dev/full
code=0
"$PULSE" doctor --json >/dev/full 2>"$err" || code=$?
((code == 1)) || fail "doctor on a full device: status $code" "$err"
says "standard output"
start_agent "$SOCKET_DIR/top.sock"
exits 1 "top on a full device" "$PULSE" top --once --interval 0.2 --socket "$SOCKET_DIR/top.sock" >/dev/full
says "standard output"
exits 1 "top in a loop on a full device" "$PULSE" top --json --interval 0.2 --socket "$SOCKET_DIR/top.sock" >/dev/full
stop_agent "$AGENT" "$AGENT_LOG"
bash -c '"$1" --help | true' _ "$PULSE" 2>"$err"
[[ ! -s "$err" ]] || fail "a reader that went away is no error" "$err"

note "no memory, no threads: said in one line, and nothing is left behind"
# starved CODES WHAT LIMITS COMMAND...: within these limits it ends with 0 or one of these codes, and an error has a
# line that says why.
starved() {
  local expected=$1 what="$2 with $3" limits=$3 code=0
  shift 3
  timeout -k 10 120 bash -c "ulimit -c 0; $limits; exec \"\$@\"" _ "$@" 2>"$err" || code=$?
  ((code != 0 && code != 124)) || return 0
  ((code == expected)) || fail "$what: status $code" "$err"
  grep -qE '^pulse: .*(memory|thread|allocate|ulimit)' "$err" || fail "$what does not say why" "$err"
  ! grep -q 'terminate called' "$err" || fail "$what says what nobody understands" "$err"
}
seq 1 3000000 >big
gzip -k big
# A stack that is larger than all address space: threads cannot be started, and memory is there.
no_threads='ulimit -s 4000000; ulimit -v 2000000'
# With this much the program begins.
least=20000
until bash -c 'ulimit -c 0; ulimit -v "$1"; "$2" --version; exit $?' _ $least "$PULSE" >out 2>"$err"; do
  ((least += 2000))
done
for limits in "$no_threads" "ulimit -v "$((least + 2000)) "ulimit -v "$((least + 8000)) "ulimit -v "$((least + 20000)) \
  "ulimit -v "$((least + 60000)) "ulimit -v "$((least + 300000)); do
  starved 1 compress "$limits" "$PULSE" compress -f -o y.gz big
  starved 1 decompress "$limits" "$PULSE" decompress -f -o y big.gz
  starved 2 filter "$limits" "$PULSE" filter -c -e 'abc|77' big >out
  [[ -z $(find . -maxdepth 1 -name '.pulse-*') ]] || fail "a temporary file is left with $limits"
  # Where it is enough, the server runs until its signal.
  starved 1 kv "$limits" timeout 1 "$PULSE" kv --port 0 --memory 64M
  starved 1 serve "$limits" timeout 1 "$PULSE" serve --port 0 --db "$SCRATCH/starved" --cache 8M --hot 0
  starved 1 agent "$limits" timeout 1 "$PULSE" agent --socket "$SOCKET_DIR/starved.sock"
done
code=0
bash -c "$no_threads; exec \"\$@\"" _ "$PULSE" compress -f -o y.gz big 2>"$err" || code=$?
((code == 1)) || fail "compress without threads: status $code" "$err"
says "no thread can be started"
echo PASSED
