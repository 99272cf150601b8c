#!/usr/bin/env bash
# `pulse filter` as a command: exit codes, options, pipes, bad input; and what it selects beside what
# grep -E and ripgrep do, where they are installed. usage:
#   filter_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH
# PULSE_TEST_LOGS=FOLDER compares on the logs of this folder, in place of one in the shape of real ones.

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
command -v python3 >/dev/null || fail "python3 is not installed"
cd "$SCRATCH" || fail "no $SCRATCH"

# expect_code CODE NAME COMMAND...: runs it, with its output in NAME.out and NAME.err.
expect_code() {
  local expected=$1 name=$2 code
  shift 2
  "$@" >"$name.out" 2>"$name.err" </dev/null
  code=$?
  [[ $code == "$expected" ]] || fail "$name: exit code $code, expected $expected" "$name.err"
}
expect_text() { grep -qF -- "$2" "$1" || fail "$1: no '$2' in it" "$1"; }

# Sentences as the co-processing paper's queries look for, seeded, and bytes that are no text.
python3 - "$SCRATCH/lines" "${PULSE_TEST_SEED:-1}" <<'PYTHON' || fail "cannot make data"
import random, sys
r = random.Random(int(sys.argv[2]))
print(f"seed {sys.argv[2]}")
streets = ["Main St", "US-50", "I-270/OH-37", "State Route 32", "Memorial Dr"]
def line():
    a, b, e = r.choice(streets), r.choice(streets), r.randint(1, 99)
    return r.choice([f"At {a}/Exit {e} - Accident.", f"Accident on {a} Southbound at Exit {e} {b}.",
                     f"Accident on {a} at {b}. Expect delays.", f"Ramp to {a} - Accident.",
                     f"Lane blocked near {a} and {b}.", "", f"  {e}\ttabs\t{a}", f"K\u212a na\u00efve {b}"])
with open(sys.argv[1], "w", encoding="utf-8", newline="") as f:
    for _ in range(40000): f.write(line() + r.choice(["\n"] * 30 + ["\r\n"]))
    f.write("the last line has no newline at Exit")
PYTHON

note "exit codes are grep's"
expect_code 0 some "$PULSE" filter -e 'Ramp to (.+)' lines
expect_code 1 none "$PULSE" filter -e 'nothing like this' lines
[[ ! -s none.out ]] || fail "output without a match"
expect_code 1 none-count "$PULSE" filter --count -e 'nothing like this' lines
[[ $(cat none-count.out) == 0 ]] || fail "a count of nothing is 0"
expect_code 2 no-file "$PULSE" filter -e a not-there
expect_text no-file.err "not-there: No such file"
expect_code 2 folder "$PULSE" filter -e a .
expect_text folder.err "Is a directory"
expect_code 2 no-rules "$PULSE" filter lines
expect_text no-rules.err "-e PATTERN or --rules FILE"
expect_code 2 bad-option "$PULSE" filter --no-such-option -e a lines
expect_code 2 bad-size "$PULSE" filter --max-line 2G -e a lines
expect_text bad-size.err "at most 1G"
expect_code 2 bad-cpus "$PULSE" filter --cpus x -e a lines
expect_code 2 absent-cpu "$PULSE" filter --cpus 1000 -e a lines
expect_text absent-cpu.err "CPU 1000 is not one that this process may use"
expect_code 2 bad-placement "$PULSE" filter --placement there -e a lines
expect_code 2 no-agent "$PULSE" filter --placement agent -e a lines
expect_code 2 both "$PULSE" filter --extract --invert -e a lines
expect_text both.err "does not go together with --invert"

note "rules that cannot be used are named, all of them"
printf '%s\n' 'fine' '# (a comment' '' '(open' 'x(?=y)' '(a)\1' >rules
expect_code 2 rules "$PULSE" filter --rules rules -e '[z-a]' lines
for text in "4 rules cannot be used" "--rules rules, line 4" "neither ahead nor behind" \
  "no back-references" "-e, number 1"; do
  expect_text rules.err "$text"
done

note "files of output"
expect_code 0 to-file "$PULSE" filter -e Exit -o out lines
[[ ! -s to-file.out ]] || fail "it wrote to standard output, too"
expect_code 2 exists "$PULSE" filter -e Ramp -o out lines
expect_text exists.err "--force"
chmod 600 out
expect_code 0 forced "$PULSE" filter -e Ramp -o out --force lines
[[ $(stat -c %a out) == 600 ]] || fail "--force gives others the rights to what it replaces"
expect_code 0 again "$PULSE" filter -e Ramp lines
cmp -s out again.out || fail "-o and standard output differ"
# A pipe is written, not replaced; the input is not overwritten.
mkfifo pipe
cat pipe >from-pipe &
expect_code 0 to-pipe "$PULSE" filter -e Ramp -o pipe --force lines
wait "$!"
[[ -p pipe ]] || fail "--force -o replaces a pipe"
cmp -s from-pipe out || fail "a pipe and a file differ"
expect_code 2 to-input "$PULSE" filter -e Ramp -o lines --force lines
expect_text to-input.err "the input itself"
cp lines itself
expect_code 2 itself sh -c '"$0" filter -e . itself >> itself' "$PULSE"
grep -q 'the input file is also the output' itself.err || fail "no word about an output that is the input" itself.err
expect_code 2 itself-in sh -c '"$0" filter -e . < itself >> itself' "$PULSE"
cmp -s lines itself || fail "an input that is also the output was written to"
"$PULSE" filter -e . < /dev/null > /dev/null
[[ $? == 1 ]] || fail "/dev/null is not both input and output"
expect_code 2 no-folder "$PULSE" filter -e Ramp -o no-folder/out lines
expect_code 2 long "$PULSE" filter -e Ramp --max-line 100 -o long.out2 --records prefixed lines
if compgen -G 'long.out2*' >/dev/null; then fail "a failed run left its output"; fi

