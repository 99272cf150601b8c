#!/usr/bin/env bash
# More NBD clients on files of a segment store: every file of a directory as an export of its own,
# two clients at once, qemu-img (raw and qcow2), fio with verification. usage:
#   nbd_clients_test.sh PLUGIN PULSE SCRATCH DB_CHECK DB_BENCH NBDKIT_PLUGIN
# Exit status 77 (skipped) without nbdkit; parts are skipped without qemu-img or fio.

PLUGIN=$1 PULSE=$2 SCRATCH=$3 DB_CHECK=$4 NBD_PLUGIN=$6
here=$(dirname "${BASH_SOURCE[0]}")
# shellcheck source=tests/integration/common.sh
source "$here/common.sh"
# shellcheck source=tests/integration/nbd_common.sh
source "$here/nbd_common.sh"
setup_nbd

run_ok create-pool 120 "$PULSE" pool create "$SCRATCH/pool" --size 192M --segment 1M
start_agent "$agent_socket" --store "$SCRATCH/pool"

# ---- without file=, the export's name selects the file
size=$(((8 << 20) + 77))
for name in a b; do
  create_file d "$name" "$size"
  head -c "$size" /dev/urandom >"$SCRATCH/in.$name"
done
create_file other a 5M
serve all dir=d
run_ok list 60 nbdinfo --list "$URI"
require_match list 'export="a";;export="b"' "$SCRATCH/list.log"
exports=$(grep -c '^export=' "$SCRATCH/list.log")
((exports == 2)) || fail "d has 2 files, and $exports exports" "$SCRATCH/list.log"
for name in a b; do
  run_ok "info-$name" 60 nbdinfo "$(uri_of "$name" all)"
  require_match "info-$name" "export-size: $size;;PulseDB store: d/$name" "$SCRATCH/info-$name.log"
done
for name in "" c x%2Fy . ..; do
  expect_error "no-export" 'Failed|no such|not' nbdinfo "$(uri_of "$name" all)"
done
require_match server-names 'export \(?"";;no file d/c;;no name for a file: "x/y"' "$SERVER_LOG"
require_match server-dots 'no name for a file: ".";;no name for a file: ".."' "$SERVER_LOG"

# ---- two clients at once, each on its own file, then both on one
clients=()
for name in a b; do
  start "$SCRATCH/copy-in-$name.log" timeout 120 nbdcopy --flush --connections=3 \
    "$SCRATCH/in.$name" "$(uri_of "$name" all)"
  clients+=("$STARTED")
done
for pid in "${clients[@]}"; do
  ends_well "$pid" || fail "one of two clients at once failed" "$SCRATCH/copy-in-a.log"
done
clients=()
for n in 1 2; do
  start "$SCRATCH/copy-out-$n.log" timeout 120 nbdcopy "$(uri_of a all)" "$SCRATCH/out.$n"
  clients+=("$STARTED")
done
for pid in "${clients[@]}"; do
  ends_well "$pid" || fail "one of two readers at once failed" "$SCRATCH/copy-out-1.log"
done
run_ok copy-out-b 120 nbdcopy "$(uri_of b all)" "$SCRATCH/out.b"
require_same "file a" "$SCRATCH/in.a" "$SCRATCH/out.1"
require_same "file a, of two readers" "$SCRATCH/in.a" "$SCRATCH/out.2"
require_same "file b" "$SCRATCH/in.b" "$SCRATCH/out.b"
end_server
# A file of the same name in another directory is another file.
serve other dir=other file=a
run_ok copy-other 120 nbdcopy "$URI" "$SCRATCH/out.other"
head -c 5M /dev/zero >"$SCRATCH/zeros"
require_same "other/a" "$SCRATCH/zeros" "$SCRATCH/out.other"
end_server

