#!/usr/bin/env bash
# `pulse compress` and `pulse decompress`: what they write, every decoder that is installed reads, and the
# other way round; gzip's manners; bad input. usage:
#   compress_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 DB_BENCH=$5
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
setup_scratch
cd "$SCRATCH" || fail "no scratch directory"

# Text, binary and zeros, several chunks.
python3 - <<'PY' || fail "cannot make data"
import random
random.seed(7)
words = [("w%x" % random.getrandbits(20)).encode() for _ in range(3000)]
with open("data", "wb") as f:
    for part in range(6):
        f.write(b" ".join(random.choices(words, k=90000)))
        f.write(random.randbytes(300000))
        f.write(bytes(400000))
PY
: > empty
printf 'x' > one

same() { cmp -s "$1" "$2" || fail "$3"; }
# reads NAME FILE ORIGINAL COMMAND...: COMMAND turns FILE, as its standard input, into ORIGINAL.
reads() {
  local name=$1 file=$2 original=$3
  shift 3
  "$@" < "$file" > out.bytes 2> out.err || fail "$name failed" out.err
  same out.bytes "$original" "$name reads something else"
}

# ---- stock decoders
# Of all files, since a JVM takes longer to start than to read them: lines of FORMAT FILE ORIGINAL.
cat > GunzipIt.java <<'JAVA'
import java.io.*;
import java.nio.file.*;
import java.util.Arrays;
import java.util.zip.*;
class GunzipIt {
  public static void main(String[] a) throws Exception {
    BufferedReader lines = new BufferedReader(new InputStreamReader(System.in));
    for (String line; (line = lines.readLine()) != null;) {
      String[] words = line.split(" ");
      try (InputStream file = new FileInputStream(words[1]);
          InputStream in = words[0].equals("zlib") ? new InflaterInputStream(file) : new GZIPInputStream(file)) {
        boolean same = Arrays.equals(in.readAllBytes(), Files.readAllBytes(Path.of(words[2])));
        System.out.println(same ? "same" : "it reads something else");
      } catch (IOException e) {
        System.out.println("failed: " + e);
      }
    }
  }
}
JAVA
mkdir -p go
cat > go/main.go <<'GO'
package main

import (
	"compress/gzip"
	"compress/zlib"
	"io"
	"os"
)

func main() {
	var in io.Reader
	var err error
	if os.Args[1] == "zlib" {
		in, err = zlib.NewReader(os.Stdin)
	} else {
		in, err = gzip.NewReader(os.Stdin)
	}
	if err == nil {
		_, err = io.Copy(os.Stdout, in)
	}
	if err != nil {
		panic(err)
	}
}
GO
have() { command -v "$1" > /dev/null 2>&1 || { skip_part "$1 is not installed"; return 1; }; }
java_in="" java_out=""
if have java; then
  if javac GunzipIt.java 2> javac.err; then
    coproc JAVA { exec java -Xshare:auto GunzipIt 2> java.err; }
    STARTED_PIDS+=("$JAVA_PID")
    exec {java_in}>&"${JAVA[1]}" {java_out}<&"${JAVA[0]}"
  else
    skip_part "no Java compiler"
  fi
fi
java_reads() {  # FORMAT FILE ORIGINAL
  local said=""
  [[ -n $java_in ]] || return 0
  (printf '%s\n' "$*" >&"$java_in")  # a shell of its own gets the signal if Java is gone
  read -r -t 120 said <&"$java_out" || fail "Java on $2 does not answer" java.err
  [[ $said == same ]] || fail "Java on $2: $said" java.err
}
have go && { (cd go && GOFLAGS=-mod=mod GO111MODULE=off go build -o ../go-gunzip main.go) 2> go.err ||
  skip_part "go does not build here: $(head -n 1 go.err)"; }
python_zlib='import sys,zlib; d=zlib.decompressobj(); sys.stdout.buffer.write(d.decompress(sys.stdin.buffer.read())+d.flush()); assert d.eof and not d.unused_data'
python_gzip='import sys,gzip; sys.stdout.buffer.write(gzip.decompress(sys.stdin.buffer.read()))'

