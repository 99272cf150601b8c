#!/usr/bin/env bash
# Times `pulse filter` beside ripgrep and a pipe of tools, in pairs, and prints the medians' ratio:
#   scripts/filter-figures.sh PULSE FILE [PAIRS]
# FILE is one of lines, some hundred MB, in the page cache. Rules: Q1 to Q4 of the co-processing paper
# as one set, and 100 rules of the words of log messages. Each side has the same CPUs; it says when the
# two do not count alike. Needs ripgrep, pigz and python3.
set -euo pipefail
pulse=$1 file=$2 pairs=${3:-5}
for program in rg pigz python3; do
  command -v "$program" >/dev/null || { echo "filter-figures: $program is not installed" >&2; exit 1; }
done
scratch=$(mktemp -d "${TMPDIR:-/tmp}/filter-figures.XXXXXX")
trap 'rm -rf "$scratch"' EXIT
q=(-e 'At (.+)Exit (.+)' -e '(.+) on (.+) at Exit (.+)' -e 'on (.+) at (.+)' -e 'Ramp to (.+)')
for i in $(seq 100); do
  case $((i % 4)) in
    0) echo "Failed password for user$i" ;;
    1) echo "block blk_$i[0-9]+ terminating" ;;
    2) echo "error $i.*state (6|7)" ;;
    3) echo "timeout.*node-$i" ;;
  esac
done >"$scratch/rules"
pigz -1 -c "$file" >"$scratch/file.gz"

# pair NAME OURS THEIRS: shell commands whose output is a number that has to be the same.
pair() {
  local name=$1 ours=$2 theirs=$3
  PULSE=$pulse FILE=$file SCRATCH=$scratch python3 - "$name" "$ours" "$theirs" "$pairs" <<'PYTHON'
import os, resource, statistics, subprocess, sys, time
name, ours, theirs, pairs = sys.argv[1], sys.argv[2], sys.argv[3], int(sys.argv[4])
def run(command):
    timed, _, check = command.partition(" ;;; ")  # what is behind shows the result, untimed
    before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    out = subprocess.run(["bash", "-c", timed], stdout=subprocess.PIPE, check=False).stdout
    wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
    cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
    if check:
        out = subprocess.run(["bash", "-c", check], stdout=subprocess.PIPE, check=True).stdout
    return wall, cpu, out.decode().strip()
run(ours), run(theirs)  # warm
rows = [(run(ours), run(theirs)) for _ in range(pairs)]
alike = len({r[2] for row in rows for r in row}) == 1
ratios = sorted(t[0] / o[0] for o, t in rows)
median = lambda i, j: statistics.median(row[i][j] for row in rows)
print(f"{name}: {median(0, 0):.2f} s (CPU {median(0, 1):.2f}) against {median(1, 0):.2f} s "
      f"(CPU {median(1, 1):.2f}): {statistics.median(ratios):.2f} x [{ratios[0]:.2f} to "
      f"{ratios[-1]:.2f}], result {rows[0][0][2]}{'' if alike else ', NOT ALIKE'}")
PYTHON
}
printf -v rules ' %q' "${q[@]}"
pair "Q1-Q4, count" "$pulse filter -c$rules $file" "rg --no-config -a -c$rules $file"
pair "100 rules, count" "$pulse filter -c --rules $scratch/rules $file" \
  "rg --no-config -a -c -f $scratch/rules $file || echo 0"
pair "gzip to gzip" \
  "$pulse filter$rules --compress gzip $scratch/file.gz >$scratch/a.gz ;;; pigz -dc $scratch/a.gz | cksum" \
  "zcat $scratch/file.gz | rg --no-config -a -N$rules | pigz -1 >$scratch/b.gz ;;; pigz -dc $scratch/b.gz | cksum"