# ---- qemu: a raw image, and one in qcow2, with data, zeros and holes
if command -v qemu-img >/dev/null; then
  truncate -s 12M "$SCRATCH/image"
  dd if="$SCRATCH/in.a" of="$SCRATCH/image" bs=64K seek=17 count=60 conv=notrunc status=none
  dd if="$SCRATCH/in.b" of="$SCRATCH/image" bs=4K seek=2500 count=300 conv=notrunc status=none
  create_file q raw 12M
  create_file q qcow2 16M
  serve qemu dir=q
  raw=$(uri_of raw qemu) qcow2=$(uri_of qcow2 qemu)
  run_ok qemu-info 60 qemu-img info "$raw"
  require_match qemu-info 'file format: raw;;virtual size: 12 MiB' "$SCRATCH/qemu-info.log"
  run_ok qemu-raw-in 120 qemu-img convert -n -W -m 8 -f raw -O raw "$SCRATCH/image" "$raw"
  run_ok qemu-raw-compare 120 qemu-img compare -f raw -F raw "$SCRATCH/image" "$raw"
  run_ok qemu-raw-out 120 qemu-img convert -f raw -O raw "$raw" "$SCRATCH/image.raw"
  require_same "a raw image" "$SCRATCH/image" "$SCRATCH/image.raw"
  run_ok qemu-create 60 qemu-img create -f qcow2 "$qcow2" 12M
  run_ok qemu-qcow2-in 120 qemu-img convert -n -f raw -O qcow2 "$raw" "$qcow2"
  run_ok qemu-qcow2-info 60 qemu-img info -f qcow2 "$qcow2"
  require_match qemu-qcow2-info 'file format: qcow2;;virtual size: 12 MiB' \
    "$SCRATCH/qemu-qcow2-info.log"
  run_ok qemu-qcow2-check 60 qemu-img check -f qcow2 "$qcow2"
  run_ok qemu-qcow2-compare 120 qemu-img compare -f qcow2 -F raw "$qcow2" "$SCRATCH/image"
  run_ok qemu-qcow2-out 120 qemu-img convert -f qcow2 -O raw "$qcow2" "$SCRATCH/image.qcow2"
  require_same "an image in qcow2" "$SCRATCH/image" "$SCRATCH/image.qcow2"
  # What is different is found.
  printf x | dd of="$SCRATCH/image" bs=1 seek=6000000 conv=notrunc status=none # zero before
  expect_error qemu-differs 'mismatch' qemu-img compare -f raw -F raw "$SCRATCH/image" "$raw"
  end_server
else
  skip_part "qemu-img is not installed (apt package qemu-utils)"
fi

# ---- fio: random writes of two jobs with many in flight, each read again and its checksum compared
if command -v fio >/dev/null && fio --enghelp 2>/dev/null | grep -qw nbd; then
  create_file fio f 16M
  serve fio dir=fio file=f
  # fio_verify NAME ARGUMENTS...: no error, and as much verified as written.
  fio_verify() {
    local name=$1
    shift
    run_ok "fio-$name" 120 fio --name="$name" --ioengine=nbd --uri="$URI" --verify=crc32c \
      --verify_fatal=1 --do_verify=1 --verify_state_save=0 --randseed="$RANDOM" --thread \
      --group_reporting --output-format=terse "$@"
    awk -F';' '$3 == "'"$name"'" {found = $5 == 0 && $6 > 0 && $47 > 0} END {exit !found}' \
      "$SCRATCH/fio-$name.log" || fail "fio read nothing, or wrote nothing" "$SCRATCH/fio-$name.log"
  }
  fio_verify blocks --rw=randwrite --bs=4k --iodepth=16 --numjobs=2 --size=6M \
    --offset_increment=8M --fsync=100
  fio_verify mixed --rw=randrw --bs=64k --iodepth=8 --size=16M
  # Not whole blocks: neighbours in flight share some.
  fio_verify odd --rw=randwrite --bs=1536 --iodepth=16 --size=1536k
  end_server
else
  skip_part "fio, or its nbd engine, is not installed (apt package fio)"
fi
stop_agent "$AGENT" "$AGENT_LOG"
echo "nbd_clients_test: ok"