decoders() {  # FORMAT FILE ORIGINAL
  local format=$1 file=$2 original=$3
  case $format in
    gzip|bgzf)
      reads "gzip on $file" "$file" "$original" gzip -dc
      reads "python gzip on $file" "$file" "$original" python3 -c "$python_gzip"
      if have pigz; then reads "pigz on $file" "$file" "$original" pigz -dc; fi
      if have igzip; then reads "igzip on $file" "$file" "$original" igzip -dc; fi
      if have libdeflate-gunzip; then
        cp "$file" libdeflate.gz
        libdeflate-gunzip -c libdeflate.gz > out.bytes || fail "libdeflate-gunzip on $file"
        same out.bytes "$original" "libdeflate-gunzip reads something else in $file"
      fi
      java_reads gzip "$file" "$original"
      if [[ -x go-gunzip ]]; then reads "Go on $file" "$file" "$original" ./go-gunzip gzip; fi
      if [[ $format = bgzf ]] && have bgzip; then
        reads "bgzip on $file" "$file" "$original" bgzip -dc
        bgzip --test "$file" || fail "bgzip --test on $file"
      fi ;;
    zlib)
      reads "python zlib on $file" "$file" "$original" python3 -c "$python_zlib"
      if have pigz; then reads "pigz -z on $file" "$file" "$original" pigz -dcz; fi
      java_reads zlib "$file" "$original"
      if [[ -x go-gunzip ]]; then reads "Go on $file" "$file" "$original" ./go-gunzip zlib; fi ;;
    zstd) if have zstd; then reads "zstd on $file" "$file" "$original" zstd -dcq; fi ;;
    lz4) if have lz4; then reads "lz4 on $file" "$file" "$original" lz4 -dcq; fi ;;
  esac
}

declare -A SUFFIX=([gzip]=gz [zlib]=zz [bgzf]=bgz [zstd]=zst [lz4]=lz4)
for format in gzip zlib bgzf zstd lz4; do
  for original in data empty one; do
    for level in 1 6 9; do
      file=$original.$level.${SUFFIX[$format]}
      "$PULSE" compress "-$level" --format $format -o "$file" $original || fail "compress $file"
      decoders $format "$file" $original
      reads "pulse on $file" "$file" $original "$PULSE" decompress
    done
  done
  for extra in '--placement split=40 --cpus 0 --agent-cpus 0' --deterministic '--chunk 64K'; do
    # shellcheck disable=SC2086
    "$PULSE" compress --format $format $extra < data > "extra.$format" || fail "compress $extra"
    decoders $format "extra.$format" data
    reads "pulse on $format $extra" "extra.$format" data "$PULSE" compress -d
  done
  note "$format: every decoder reads it"
done
for codec in isal zlib libdeflate; do
  for percent in 0 30 100; do
    "$PULSE" compress --codec $codec --cpus 0 --agent-cpus 0 --placement split=$percent -c data > split.gz ||
      fail "compress --codec $codec at $percent %"
    decoders gzip split.gz data
    reads "pulse on $codec at $percent %" split.gz data "$PULSE" decompress --cpus 0 --agent-cpus 0 \
      --placement split=$((100 - percent))
  done
done
note "each codec at each split: every decoder reads it"
for codec in isal zlib; do
  "$PULSE" compress --codec $codec --primed -c data > primed.gz || fail "compress --primed"
  decoders gzip primed.gz data
  reads "pulse on primed chunks" primed.gz data "$PULSE" decompress
done