note "pipes: both ends, and a reader that goes away"
cat lines | "$PULSE" filter -e Ramp | cmp -s - again.out || fail "a pipe gives something else"
cat lines lines lines lines | "$PULSE" filter -e . 2>early.err | head -n 1 >early.out
[[ $(wc -l <early.out) == 1 && ! -s early.err ]] || fail "a reader that goes away" early.err
printf 'first\n' >fifo.expected
mkfifo fifo
"$PULSE" filter -e first <fifo >fifo.out &
STARTED_PIDS+=($!)
exec 9>fifo
printf 'first\n' >&9
for _ in $(seq 600); do [[ -s fifo.out ]] && break; sleep 0.1; done
cmp -s fifo.out fifo.expected || fail "a line does not come out while the input stays open"
exec 9>&-
ends_well "${STARTED_PIDS[-1]}" || fail "exit code after a pipe"

if command -v gzip >/dev/null; then
  note "compressed on either side"
  gzip -c lines >lines.gz
  expect_code 0 from-gzip "$PULSE" filter -e Ramp lines.gz
  cmp -s from-gzip.out again.out || fail "compressed input gives something else"
  cat lines.gz lines.gz | "$PULSE" filter --compress gzip -e Ramp | gzip -dc >twice
  # The last line of the first goes on with the first one of the second, which may match.
  cat lines lines | "$PULSE" filter -e Ramp | cmp -s - twice || fail "gzip to gzip gives something else"
  "$PULSE" compress --format zlib -c lines >lines.zz
  expect_code 0 from-zlib "$PULSE" filter --input-format zlib -e Ramp lines.zz
  cmp -s from-zlib.out again.out || fail "zlib's input gives something else"
  expect_code 2 no-zlib "$PULSE" filter --input-format zlib -e Ramp lines
  expect_text no-zlib.err "lines does not begin as zlib does"
  expect_text no-zlib.err "leave --input-format out"
  expect_code 2 plain-zlib "$PULSE" filter --plain --input-format zlib -e Ramp lines.zz
  expect_text plain-zlib.err "leave one of them out"
  expect_code 2 bomb "$PULSE" filter --max-decompressed 1M -e 'no such line' lines.gz
  expect_text bomb.err "lines.gz is compressed, to more than 1048576 bytes"
  head -c 20000 lines.gz >cut.gz
  expect_code 2 cut-gzip "$PULSE" filter -e Ramp -o cut.out cut.gz
  expect_text cut-gzip.err "cut.gz"
  [[ ! -e cut.out ]] || fail "the output of damaged input has its name"
  (cat lines.gz; printf garbage) >garbage.gz
  expect_code 0 garbage "$PULSE" filter -e Ramp garbage.gz
  cmp -s garbage.out again.out || fail "trailing garbage changes the output"
  expect_text garbage.err "garbage.gz: decompressed; trailing garbage from offset $(stat -c %s lines.gz) on ignored"
else
  skip_part "gzip is not installed"
fi

note "long lines, within bounded memory"
head -c 300000000 /dev/zero | tr '\0' x >long
expect_code 2 long "$PULSE" filter -e y long
expect_text long.err "the line that begins at byte 0 is longer than 67108864 bytes"
head -c 300000000 /dev/zero | (ulimit -v 1500000; exec "$PULSE" filter -e y --cpus 0 >/dev/null 2>long.err)
[[ $? == 2 ]] || fail "a long line in a pipe" long.err
expect_text long.err "--max-line"
expect_code 0 longest "$PULSE" filter --count --max-line 512M -e x long
rm long
# The most that an option allows, and a byte more: files that take no room.
if (($(awk '/^MemAvailable/ {print $2}' /proc/meminfo) > 4 << 20)); then
  truncate -s 1G long
  printf needle | dd of=long bs=1 seek=$(((1 << 30) - 6)) conv=notrunc status=none
  expect_code 0 gib "$PULSE" filter --count --max-line 1G -e needle long
  [[ $(cat gib.out) == 1 ]] || fail "a line of a GiB: $(cat gib.out) lines match"
  expect_code 1 gib-none "$PULSE" filter --count --max-line 1G -e y long
  truncate -s +1 long
  expect_code 2 gib-more "$PULSE" filter --count --max-line 1G -e y long
  expect_text gib-more.err "the line that begins at byte 0 is longer than 1073741824 bytes"
  rm long
