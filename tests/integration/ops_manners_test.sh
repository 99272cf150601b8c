#!/usr/bin/env bash
# `pulse compress`, `decompress` and `filter` beside what people, shells and scripts do to gzip, zstd and
# grep: strange names, links, pipes, closed descriptors, streams that are damaged behind their first part.
# usage: ops_manners_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
cd "$SCRATCH" || fail "no scratch directory"
SCRATCH=$(realpath .)

printf 'one\n' >ab
seq 1 800000 >lines # several chunks of each format
# exits CODE WHAT COMMAND...
exits() {
  local expected=$1 what=$2 code=0
  shift 2
  "$@" 2>"$SCRATCH/err" || code=$?
  ((code == expected)) || fail "$what: status $code, expected $expected" "$SCRATCH/err"
}
says() { grep -qF -- "$1" "$SCRATCH/err" || fail "it does not say: $1" "$SCRATCH/err"; }
same() { cmp -s "$1" "$2" || fail "$3"; }

note "names"
mkdir names
(cd names && touch x y && printf 'bracket\n' >'[x,y]')
exits 0 "a name in brackets" "$PULSE" compress names/'[x,y]'
(cd names && exits 0 "a name in brackets alone" "$PULSE" compress -k -f x '[x,y].gz' && rm -f x.gz)
(cd names && printf 'bracket\n' >'[x,y]' && exits 0 "brackets" "$PULSE" compress -f '[x,y]')
[[ "$(ls names)" == $'[x,y].gz\n[x,y].gz.gz\nx\ny' ]] || fail "files beside a name in brackets: $(ls names)"
[[ "$(gzip -dc names/'[x,y].gz')" == bracket ]] || fail "the name in brackets has other bytes"
exits 1 "an empty -o" "$PULSE" compress -o "" ab
says "the value is empty"
exits 2 "an empty -o of a filter" "$PULSE" filter -e one -o "" ab
exits 1 "an empty --output=" "$PULSE" compress -f --output= ab <lines
exits 2 "an empty --output= of a filter" "$PULSE" filter -e 1 --force --output= ab <lines
[[ "$(cat ab)" == one && ! -e ab.gz ]] || fail "an empty -o takes the input away"
printf -- '--name=\n--\nx\n' >options
# rule RULE COUNT: what looks like an option is a rule behind -e.
rule() {
  exits 0 "the rule '$1'" "$PULSE" filter -c -F -e "$1" options >out
  [[ "$(cat out)" == "$2" ]] || fail "the rule '$1' selects $(cat out)"
}
rule --name= 1
rule -- 2
rule "" 3
exits 1 "the rule --regexp=" "$PULSE" filter -c -F -e --regexp= options >out
[[ "$(cat out)" == 0 ]] || fail "the rule '--regexp=' selects $(cat out)"
exits 0 "an empty --regexp=" "$PULSE" filter -c --regexp= options >out
[[ "$(cat out)" == 3 ]] || fail "an empty --regexp= selects $(cat out)"
exits 2 "an empty -o behind a rule" "$PULSE" filter -e -o -o "" options
says "the value is empty"

note "what is behind the input on the same descriptor"
exits 0 "two readers of one descriptor" bash -c '{ "$1" compress -c >two.gz && cat >rest; } <lines' _ "$PULSE"
[[ ! -s rest ]] || fail "compress leaves its input to the next reader"
exits 0 "two readers of one descriptor" bash -c '{ "$1" filter -c -e 1 >two && cat >rest; } <lines' _ "$PULSE"
[[ ! -s rest ]] || fail "filter leaves its input to the next reader"

note "damage behind the first part is damage"
# damaged WHAT FILE WORDS...: exits with 1, says the words, and keeps the file.
damaged() {
  local what=$1 file=$2 word
  shift 2
  cp "$file" kept
  exits 1 "$what" "$PULSE" decompress -f -o out "$file"
  for word in "$@"; do says "$word"; done
  exits 1 "$what, in place" "$PULSE" decompress "$file"
  same "$file" kept "$what: the input is gone"
  rm -f out
}
"$PULSE" compress --format zstd -c lines >lines.zst
python3 - <<'PY' || fail "cannot find a second frame"
data = bytearray(open("lines.zst", "rb").read())
at = data.index(b"\x28\xb5\x2f\xfd", 4)
data[at] ^= 1
open("magic.zst", "wb").write(data)
open("cut.zst", "wb").write(bytes(data[:at]) + b"\x28\xb5")
PY
damaged "a later frame's magic" magic.zst "at offset" "no frame follows"
damaged "a later frame's magic, cut off" cut.zst "at offset"
exits 2 "a filter of it" "$PULSE" filter -c -e 1 magic.zst >out
"$PULSE" compress --format lz4 -c ab >ab.lz4
printf '\x04\x22\x4d' >>ab.lz4
damaged "a second LZ4 frame, cut off" ab.lz4 "no frame follows"
for tail in '\x1f' '\x1f\x8b' '\x1f\x8b\x08\x00\x00'; do
  { gzip -c ab; printf "$tail"; } >cut.gz
  damaged "a second member, cut off" cut.gz "at offset" "ends in a header"