# ---- what others write
reads "pulse on gzip's" <(gzip -c data) data "$PULSE" decompress
if have pigz; then reads "pulse on pigz's" <(pigz -c data) data "$PULSE" decompress; fi
if have igzip; then reads "pulse on igzip's" <(igzip -c data) data "$PULSE" decompress; fi
if have bgzip; then reads "pulse on bgzip's" <(bgzip -c data) data "$PULSE" decompress; fi
if have zstd; then
  reads "pulse on zstd's" <(zstd -cq data) data "$PULSE" decompress
  reads "pulse on zstd's stream" <(zstd -cq --long=27 < data) data "$PULSE" decompress
fi
# What is no compressed data at all goes on as it is, as with zcat -f.
printf '\0\0abc\n' > zeros
"$PULSE" decompress -cf zeros > out.bytes || fail "decompress -cf of zeros"
same out.bytes zeros "decompress -cf drops zeros"
if have lz4; then
  # A block is missing, and no checksum says so: the size that the header has does.
  lz4 -cq -B4 --content-size --no-frame-crc data > whole.lz4
  python3 - <<'PY' || fail "cannot take a block out"
import struct
b = open("whole.lz4", "rb").read()
size = struct.unpack("<I", b[15:19])[0] & 0x7FFFFFFF
open("short.lz4", "wb").write(b[:15] + b[15 + 4 + size:])
PY
  ! "$PULSE" decompress -k -o short.out short.lz4 2> out.err || fail "a short LZ4 frame is taken"
  grep -q 'is to have' out.err || fail "the size of a frame is not named" out.err
  for how in -B4D -B7 -BX '--no-frame-crc' '--content-size'; do
    reads "pulse on lz4's $how" <(lz4 -cq $how data) data "$PULSE" decompress
  done
fi
note "what others write is read"

# ---- tar
mkdir tree && cp data one empty tree/
tar -I "$PULSE compress" -cf tree.tgz tree || fail "tar packs"
tar -xzf tree.tgz -C go || fail "tar unpacks with gzip"
mkdir unpacked && tar -I "$PULSE compress" -xf tree.tgz -C unpacked || fail "tar unpacks"
diff -r tree unpacked/tree || fail "tar's round trip"
note "tar -I packs and unpacks"

# ---- gzip's manners
cp data file && chmod 640 file && touch -d '2020-01-02 03:04:05.6' file
"$PULSE" compress file || fail "compress file"
[[ ! -e file && -e file.gz ]] || fail "the input is not replaced"
[[ $(stat -c '%a %Y' file.gz) = "640 $(date -d '2020-01-02 03:04:05' +%s)" ]] || fail "mode and time are not kept"
[[ $(gzip -lv file.gz | tail -n 1) = *file* ]] || fail "gzip does not list it"
"$PULSE" decompress file.gz || fail "decompress file.gz"
[[ -e file && ! -e file.gz ]] || fail "the compressed input is not replaced"
same file data "the round trip of a file"
[[ $(stat -c '%a %Y' file) = "640 $(date -d '2020-01-02 03:04:05' +%s)" ]] || fail "mode and time are not kept on the way back"
"$PULSE" compress -k file || fail "compress -k"
[[ -e file && -e file.gz ]] || fail "-k does not keep"
expect_error exists 'file.gz;;exists;;--force' "$PULSE" compress -k file
"$PULSE" compress -k --force file || fail "--force"
expect_error suffix 'file.gz;;suffix' "$PULSE" compress -k file.gz
expect_error no-suffix 'data;;suffix;;-o' "$PULSE" decompress data
expect_error itself 'itself' "$PULSE" compress --force -o data data
expect_error absent 'nothing-there' "$PULSE" compress nothing-there
expect_error directory 'tree;;directory' "$PULSE" compress tree
ln -s data link && expect_error link 'link;;symbolic' "$PULSE" compress link
cp one hard && ln hard harder && expect_error hard-link 'hard;;names' "$PULSE" compress hard
cp one ./several && cp one ./others && "$PULSE" compress several others || fail "several files"
[[ -e several.gz && -e others.gz ]] || fail "several files are not all there"
"$PULSE" compress -t several.gz data.6.zst || fail "-t"
expect_error level-format 'isal' "$PULSE" compress -9 --codec isal -c data
expect_error bad-format 'rar;;gzip' "$PULSE" compress --format rar -c data
expect_error bad-placement 'placement;;both' "$PULSE" compress --placement both -c data
expect_error no-agent 'agent-cpus' "$PULSE" compress --placement agent -c data
expect_error absent-cpu 'cpus;;4095' "$PULSE" compress --cpus 4095 -c data
expect_error bad-chunk 'chunk' "$PULSE" compress --chunk lots -c data
cp one itself
expect_error itself 'the input file is also the output' sh -c '"$0" compress -c itself >> itself' "$PULSE"
same itself one "an input that is also the output was written to"
expect_error two-outputs '-c and -o' "$PULSE" compress -c -o two data
# A level of another program is no level 1 and a file of the name -0.
cp one ./level
for level in -0 -10; do expect_error "level$level" 'levels are -1 to -9' "$PULSE" compress $level level; done
"$PULSE" compress -k -o ./-0 level
for level in -0 -6 -10; do
  expect_error "no-level$level" 'decompression has no levels' "$PULSE" decompress -c $level