else
  skip_part "a line of a GiB needs 4 GiB of memory"
fi

note "no space"
if [[ -e /dev/full ]]; then
  expect_code 2 full sh -c '"$0" filter -e Ramp lines > /dev/full' "$PULSE"
  expect_text full.err "No space left on device"
fi
on_full_disk 2 64k "$PULSE" filter -e . -o DISK/out lines
on_full_disk 2 64k "$PULSE" filter -e . --compress gzip -o DISK/out.gz lines

note "records with their length in front"
python3 -c '
import struct, sys
for r in (b"a\nb", b"", b"ab", b"a" * 70000 + b"b"):
    sys.stdout.buffer.write(struct.pack("<I", len(r)) + r)' >prefixed
expect_code 0 prefixed "$PULSE" filter --records prefixed --count -e 'a.*b' prefixed
[[ $(cat prefixed.out) == 2 ]] || fail "prefixed records: $(cat prefixed.out)"
head -c 70000 prefixed >cut
expect_code 2 cut "$PULSE" filter --records prefixed -e 'a' cut
expect_text cut.err "cut: the record that begins at byte 17 is cut off"

# Rules that all three read alike.
rules=('At (.+)Exit (.+)' '(.+) on (.+) at Exit (.+)' 'on (.+) at (.+)' 'Ramp to (.+)' 'Exit [0-9]{2}'
  '^Accident' 'delays\.$' '(Main|Memorial) (St|Dr)' '^$' 'US-50|I-270' '[^A-Za-z ]{3}' 'e{2}|l{2}' 'St\.?$')

# compare NAME FILE TOOL...: the same lines, by each rule, by all at once, inverted and counted.
compare() {
  local name=$1 file=$2 all=() rule
  shift 2
  for rule in "${rules[@]}"; do
    all+=(-e "$rule")
    for option in --count -i --invert; do
      short=$option
      [[ $option == --count ]] && short=-c
      [[ $option == --invert ]] && short=-v
      "$@" "$short" -e "$rule" "$file" >expected 2>expected.err
      "$PULSE" filter "$option" -e "$rule" "$file" >found 2>found.err
      # ripgrep prints no count of 0.
      [[ -s expected || $option != --count ]] || echo 0 >expected
      cmp -s expected found || fail "$name and pulse filter $option differ about '$rule' in $file"
    done
  done
  "$@" "${all[@]}" "$file" >expected
  "$PULSE" filter "${all[@]}" "$file" >found
  cmp -s expected found || fail "$name and pulse filter differ about all rules in $file"
}
files=(lines)
if [[ -n "${PULSE_TEST_LOGS:-}" ]]; then
  files+=("$PULSE_TEST_LOGS"/*)
else
  # Few shapes of lines, whose numbers, addresses and names vary.
  python3 - log "${PULSE_TEST_SEED:-1}" <<'PYTHON' || fail "cannot make a log"
import random, sys
r = random.Random(int(sys.argv[2]))
def address(): return f"10.{r.randint(0, 3)}.{r.randint(0, 255)}.{r.randint(0, 255)}"
def line(i):
    time = f"{i // 3600 % 24:02}:{i // 60 % 60:02}:{i % 60:02}"
    return r.choice([
        f"Jun {r.randint(1, 30)} {time} combo sshd(pam_unix)[{r.randint(1, 32767)}]: authentication failure; "
        f"logname= uid=0 tty=NODEVssh rhost={address()} user={r.choice(['root', 'guest', 'Jürgen'])}",
        f'{address()} - - [27/Nov/2026:{time} +0000] "GET /items/{r.randint(1, 999)} HTTP/1.1" '
        f"{r.choice([200, 304, 404, 503])} {r.randint(0, 99999)}",
        f"081109 {203000 + i} {r.randint(1, 40)} INFO dfs.DataNode$PacketResponder: Received block "
        f"blk_{r.getrandbits(63)} of size {r.randint(1, 1 << 26)} from /{address()}",
        f"2026-11-27T{time}Z\tWARN\ttook_ms={r.randint(1, 9000)} Accident on the {r.choice(['Main St', 'US-50'])} shard",
        "\tat sun.nio.ch.SocketChannelImpl.write(Native Method)", ""])
with open(sys.argv[1], "w", encoding="utf-8", newline="") as f:
    for i in range(20000): f.write(line(i) + r.choice(["\n"] * 30 + ["\r\n"]))
PYTHON
  files+=(log)
fi
for file in "${files[@]}"; do
  [[ -f $file ]] || continue
  note "beside grep: $file"
  LC_ALL=C.UTF-8 compare grep "$file" grep -a -E
  if command -v rg >/dev/null; then
    note "beside ripgrep: $file"
    compare ripgrep "$file" rg --no-config -a -N --no-filename --color never
  else
    skip_part "ripgrep is not installed"
  fi
done
note "done"
