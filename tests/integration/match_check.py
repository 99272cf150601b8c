#!/usr/bin/env python3
"""Drives clients of matching and other addresses against `pulse agent --match`, of which 127.0.0.2,
127.0.0.4 and 127.0.0.5 match.

  match_check.py blocks URL PORT SOCKET   before `pulse-blocks serve --socket SOCKET`
  match_check.py bytes URL PORT SOCKET    plays the host at SOCKET itself, which gets random bytes

URL has the agent's metrics, PORT takes its clients.
"""
import os
import random
import socket
import struct
import sys
import threading

from front_metrics_check import Watch, eventually

MESSAGE = struct.Struct("<4sIII")
REQUEST = struct.Struct("<QQQIHH")
REPLY = struct.Struct("<QIHH")
READ, WRITE, OPEN, SYNC = 1, 2, 3, 4
MATCHING = ("127.0.0.2", "127.0.0.4", "127.0.0.5")
OTHER = "127.0.0.3"


def connect(port, address):
    return socket.create_connection(("127.0.0.1", port), timeout=60, source_address=(address, 0))


class Blocks:
    """A client of the blocks protocol, with one request under way."""

    def __init__(self, connection):
        self.socket, self.file = connection, connection.makefile("rb")
        self.id = self.sent = self.received = 0

    def ask(self, operation, file, offset, size, data=b""):
        """The reply message's bytes, and the reply's data."""
        self.id += 1
        request = REQUEST.pack(self.id, file, offset, size, operation, 0) + data
        message = MESSAGE.pack(b"PBQ1", MESSAGE.size + len(request), 1, 0) + request
        self.socket.sendall(message)
        self.sent += len(message)
        head = self.file.read(MESSAGE.size)
        magic, length, count, _ = MESSAGE.unpack(head)
        assert magic == b"PBR1" and count == 1, head
        body = self.file.read(length - MESSAGE.size)
        self.received += length
        number, size, code, answered = REPLY.unpack(body[:REPLY.size])
        assert (number, code, answered) == (self.id, 0, operation), body[:200]
        assert len(body) == REPLY.size + size
        return head + body, body[REPLY.size:]

    def open_file(self):
        name = b"0"
        _, info = self.ask(OPEN, 0, 0, len(name), name)
        return struct.unpack("<QQ", info)

    def close(self):
        self.file.close()
        self.socket.close()


def check_blocks(url, port, path):
    m = Watch(url, "blocks").look()
    assert m("pulse_front_connections_total") == 0 and m("pulse_front_spliced_bytes_total") == 0

    direct = socket.socket(socket.AF_UNIX)
    direct.connect(path)
    direct = Blocks(direct)
    other = Blocks(connect(port, OTHER))
    matching = [Blocks(connect(port, address)) for address in MATCHING]
    file, size = other.open_file()
    assert size >= 1 << 20, size

    # Writes of the passed-through client are the host's, and it is the host that tells the agent of
    # them: whoever the agent answers must see them.
    blocks = {}
    for _ in range(200):
        offset = random.randrange(size // 512) * 512
        blocks[offset] = os.urandom(512)
        other.ask(WRITE, file, offset, 512, blocks[offset])
    other.ask(SYNC, file, 0, 0)
    m.look()
    assert m("pulse_front_requests_total") == 0, "the agent looked at a client that no rule matches"
    assert m("pulse_front_spliced_connections") == 1, m("pulse_front_spliced_connections")
    assert m("pulse_front_connections") == 4, m("pulse_front_connections")

    # Reads of the matching ones are the agent's, and the same as the host's.
    answered = 0
    for client in matching:
        for offset, data in blocks.items():
            _, got = client.ask(READ, file, offset, 512)
            assert got == data, f"{offset}: not what was written there"
            answered += 1
    m.look()
    assert m.offload("answered_total") == answered, (m.offload("answered_total"), answered)
    assert m("pulse_front_requests_total") == answered and m.to_host() == 0

    # Reads of the other are the host's, byte for byte.
    direct.id = other.id
    for offset in blocks:
        assert other.ask(READ, file, offset, 512) == direct.ask(READ, file, offset, 512)
    m.look()
    assert m.offload("answered_total") == m("pulse_front_requests_total") == answered
    moved = other.sent + other.received

    def all_counted():
        return m.look()("pulse_front_spliced_bytes_total") == moved

    eventually(f"{moved} spliced bytes", all_counted)
    for client in (other, *matching, direct):
        client.close()
    eventually("connections at 0", lambda: m.look()("pulse_front_connections") == 0)
    assert m("pulse_front_spliced_connections") == 0
    print(f"blocks: {answered} reads answered by the agent, {moved} bytes passed through")


def read_to_end(connection):
    parts = []
    while part := connection.recv(1 << 16):
        parts.append(part)
    return b"".join(parts)


def check_bytes(url, port, path):
    m = Watch(url, "blocks").look()
    before = m("pulse_front_spliced_bytes_total")
    requests = m("pulse_front_requests_total")
    if os.path.exists(path):
        os.unlink(path)
    listener = socket.socket(socket.AF_UNIX)
    listener.settimeout(60)
    listener.bind(path)
    listener.listen()
    moved = 0
    for _ in range(3):
        up, down = os.urandom(random.randrange(1, 5 << 20)), os.urandom(random.randrange(1, 5 << 20))
        client = connect(port, OTHER)
        host, _ = listener.accept()
        host.settimeout(60)
        got = {}

        def send(to, data):
            to.sendall(data)
            to.shutdown(socket.SHUT_WR)

        def receive(name, connection):
            got[name] = read_to_end(connection)

        threads = [threading.Thread(target=send, args=(client, up)),
                   threading.Thread(target=send, args=(host, down)),
                   threading.Thread(target=receive, args=("host", host)),
                   threading.Thread(target=receive, args=("client", client))]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert got["host"] == up and got["client"] == down, "the bytes changed on their way"
        moved += len(up) + len(down)
        client.close()
        host.close()
    eventually(f"{moved} spliced bytes",
               lambda: m.look()("pulse_front_spliced_bytes_total") == before + moved)

    # What is no request is refused by the agent where a rule matches, and never gets to the host.
    client = connect(port, MATCHING[0])
    client.sendall(b"nonsense" * 64)
    client.shutdown(socket.SHUT_WR)
    reply = read_to_end(client)
    assert reply[:4] == b"PBR1", reply[:200]
    client.close()
    listener.settimeout(0.2)
    try:
        listener.accept()
        raise AssertionError("the host got a connection of a client whose requests are malformed")
    except socket.timeout:
        pass
    assert m.look()("pulse_front_spliced_bytes_total") == before + moved
    assert m("pulse_front_requests_total") == requests
    print(f"bytes: {moved} passed through unchanged")


if __name__ == "__main__":
    seed = int(os.environ.get("PULSE_TEST_SEED", os.getpid()))
    print(f"seed {seed} (repeat with PULSE_TEST_SEED)")
    random.seed(seed)
    checks = {"blocks": check_blocks, "bytes": check_bytes}
    checks[sys.argv[1]](sys.argv[2], int(sys.argv[3]), sys.argv[4])