done
[[ -e level && ! -e level.gz ]] || fail "a bad level was taken for another one"
"$PULSE" compress --no-such-option -c data >out.bytes 2>out.err
[[ $? == 1 ]] || fail "the exit code for a bad option is not gzip's"

# ---- damage
cp data.6.bgz bad.bgz && printf 'AAAAAAAA' | dd of=bad.bgz bs=1 seek=1000000 conv=notrunc status=none
expect_error damaged 'bad.bgz is damaged at offset' "$PULSE" decompress -k bad.bgz
[[ ! -e bad ]] || fail "a damaged stream left an output"
expect_error salvaged 'damaged at offset;;bytes before it' "$PULSE" decompress -k --salvage bad.bgz
[[ -s bad ]] || fail "--salvage kept nothing"
cmp -s -n "$(stat -c %s bad)" bad data || fail "--salvage kept wrong bytes"
gzip -c data > foreign.gz && printf 'AAAAAAAA' | dd of=foreign.gz bs=1 seek=400000 conv=notrunc status=none
expect_error damaged-foreign 'foreign.gz is damaged at offset' "$PULSE" decompress -k foreign.gz
for format in gzip zlib zstd lz4; do
  head -c 300000 "data.6.${SUFFIX[$format]}" > "cut.${SUFFIX[$format]}"
  expect_error "truncated-$format" "cut;;offset" "$PULSE" decompress -c "cut.${SUFFIX[$format]}"
done
expect_error plain 'data;;gzip' "$PULSE" decompress -c data
expect_error empty-input 'empty;;end' "$PULSE" decompress -c empty
expect_error bomb 'max-output' "$PULSE" decompress --max-output 1M -t data.6.gz
cat data.1.gz one.6.gz > two.gz && cat data one > two.original
reads "pulse on two members" two.gz two.original "$PULSE" decompress
printf 'garbage' | cat one.6.gz - > garbage.gz
"$PULSE" decompress -c garbage.gz > out.bytes 2> out.err
[[ $? = 2 ]] || fail "trailing garbage is not exit code 2"
grep -q 'garbage' out.err || fail "trailing garbage is not said"
same out.bytes one "trailing garbage changed the output"
head -c 512 /dev/zero | cat one.6.gz - > zeros.gz
reads "pulse on trailing zeros" zeros.gz one "$PULSE" decompress
if [[ -e /dev/full ]]; then
  expect_error full 'standard output;;space' sh -c '"$0" compress -c data > /dev/full' "$PULSE"
  expect_error full-back 'standard output;;space' sh -c '"$0" decompress -c data.6.gz > /dev/full' "$PULSE"
fi
on_full_disk 1 64k "$PULSE" compress -k -o DISK/out data
on_full_disk 1 64k "$PULSE" decompress -k -o DISK/out data.6.gz