done
{ gzip -c ab; printf '\x1f\x8b\x07\x00\x00\x00\x00\x00\x00\x00rest'; } >method.gz
damaged "a second member of an unknown method" method.gz "unknown method"
{ gzip -c ab; printf 'junk'; } >junk.gz
exits 2 "other bytes behind a member" "$PULSE" decompress -c junk.gz >out
says "trailing garbage"
same out ab "before trailing garbage"

note "what is whole before damage is salvaged, and counted"
head -c 200000 lines >some
for format in bgzf zstd lz4; do
  "$PULSE" compress --format $format -c some >some.packed
  size=$(stat -c %s some.packed)
  for cut in 1 5; do
    head -c $((size - cut)) some.packed >some.cut
    exits 1 "salvage of $format" "$PULSE" decompress --salvage -f -o out some.cut
    kept=$(stat -c %s out)
    says "the $kept bytes before it are in out"
    cmp -s -n "$kept" out some || fail "salvage of $format has other bytes"
    # The last block may be the one that is cut; LZ4's is of 4 MiB, and the data are one.
    [[ $format == lz4 ]] || ((kept == 200000)) || fail "salvage of $format, $cut bytes cut: only $kept bytes"
  done
done
exits 1 "salvage to a pipe" "$PULSE" decompress --salvage -c magic.zst >out
says "the $(stat -c %s out) bytes before it are in standard output"
(($(stat -c %s out) > 1000000)) || fail "salvage to standard output"
# Damage that a decoder finds: blocks before it are good.
"$PULSE" compress --format bgzf -c lines >lines.bgz
"$PULSE" compress --format zstd --chunk 64K -c lines >lines.zst
for packed in lines.bgz lines.zst; do
  python3 - $packed <<'PY'
