#!/usr/bin/env python3
"""Asks an NBD server for what a careful client never asks for: requests past the end, and across it.

usage: nbd_past_end.py SOCKET EXPORT SIZE. Each must fail, the connection must go on, and what lies
before the end must still be readable and writable. Also: a fast zero is refused, FUA is not.
"""
import socket
import struct
import sys

READ, WRITE, DISCONNECT, FLUSH, ZERO = 0, 1, 2, 3, 6
FUA, FAST_ZERO = 1, 16
EINVAL, ENOSPC, ENOTSUP = 22, 28, 95


class Client:
    def __init__(self, path, export):
        self.socket = socket.socket(socket.AF_UNIX, socket.SOCK_STREAM)
        self.socket.settimeout(60)
        self.socket.connect(path)
        assert self.take(16) == b"NBDMAGICIHAVEOPT"
        self.take(2)
        self.socket.sendall(struct.pack(">I", 3))  # fixed newstyle, no zeroes
        name = export.encode()
        self.socket.sendall(b"IHAVEOPT" + struct.pack(">II", 1, len(name)) + name)
        self.size, self.flags = struct.unpack(">QH", self.take(10))
        self.handle = 0

    def take(self, n):
        data = b""
        while len(data) < n:
            more = self.socket.recv(n - len(data))
            assert more, "the server hung up"
            data += more
        return data

    def ask(self, command, offset, length, data=b"", flags=0):
        """The error, and what was read."""
        self.handle += 1
        self.socket.sendall(
            struct.pack(">IHHQQI", 0x25609513, flags, command, self.handle, offset, length) + data)
        magic, error, handle = struct.unpack(">IIQ", self.take(16))
        assert magic == 0x67446698 and handle == self.handle, (magic, handle)
        return error, self.take(length) if command == READ and error == 0 else b""


def main():
    path, export, size = sys.argv[1], sys.argv[2], int(sys.argv[3])
    client = Client(path, export)
    assert client.size == size, client.size
    for offset, length in ((size, 512), (size - 100, 512), (1 << 62, 512), ((1 << 64) - 256, 512)):
        for command in (READ, WRITE, ZERO):
            data = b"x" * length if command == WRITE else b""
            error, _ = client.ask(command, offset, length, data)
            assert error in (EINVAL, ENOSPC), (command, offset, error)
    error, tail = client.ask(READ, size - 100, 100)
    assert error == 0 and len(tail) == 100, error
    error, _ = client.ask(WRITE, size - 100, 100, tail, FUA)
    assert error == 0, error
    error, _ = client.ask(ZERO, 0, 4096, flags=FAST_ZERO)
    assert error == ENOTSUP, error
    error, _ = client.ask(FLUSH, 0, 0)
    assert error == 0, error
    client.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, DISCONNECT, 0, 0, 0))


main()