# ---- an index of what others write
for _ in 1 2 3; do cat data; done > large
for tool in "gzip -6" "gzip -1" "pigz -6" "igzip -1" "zopfli -c --i1"; do
  command -v "${tool%% *}" >/dev/null || { skip_part "${tool%% *} is not installed"; continue; }
  rm -f foreign.idx
  # shellcheck disable=SC2086
  if [[ $tool == zopfli* ]]; then $tool one > foreign.gz; cp one original; else $tool -c large > foreign.gz; cp large original; fi
  for pass in first second; do
    "$PULSE" decompress --index foreign.idx -v -c foreign.gz > out.bytes 2> out.err || fail "$tool, $pass pass" out.err
    same out.bytes original "$tool: the $pass pass gives something else"
  done
  grep -q 'isal: [0-9]* chunks' out.err || fail "$tool: the second pass is not by the index" out.err
done
gzip -6 -c large > foreign.gz
gzip -6 -c one >> foreign.gz
cat one >> large
rm -f foreign.idx
"$PULSE" decompress -k --index foreign.idx -o back foreign.gz || fail "the first pass"
same back large "members that follow each other"
[[ -e foreign.gz ]] || fail "--index removed what the index is of"
"$PULSE" decompress --index foreign.idx --range 3000000+70000 -c foreign.gz > out.bytes || fail "a range"
[[ $(stat -c %s out.bytes) = 70000 ]] && cmp -s -n 70000 -i 3000000:0 large out.bytes ||
  fail "the range is another one"
"$PULSE" decompress --index foreign.idx --range 3000000+70000 -t foreign.gz || fail "a test of a range"
expect_error range-alone 'needs an index' "$PULSE" decompress --range 5 -c foreign.gz
expect_error range-where 'say where' "$PULSE" decompress --index foreign.idx --range 5 foreign.gz
expect_error range-text "--range 'x'" "$PULSE" decompress --index foreign.idx --range x -c foreign.gz
expect_error index-compress 'for decompression' "$PULSE" compress --index foreign.idx -c one
touch foreign.gz
"$PULSE" decompress --index foreign.idx -c foreign.gz > out.bytes 2> out.err || fail "an index that is out of date" out.err
grep -q 'was changed since.*not used' out.err || fail "nobody says that the index is out of date" out.err
same out.bytes large "with an index that is out of date"
cp foreign.gz kept.gz
cp one notes
for path in foreign.gz notes; do
  expect_error index-other "index $path" "$PULSE" decompress --index $path -c foreign.gz
done
same foreign.gz kept.gz "--index replaced the input"
same notes one "--index replaced another file"
"$PULSE" decompress --index none.idx -t foreign.gz || fail "-t with --index"
[[ ! -e none.idx ]] || fail "-t wrote an index"
head -c 400000 foreign.gz > cut.gz
expect_error cut 'ends in the middle' "$PULSE" decompress --index cut.idx -t cut.gz
[[ ! -e cut.idx ]] || fail "an index of a file that is cut off"
note "indexes of foreign gzip files"

# ---- killed in mid-stream: no output, and nothing else is left
mkfifo pipe
# The output has no name (O_TMPFILE), or another one.
is_writing() { find -L "/proc/$1/fd" -type f -size +0 2> /dev/null | grep -q .; }
for signal in TERM USR1 KILL; do
  "$PULSE" compress -o killed.gz pipe & child=$!
  STARTED_PIDS+=($child)
  exec 9> pipe
  cat data >&9
  await 60 is_writing $child || fail "a compression of a pipe writes nothing"
  # Where files have to have names, nobody can remove this one.
  [[ $signal == KILL && -n $(find . -maxdepth 1 -name '.pulse-*') ]] && signal=TERM
  kill -$signal $child
  wait $child 2> /dev/null
  exec 9>&-
  [[ ! -e killed.gz && -z $(find . -maxdepth 1 -name '.pulse-*') ]] || fail "$signal: a compression left a file"
done
note "bad input is refused by name"
