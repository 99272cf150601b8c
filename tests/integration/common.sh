# shellcheck shell=bash
# Shared by the integration tests; sourced, never run. The caller has PLUGIN, PULSE, DB_CHECK and
# SCRATCH set and then calls setup_scratch.

set -uo pipefail
unset LD_PRELOAD PULSE_OPTIONS PULSE_LOG # the tests say what they preload and set

declare -a STARTED_PIDS=()
declare -a MOUNTED=()
SOCKET_DIR=""

note() { printf -- '-- %s\n' "$*"; }

# fail TEXT [LOG]: says what went wrong, shows the end of the log, ends the test.
fail() {
  printf 'FAIL: %s\n' "$1" >&2
  if [[ -n "${2:-}" && -s "$2" ]]; then
    printf -- '---- last lines of %s\n' "$2" >&2
    tail -n 40 "$2" >&2
    printf -- '----\n' >&2
  fi
  exit 1
}

skip_part() { printf 'SKIPPED PART: %s\n' "$*"; }

clean_up() {
  local rc=$? pid dir
  trap - EXIT INT TERM
  for pid in ${STARTED_PIDS[@]+"${STARTED_PIDS[@]}"}; do
    kill -9 "$pid" 2>/dev/null
    wait "$pid" 2>/dev/null
  done
  for dir in ${MOUNTED[@]+"${MOUNTED[@]}"}; do
    if mountpoint -q "$dir"; then umount "$dir" 2>/dev/null || umount -l "$dir"; fi
  done
  if [[ -n "$SOCKET_DIR" ]]; then rm -rf "$SOCKET_DIR"; fi
  if [[ -z "${PULSE_TEST_KEEP:-}" ]]; then
    rm -rf "$SCRATCH"
  else
    printf 'kept %s\n' "$SCRATCH"
  fi
  exit "$rc"
}

setup_scratch() {
  local file
  export PYTHONDONTWRITEBYTECODE=1  # nothing is written beside the tests
  for file in "$PLUGIN" "$PULSE" "$DB_CHECK"; do
    [[ -e "$file" ]] || fail "$file is not there; build first"
  done
  rm -rf "$SCRATCH"
  mkdir -p "$SCRATCH" || fail "cannot create $SCRATCH"
  # Unix socket paths are short; the build directory may not be.
  SOCKET_DIR=$(mktemp -d "${TMPDIR:-/tmp}/pulse-test.XXXXXX") || fail "cannot create a directory"
  trap clean_up EXIT
  trap 'exit 130' INT TERM
}

# preload COMMAND...: runs COMMAND with the plug-in, and nothing else of the shell's, preloaded.
preload() { env LD_PRELOAD="$PLUGIN" "$@"; }

# run_ok NAME SECONDS COMMAND...: COMMAND must succeed. Output goes to $SCRATCH/NAME.log.
run_ok() {
  local name=$1 limit=$2 log="$SCRATCH/$1.log" rc
  shift 2
  timeout -k 10 "$limit" "$@" >"$log" 2>&1
  rc=$?
  if ((rc == 124 || rc == 137)); then fail "$name: hung (no end after $limit s): $*" "$log"; fi
  if ((rc != 0)); then fail "$name: exit status $rc: $*" "$log"; fi
}

# expect_error NAME 'regex;;regex...' COMMAND...: COMMAND must end by itself, with an error status
# and not by a signal, and its output must match every regex (case does not matter).
expect_error() {
  local name=$1 patterns=$2 log="$SCRATCH/$1.log" rc pattern
  shift 2
  timeout -k 10 120 "$@" >"$log" 2>&1
  rc=$?
  if ((rc == 124 || rc == 137)); then fail "$name: hung where an error was due: $*" "$log"; fi
  if ((rc == 0)); then fail "$name: succeeded where an error was due: $*" "$log"; fi
  if ((rc > 128)); then fail "$name: died by signal $((rc - 128)): $*" "$log"; fi
  require_match "$name" "$patterns" "$log"
  note "$name: refused as it should: $(grep -iE -m1 -- "${patterns%%;;*}" "$log" | cut -c1-240)"
}

