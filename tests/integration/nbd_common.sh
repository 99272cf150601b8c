# shellcheck shell=bash
# Shared by the tests of the nbdkit plug-in; sourced after common.sh. The caller has NBD_PLUGIN set.
# setup_nbd ends the test with status 77 (skipped) without nbdkit; SOCKET of the agent is
# $agent_socket.

setup_nbd() {
  local tool
  for tool in nbdkit nbdcopy nbdinfo; do
    if ! command -v "$tool" >/dev/null; then
      echo "skipped: $tool is not installed (apt packages nbdkit, libnbd-bin)"
      exit 77
    fi
  done
  [[ -e "$NBD_PLUGIN" ]] || fail "$NBD_PLUGIN is not there; build first"
  setup_scratch
  agent_socket="$SOCKET_DIR/agent.sock"
}

# serve NAME ARGUMENTS...: nbdkit with the plug-in; SERVER is its pid, URI its socket.
serve() {
  local name=$1 socket="$SOCKET_DIR/$1.sock"
  shift
  SERVER_LOG="$SCRATCH/$name.server.log"
  URI="nbd+unix:///?socket=$socket"
  rm -f "$socket" # nbdkit leaves it behind
  start "$SERVER_LOG" nbdkit --foreground --unix "$socket" --threads 8 "$NBD_PLUGIN" \
    socket="$agent_socket" "$@"
  SERVER=$STARTED
  local end=$((SECONDS + 30))
  until is_listening "$socket"; do
    is_alive "$SERVER" || fail "$name: nbdkit ended at its start" "$SERVER_LOG"
    if ((SECONDS >= end)); then fail "$name: nbdkit does not listen" "$SERVER_LOG"; fi
    sleep 0.1
  done
}

# end_server: SIGTERM ends nbdkit, whatever state its clients and the agent are in.
end_server() {
  kill -TERM "$SERVER" 2>/dev/null || fail "nbdkit was already gone" "$SERVER_LOG"
  await 60 is_gone "$SERVER" || fail "nbdkit did not end after SIGTERM" "$SERVER_LOG"
  wait "$SERVER"
  local rc=$?
  ((rc == 0)) || fail "nbdkit ended with status $rc" "$SERVER_LOG"
}

# create_file DIRECTORY FILE SIZE: by a server that does nothing else.
create_file() {
  serve "create-$1-$2" dir="$1" file="$2" create=true size="$3"
  end_server
}

# refused NAME 'regex;;...' ARGUMENTS...: nbdkit must not start, and must say why.
refused() {
  local name=$1 patterns=$2
  shift 2
  expect_error "$name" "$patterns" nbdkit --foreground --unix "$SOCKET_DIR/refused.sock" \
    "$NBD_PLUGIN" "$@"
}

# uri_of EXPORT NAME: an export of the server NAME, by its name.
uri_of() { printf 'nbd+unix:///%s?socket=%s' "$1" "$SOCKET_DIR/$2.sock"; }

sum_of() { sha256sum <"$1" | cut -d' ' -f1; }

# require_same NAME FILE FILE: by their checksums.
require_same() {
  local -a sums=("$(sum_of "$2")" "$(sum_of "$3")")
  [[ -s "$2" && "${sums[0]}" == "${sums[1]}" ]] || fail "$1: $3 (${sums[1]}) is not $2 (${sums[0]})"
}
