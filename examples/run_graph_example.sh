#!/usr/bin/env bash
# run_graph_example.sh GRAPH_EXAMPLE GRAPH_EXAMPLE_CXX DIRECTORY: runs both examples of pulse/graph.h, the second one
# twice, and compares what they say. Leaves nothing behind.
set -euo pipefail
c=${1:?usage: run_graph_example.sh GRAPH_EXAMPLE GRAPH_EXAMPLE_CXX DIRECTORY}
cxx=$2
directory=$3
rm -rf "$directory"
trap 'rm -rf "$directory"' EXIT
same() { diff <(printf '%s\n' "$2") <(printf '%s\n' "$1") || { echo "FAIL: $3" >&2; exit 1; }; }
same "$("$c")" $'Bob KNOWS Cid since 2005\n1.62 1.80 1.75\nline 1, column 10' "$c"
mkdir -p "$(dirname "$directory")"
same "$("$cxx" "$directory")" $'2 accounts made\nAnn: 70\nBob: 130' "$cxx"
same "$("$cxx" "$directory")" $'0 accounts made\nAnn: 40\nBob: 160' "$cxx, the second time"