# require_match NAME 'regex;;regex...' LOG. Echoes of the URI do not count: a message must name the
# thing itself.
require_match() {
  local name=$1 patterns=$2 log=$3 pattern
  while [[ -n "$patterns" ]]; do
    pattern=${patterns%%;;*}
    if [[ "$patterns" == *';;'* ]]; then patterns=${patterns#*;;}; else patterns=""; fi
    sed -E 's#pulse://[^ "]*##g' "$log" | grep -iE -- "$pattern" >/dev/null ||
      fail "$name: the message does not say /$pattern/" "$log"
  done
}

# on_full_disk CODE SIZE COMMAND...: COMMAND, of whose arguments DISK is a disk of SIZE that it fills, exits
# with CODE, says so, and leaves nothing there. Skipped where nobody may mount one.
on_full_disk() {
  local expected=$1 size=$2 disk="$SCRATCH/full-disk" log="$SCRATCH/full-disk.log"
  shift 2
  mkdir -p "$disk"
  if ! unshare -rm mount -t tmpfs -o "size=$size" none "$disk" 2>/dev/null; then
    skip_part "no disk can be mounted here to be filled"
    return
  fi
  # shellcheck disable=SC2016
  timeout -k 10 120 unshare -rm bash -c 'mount -t tmpfs -o "size=$1" none "$0" && shift && "${@/#DISK/$0}"
    code=$?
    ls -A "$0"
    exit "$code"' "$disk" "$size" "$@" >"$log.left" 2>"$log"
  [[ $? == "$expected" ]] || fail "a full disk gives another exit code than $expected: $*" "$log"
  grep -q 'No space left on device' "$log" || fail "a full disk is not said: $*" "$log"
  [[ ! -s "$log.left" ]] || fail "a full disk keeps part of the output: $*" "$log.left"
  note "a full disk is said: $(head -n 1 "$log" | cut -c1-200)"
}

# await SECONDS COMMAND...: polls until COMMAND succeeds. The limit only ends a hang.
await() {
  local limit=$1 end
  shift
  end=$((SECONDS + limit))
  until "$@"; do
    if ((SECONDS >= end)); then return 1; fi
    sleep 0.1
  done
}

is_listening() { awk -v p="$1" '$8 == p && $4 == "00010000" {found = 1} END {exit !found}' /proc/net/unix; }
is_alive() {
  [[ -d /proc/$1 ]] || return 1
  grep -q '^State:\s*Z' "/proc/$1/status" 2>/dev/null || return 0
  # Its first thread may be through, and others still hold files and their locks.
  local -a threads=("/proc/$1/task/"*)
  ((${#threads[@]} > 1))
}
is_gone() { ! is_alive "$1"; }

# ends_well PID [SECONDS]: awaits the end of a process of this shell, whose status must be 0. It is only
# waited for once it has ended: where pids come again soon, bash 5.2 may lose a child that ends within
# wait ("No record of process").
ends_well() { await "${2:-120}" is_gone "$1" && wait "$1"; }

# start LOG COMMAND...: runs COMMAND in the background; its pid is in STARTED.
start() {
  local log=$1
  shift
  # What an earlier process wrote there is not of this one, which is a copy of this shell at first.
  : >"$log"
  "$@" >"$log" 2>&1 &
  STARTED=$!
  STARTED_PIDS+=("$STARTED")
}

# An agent listens before it says so, and where its metrics are comes last.
agent_has_begun() { # SOCKET ARGUMENTS...
  is_listening "$1" && grep -q 'agent: listening on' "$AGENT_LOG" || return 1
  [[ " $* " != *' --metrics '* ]] || grep -q 'metrics at' "$AGENT_LOG"
}

# start_agent SOCKET [ARGUMENTS...]: AGENT is its pid, AGENT_LOG its output.
start_agent() {
  local socket=$1
  shift
  AGENT_LOG="$SCRATCH/agent.$((++AGENT_COUNT)).log"
  start "$AGENT_LOG" "$PULSE" agent --socket "$socket" "$@"
  AGENT=$STARTED
  local end=$((SECONDS + 60))
  until agent_has_begun "$socket" "$@"; do
    is_alive "$AGENT" || fail "the agent ended at its start" "$AGENT_LOG"
    if ((SECONDS >= end)); then fail "the agent does not listen on $socket" "$AGENT_LOG"; fi
    sleep 0.1
  done
}
AGENT_COUNT=0

# start_server COMMAND NAME ARGUMENTS...: `pulse serve` or `pulse kv` on a port of the kernel's choice:
# SERVER is its pid, SERVER_LOG its output, PORT its port.
start_server() {
  local command=$1
  SERVER_LOG="$SCRATCH/$command.$2.log"
  shift 2
  start "$SERVER_LOG" "$PULSE" "$command" --port 0 "$@"
  SERVER=$STARTED
  await 60 grep -q 'process [0-9]' "$SERVER_LOG" || fail "the server does not start" "$SERVER_LOG"
  PORT=$(grep -oE ':[0-9]+ ' "$SERVER_LOG" | head -n 1 | tr -d ': ')
}

# free_ports N: prints so many ports, none of those that the kernel gives to whoever connects or names none:
# nobody takes them before their server starts. Tests at the same time get others.
free_ports() {
  python3 - "$1" <<'EOF'
import fcntl, os, random, socket, sys, tempfile
with open("/proc/sys/net/ipv4/ip_local_port_range") as f:
    low, high = map(int, f.read().split())
ports = [p for p in range(10000, 65536) if not low <= p <= high]
held = []
# Each call goes on where the one before it ended, whichever test made it: what was printed is bound
# only later.
with open(os.path.join(tempfile.gettempdir(), f"pulse-test-ports-{os.getuid()}"), "a+") as last:
    fcntl.flock(last, fcntl.LOCK_EX)
    last.seek(0)
    text = last.read()
    start = int(text) % len(ports) if text.isdigit() else random.randrange(len(ports))
    for n in range(len(ports)):
        try:
            held.append(socket.create_server(("127.0.0.1", ports[(start + n) % len(ports)])))
        except OSError:
            continue
        if len(held) == int(sys.argv[1]):
            last.truncate(0)
            last.write(str(start + n + 16))  # with room for those that follow a server's first one
            print(*(s.getsockname()[1] for s in held))
            sys.exit(0)
sys.exit("no ports are free")
EOF
}

# prepare_etcd: ends the test as skipped where there is no etcd; else chooses its ports, for clients
# and for peers. ETCD_URL is where clients find it.
prepare_etcd() {
  if ! command -v etcd >/dev/null; then
    echo 'etcd is not installed (Debian: etcd-server): its part of the test is left out'
    exit 77
  fi
  local ports
  read -r -a ports < <(free_ports 2)
  ETCD_URL="http://127.0.0.1:${ports[0]}"
  ETCD_PEERS="http://127.0.0.1:${ports[1]}"
}

# start_etcd NAME: with data of that name; ETCD is its pid, etcd.log its output.
start_etcd() {
  start "$SCRATCH/etcd.log" etcd --data-dir "$SCRATCH/$1" --listen-client-urls "$ETCD_URL" \
    --advertise-client-urls "$ETCD_URL" --listen-peer-urls "$ETCD_PEERS" \
    --initial-advertise-peer-urls "$ETCD_PEERS" --initial-cluster "default=$ETCD_PEERS"
  ETCD=$STARTED
}

# says WHAT EXPECTED COMMAND...: what a client of the server is told has EXPECTED in it.
says() {
  local what=$1 expected=$2 said
  shift 2
  said=$(timeout 60 "$@" 2>&1)
  [[ "$said" == *"$expected"* ]] || fail "$what: expected '$expected', got '$said'" "$SERVER_LOG"
  note "$what: ${said:0:120}"
}

# stop_agent PID LOG: SIGTERM must drain and end with status 0.
stop_agent() {
  local pid=$1 log=$2
  kill -TERM "$pid" 2>/dev/null || fail "the agent was already gone before its SIGTERM" "$log"
  ends_well "$pid" 60 || fail "the agent did not end well after SIGTERM" "$log"
}

count_fds() {
  local -a all=("/proc/$1/fd/"*)
  echo "${#all[@]}"
}

# read_count FILE: the number in an --acked file, without its leading zeros.
read_count() {
  local text
  text=$(cat "$1" 2>/dev/null) || text=0
  echo $((10#${text:-0}))
}

# mount_tmpfs DIR SIZE: false where mounting is not permitted.
mount_tmpfs() {
  mkdir -p "$1"
  ((EUID == 0)) && mount -t tmpfs -o "size=$2" tmpfs "$1" 2>/dev/null || return 1
  MOUNTED+=("$1")
}
