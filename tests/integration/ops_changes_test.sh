#!/usr/bin/env bash
# Files that shrink, grow, or are replaced while `pulse compress`, `decompress` and `filter` read them:
# an error that says so, or output that is whole; and no input is removed that has something else.
# usage: ops_changes_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH CHANGE_WHILE_READ

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5 CHANGE=$6
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
cd "$SCRATCH" || fail "no scratch directory"
SCRATCH=$(realpath .)

python3 - <<'PY' || fail "cannot make data"
import random
random.seed(22)
words = ["w%x" % random.getrandbits(20) for _ in range(3000)]
with open("data", "w") as f:
    for n in range(160000):
        f.write("%d " % n + " ".join(random.choices(words, k=8)) + random.choice([" timeout\n", "\n", "\n"]))
PY
size=$(stat -c %s data)
((size > 9000000)) || fail "the data are too few"

# changed CODE NAME AT CHANGE COMMAND...: CHANGE is done to `file` when it is read at byte AT.
changed() {
  local expected=$1 name=$2 at=$3 change=$4 code
  shift 4
  rm -f done
  LD_PRELOAD=$CHANGE PULSE_TEST_FILE="$SCRATCH/file" PULSE_TEST_AT=$at \
    PULSE_TEST_CHANGE="LD_PRELOAD=; export LD_PRELOAD; cd '$SCRATCH'; $change; : > done" \
    timeout 120 "$@" >"$name.out" 2>"$name.err"
  code=$?
  [[ -e done ]] || fail "$name: the file was not changed" "$name.err"
  [[ $code == "$expected" ]] || fail "$name: exit code $code, expected $expected" "$name.err"
}
said() { grep -qE -- "$2" "$1.err" || fail "$1 does not say /$2/" "$1.err"; }
silent() { [[ ! -s $1.err ]] || fail "$1 says something" "$1.err"; }
absent() {
  local name=$1 file
  shift
  for file in "$@"; do [[ ! -e $file ]] || fail "$name left $file"; done
  [[ -z $(find . -maxdepth 1 -name '.pulse-*') ]] || fail "$name left a temporary file"
}
same() { cmp -s "$1" "$2" || fail "$3"; }
half=$((size / 2))

# ---- compress
cp data file
changed 1 compress-shrinks $half "truncate -s $half file" "$PULSE" compress file
said compress-shrinks "file became shorter while it was read: it ends at $half, and had bytes up to [0-9]+"
absent compress-shrinks file.gz
[[ -e file ]] || fail "the input is gone"
cp data file
changed 1 compress-empties $half ": > file" "$PULSE" compress -c file
said compress-empties 'file became shorter while it was read: it ends at 0,'

# Growth is read; what is removed is only what was read from beginning to end.
cp data file
changed 2 compress-grows $half "cat data >> file" "$PULSE" compress file
said compress-grows 'file was changed while it was read, and is not removed; file.gz has what was read'
cat data data > twice
same file twice "the input is not what it was"
gzip -dc file.gz | cmp -s - twice || fail "what came while it was read is not in the output"
rm file.gz
cp data file
changed 0 compress-grows-kept $half "cat data >> file" "$PULSE" compress -c file
silent compress-grows-kept
gzip -dc < compress-grows-kept.out | cmp -s - twice || fail "-c: what came while it was read is not in the output"

# Another file has the name now.
cp data file
changed 2 compress-replaced $half "echo new > other; mv other file" "$PULSE" compress file
said compress-replaced 'file was renamed or replaced while it was read, and is not removed'
[[ $(cat file) == new ]] || fail "the new file is gone"
gzip -dc file.gz | cmp -s - data || fail "the output is not what was read"
rm file.gz
cp data file
changed 2 compress-renamed $half "mv file older" "$PULSE" compress file
same older data "a renamed file was changed"
gzip -dc file.gz | cmp -s - data || fail "a renamed file is not what was read"
rm file.gz older
note "compress: files that change meanwhile"

# ---- decompress
for format in gzip bgzf zstd lz4 foreign; do
  if [[ $format == foreign ]]; then gzip -c data > packed; else "$PULSE" compress --format $format -c data > packed; fi
  middle=$(($(stat -c %s packed) / 2))
  cp packed file
  changed 1 "decompress-$format-shrinks" $middle "truncate -s $middle file" "$PULSE" decompress -o back file
  # What was read ahead was there.
  said "decompress-$format-shrinks" 'file (ends|is damaged) at offset [0-9]+'
  absent "decompress-$format-shrinks" back
  cp packed file
  changed 0 "decompress-$format-grows" $middle "cat packed >> file" "$PULSE" decompress -o back file
  same back twice "$format: what came while it was read is not in the output"
  rm back
done
note "decompress: files that change meanwhile"

# ---- filter
grep timeout data > expected
grep timeout twice > expected-twice
cp data file
changed 2 filter-shrinks $half "truncate -s $half file" "$PULSE" filter -e timeout -o out file
said filter-shrinks 'file: became shorter while it was read'
absent filter-shrinks out
cp data file
changed 2 filter-count-shrinks $half ": > file" "$PULSE" filter --count -e timeout file
said filter-count-shrinks 'file: became shorter while it was read'
[[ ! -s filter-count-shrinks.out ]] || fail "a count of a file that shrank"
cp data file
changed 0 filter-grows $half "cat data >> file" "$PULSE" filter -e timeout -o out file
silent filter-grows
same out expected-twice "filter: what came while it was read is not in the output"
rm out
# The last line is written in two parts, the second one while the file is read.
(cat data; printf 'one line in two ti') > file
changed 0 filter-grows-in-a-line $half "printf 'meouts; timeout\n' >> file" "$PULSE" filter -e timeout -o out file
(cat expected; echo 'one line in two timeouts; timeout') > expected-line
same out expected-line "a line that was written in two parts is not one"
rm out
cp data file
changed 0 filter-replaced $half "echo new > other; mv other file" "$PULSE" filter -e timeout -o out file
same out expected "filter: a file that was replaced is not read to its end"
rm out
gzip -c data > packed
middle=$(($(stat -c %s packed) / 2))
cp packed file
changed 2 filter-gzip-shrinks $middle "truncate -s $middle file" "$PULSE" filter -e timeout -o out file
said filter-gzip-shrinks 'file is damaged at offset [0-9]+: the input ends in the middle'
absent filter-gzip-shrinks out
note "filter: files that change meanwhile"
echo PASSED
