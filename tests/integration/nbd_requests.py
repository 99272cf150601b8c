#!/usr/bin/env python3
"""Asks an NBD server for what standard clients do not ask for, or not in this way.

usage: nbd_requests.py SOCKET EXPORT past-end SIZE
           Requests past the end, and across it. Each must fail, the connection must go on, and what
           lies before the end must still be readable and writable. Also: a fast zero is refused,
           FUA is not.
       nbd_requests.py SOCKET EXPORT read-only
           Writes though the server has said that it takes none. Each must fail.
       nbd_requests.py SOCKET EXPORT until-error read|write COUNT_FILE
           One request after the other, and how many into COUNT_FILE, until one fails. That must be
           with EIO, and so must the next.
"""
import socket
import struct
import sys

READ, WRITE, DISCONNECT, FLUSH, ZERO = 0, 1, 2, 3, 6
FUA, FAST_ZERO = 1, 16
READ_ONLY = 2  # of the export's flags
EPERM, EIO, EINVAL, ENOSPC, ENOTSUP = 1, 5, 22, 28, 95


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


def past_end(client, size):
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


def read_only(client):
    assert client.flags & READ_ONLY, hex(client.flags)
    for command, data in ((WRITE, b"x" * 4096), (ZERO, b"")):
        error, _ = client.ask(command, 0, 4096, data)
        assert error == EPERM, (command, error)
    error, _ = client.ask(READ, 0, 4096)
    assert error == 0, error


def until_error(client, mode, count_file):
    command = {"read": READ, "write": WRITE}[mode]
    length = 128 << 10
    data = b"w" * length if command == WRITE else b""
    count, error = 0, 0
    while error == 0:
        error, _ = client.ask(command, count % (client.size // length) * length, length, data)
        count += error == 0
        with open(count_file, "w") as f:
            f.write(str(count))
    assert error == EIO, error
    error, _ = client.ask(command, 0, length, data)
    assert error == EIO, error


def main():
    path, export, what = sys.argv[1:4]
    client = Client(path, export)
    if what == "past-end":
        past_end(client, int(sys.argv[4]))
    elif what == "read-only":
        read_only(client)
    else:
        assert what == "until-error", what
        until_error(client, *sys.argv[4:])
    client.socket.sendall(struct.pack(">IHHQQI", 0x25609513, 0, DISCONNECT, 0, 0, 0))


main()
