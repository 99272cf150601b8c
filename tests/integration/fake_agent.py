#!/usr/bin/env python3
"""A broken agent: fake_agent.py SOCKET silent|garbage|hangup|version

Accepts connections and then never answers, answers garbage, hangs up, or answers in a protocol
version of its own (the hello returned as an acknowledgement with version + 1).
"""
import os
import socket
import struct
import sys


def main():
    path, mode = sys.argv[1], sys.argv[2]
    server = socket.socket(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    server.bind(path)
    server.listen(8)
    kept = []
    while True:
        peer, _ = server.accept()
        if mode == "silent":
            kept.append(peer)
            continue
        if mode == "hangup":
            peer.close()
            continue
        hello, fds, _, _ = socket.recv_fds(peer, 4096, 8)
        for fd in fds:
            os.close(fd)
        try:
            if mode == "garbage":
                peer.send(b"\xa5" * 300)
            elif mode == "version":
                magic, version, _type = struct.unpack_from("<III", hello)
                answer = struct.pack("<III", magic, version + 1, 2) + hello[12:]
                peer.send(answer)
        except OSError:
            pass
        kept.append(peer)


main()
