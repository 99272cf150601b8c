#!/usr/bin/env python3
"""A hostile host: hostile_client.py SOCKET SEED PROTOCOL_VERSION

Sends an agent garbage of many sizes, a hello without descriptors, with wrong descriptors, with a
wrong version, messages out of order, and connections that come and go. Of all that it expects nothing
back; the test looks at the agent afterwards. But a proper hello must be acknowledged: else the agent
would have refused everything else for a reason of its own.
"""
import fcntl
import os
import random
import socket
import struct
import sys

F_ADD_SEALS, F_SEAL_SEAL, F_SEAL_SHRINK, F_SEAL_GROW = 1033, 1, 2, 4
MAGIC, VERSION, SIZE = 0x4D534C50, int(sys.argv[3]), 256


def message(kind, version=VERSION, args=(), magic=MAGIC):
    head = struct.pack("<IIIi", magic, version, kind, 0)
    body = b"".join(struct.pack("<Q", a & (2**64 - 1)) for a in args)
    return (head + body).ljust(SIZE, b"\0")


def talk(path, packets):
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(0.2)
    try:
        peer.connect(path)
        for data, fds in packets:
            if fds:
                socket.send_fds(peer, [data], fds)
            else:
                peer.send(data)
        peer.recv(4096)
    except OSError:
        pass
    finally:
        peer.close()


def expect_acknowledged(path, hello, fds):
    peer = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    peer.settimeout(20)
    peer.connect(path)
    socket.send_fds(peer, [hello], fds)
    answer = peer.recv(4096)
    peer.close()
    magic, version, kind, status = struct.unpack_from("<IIIi", answer)
    if (magic, version, kind, status) != (MAGIC, VERSION, 2, 0):
        sys.exit(f"a proper hello is not acknowledged: {kind}, status {status}, {answer[64:]}")


def main():
    path, rng = sys.argv[1], random.Random(int(sys.argv[2]))
    null = os.open("/dev/null", os.O_RDWR)
    small = os.memfd_create("small")
    os.write(small, b"x")
    event = os.eventfd(0)
    bells = socket.socketpair(socket.AF_UNIX, socket.SOCK_STREAM)
    bell = bells[0].fileno()
    for size in (1, 4, 255, 256, 257, 4096, 60000):
        talk(path, [(rng.randbytes(size), [])])
    for _ in range(20):
        talk(path, [])
    hello = message(1, args=(os.getpid(), 0))
    talk(path, [(hello, [])])
    talk(path, [(hello, [null])])
    talk(path, [(hello, [null, null, null])])
    talk(path, [(hello, [small, event])])
    talk(path, [(hello, [small, bell])])
    talk(path, [(hello, [small] * 16)])
    talk(path, [(message(1, version=VERSION + 1), [small, bell])])
    talk(path, [(message(1, magic=0), [small, bell])])
    talk(path, [(message(3, args=(0, 2**63, 0)), [small])])
    talk(path, [(message(99), [small])])
    # A region of the right kind and too small, and attachments that lie about its size.
    control = os.memfd_create("control", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(control, 1 << 20)
    os.pwrite(control, b"PLSEDB01" + struct.pack("<I", VERSION), 0)
    fcntl.fcntl(control, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
    for arena in (0, 1, 4096, 2**31, 2**63, 2**64 - 1):
        talk(
            path,
            [
                (message(1, args=(os.getpid(), 0)), [control, bell]),
                (message(3, args=(0, arena, 0)), [small]),
                (message(3, args=(2**32, arena, 0)), [control]),
                (message(4), []),
                (message(5, args=(2**64 - 1, 2**64 - 1)), [null]),
            ],
        )
    for _ in range(100):
        kind = rng.randrange(8)
        args = [rng.choice((0, 1, 4096, 2**32, 2**63, rng.getrandbits(64))) for _ in range(6)]
        fds = rng.choice(([], [null], [small], [control, bell]))
        talk(path, [(hello, [control, bell]), (message(kind, args=args), fds)])
    page = os.memfd_create("page", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
    os.ftruncate(page, 4096)
    os.pwrite(page, b"PLSEDB01" + struct.pack("<I", VERSION), 0)
    fcntl.fcntl(page, F_ADD_SEALS, F_SEAL_SEAL | F_SEAL_SHRINK | F_SEAL_GROW)
    expect_acknowledged(path, hello, [page, bell])


main()