import sys
data = bytearray(open(sys.argv[1], "rb").read())
data[len(data) // 2] ^= 64
open("flipped", "wb").write(data)
PY
  exits 1 "salvage of $packed" "$PULSE" decompress --salvage -f -o out flipped
  kept=$(stat -c %s out)
  says "the $kept bytes before it are in out"
  cmp -s -n "$kept" out lines || fail "salvage of $packed has other bytes"
  ((kept > $(stat -c %s lines) * 2 / 5)) || fail "salvage of $packed: only $kept bytes"
done
gzip -c lines | head -c 300000 >cut.gz
exits 1 "salvage with an index" "$PULSE" decompress --salvage --index idx -f -o out cut.gz
says "the $(stat -c %s out) bytes before it are in out"
exits 1 "salvage as a test" "$PULSE" decompress --salvage -t magic.zst
says "bytes before it can be read"

note "files without a size, links, named pipes"
exits 0 "a file of /proc" "$PULSE" compress -c /proc/version >out.gz
gzip -dc out.gz | cmp -s - /proc/version || fail "a file of /proc has other bytes"
page=/sys/kernel/mm/transparent_hugepage/enabled
if [[ -r $page ]]; then
  exits 0 "a file of /sys" "$PULSE" compress -c $page >out.gz
  gzip -dc out.gz | cmp -s - $page || fail "a file of /sys has other bytes"
  exits 0 "a filter of /sys" "$PULSE" filter -c -e never $page >out
  [[ "$(cat out)" == 1 ]] || fail "a filter of /sys counts $(cat out)"
else
  skip_part "no $page"
fi
printf 'old' >target
ln -s target link
exits 1 "a link that is there" "$PULSE" compress -o link ab
says "--force"
exits 0 "a link, forced" "$PULSE" compress -f -o link ab
[[ -L link && "$(gzip -dc target)" == one ]] || fail "a link's target is not written"
printf 'mine' >target
ln -sf target ab.gz
exits 0 "an implied name that is a link, forced" "$PULSE" compress -kf ab
[[ ! -L ab.gz && "$(cat target)" == mine ]] || fail "an implied name follows a link"
rm -f ab.gz
ln -s nowhere dangling
exits 1 "a link that leads nowhere" "$PULSE" compress -o dangling ab
says "leads nowhere"
exits 0 "/dev/stdout" "$PULSE" compress -o /dev/stdout ab >out.gz
gzip -dc out.gz | cmp -s - ab || fail "/dev/stdout has other bytes"
exits 0 "/dev/fd/1 among others" bash -c '{ echo begin; "$1" compress -f -o /dev/fd/1 ab; echo end; } >all' _ "$PULSE"
[[ "$(head -n 1 all)" == begin && "$(tail -c 4 all)" == end ]] || fail "/dev/fd/1 has taken the place of a file"
exits 1 "/dev/fd/3" bash -c '"$1" compress -f -o /dev/fd/3 ab 3>all' _ "$PULSE"
says "redirection"
mkfifo fifo
for _ in 1 2 3 4 5; do
  cat ab >fifo &
  STARTED_PIDS+=("$!")
  exits 0 "a named pipe whose writer comes first" timeout 60 "$PULSE" compress -c fifo >out.gz
  gzip -dc out.gz | cmp -s - ab || fail "a named pipe whose writer comes first has other bytes"
done
(sleep 0.3 && cat lines >fifo) & # sleep: the reader comes first, mostly
STARTED_PIDS+=("$!")
exits 0 "a named pipe" timeout 60 "$PULSE" compress -c fifo >out.gz
gzip -dc out.gz | cmp -s - lines || fail "a named pipe has other bytes"

note "descriptors that are closed, or do not wait"
exits 0 "without standard input and error" bash -c '"$1" decompress -kf -o closed junk.gz <&- 2>&- || (($? == 2))' _ "$PULSE"
same closed ab "messages are in the output"
exits 1 "without standard output" bash -c '"$1" compress -c ab >&-' _ "$PULSE"
says "standard output"
python3 - "$PULSE" <<'PY' || fail "standard input that does not wait"
import os, subprocess, sys, time
for words, expected in ((["compress", "-c"], None), (["filter", "-e", "1"], b"line 1\n")):
    read, write = os.pipe()
    os.set_blocking(read, False)
    program = subprocess.Popen([sys.argv[1], *words], stdin=read, stdout=subprocess.PIPE)
    time.sleep(0.3)  # sleep: the program comes first, mostly
    os.write(write, b"line 1\n")
    os.close(write)
    os.close(read)
    out = program.communicate(timeout=60)[0]
    assert program.returncode == 0, (words, program.returncode)
    assert expected is None or out == expected, (words, out)
PY

note "signals and modes"
mkdir limited
cp lines limited/s
(ulimit -f 100; cd limited; "$PULSE" compress -1 --deterministic -k s) >/dev/null 2>&1 && fail "a limit of file sizes has no effect"
[[ "$(ls -A limited)" == s ]] || fail "what a signal left: $(ls -A limited)"
cp ab mode
chmod 4751 mode
exits 0 "a mode" "$PULSE" compress mode
[[ "$(stat -c %a mode.gz)" == 751 ]] || fail "mode $(stat -c %a mode.gz)"

note "other manners"
gzip -c ab >asked.gz
exits 0 "gunzip's -d" "$PULSE" decompress -dc asked.gz >out
same out ab "-d of decompress has other bytes"
exits 0 "gzip's -tc" "$PULSE" decompress -tc asked.gz >out
[[ ! -s out ]] || fail "-tc writes something"
exits 1 "-t with -o" "$PULSE" decompress -t -o tested asked.gz
says "-t writes nothing"
exits 1 "compress -t with -o" "$PULSE" compress -t -o tested asked.gz
[[ ! -e tested ]] || fail "-t with -o writes something"
exits 0 "-dcf of what is not compressed" "$PULSE" decompress -cf ab >out
same out ab "-dcf has other bytes"
exits 0 "-dcf of nothing" "$PULSE" decompress -cf /dev/null >out
[[ ! -s out ]] || fail "-dcf of nothing is something"
{ gzip -c ab; echo plain; } >mixed
exits 0 "-dcf of gzip and text" "$PULSE" decompress -cf mixed >out
[[ "$(cat out)" == $'one\nplain' ]] || fail "-dcf of gzip and text: $(cat out)"
for begin in '\x1f\x8b' '\x1f\x8b\x07aaaaaaaaaa'; do
  printf "$begin" >cut.gz
  exits 1 "-dcf of gzip that is cut off" "$PULSE" decompress -cf cut.gz
done
exits 1 "-dc of what is not compressed" "$PULSE" decompress -c ab
gzip -c lines >foreign.gz
exits 2 "an index that cannot be written" "$PULSE" decompress --index nowhere/index -c foreign.gz >out
says "no index"
same out lines "without its index"
python3 - <<'PY'
length = 0x00088b1f
open("prefixed", "wb").write(length.to_bytes(4, "little") + b"b" * length)
PY
exits 0 "a length that looks like gzip" "$PULSE" filter --records prefixed --plain -c -e b prefixed >out
[[ "$(cat out)" == 1 ]] || fail "--plain counts $(cat out)"
exits 2 "--count with --compress" "$PULSE" filter --count --compress gzip -e one ab
says "--count"
echo PASSED
