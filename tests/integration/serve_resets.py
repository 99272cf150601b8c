#!/usr/bin/env python3
"""A thousand connections of which many are reset at any point. usage: serve_resets.py PORT [SEED]

Each of the connections pipelines writes and reads of keys of its own and checks what it is told: no reply
may be another's, none may be lost while its connection stands, and none may be older than the last
write that was acknowledged. Every few steps a connection is reset (with requests under way, or
in the middle of one), closed, or half-closed, and another takes its place. Afterwards the keys hold what
was acknowledged last, or something sent since, and the server knows of one connection: the asker's.
"""
import random
import selectors
import socket
import struct
import sys
import time

CONNECTIONS = 1000
SECONDS = 8
DEPTH = 6
KEYS = 4
LIMIT = 120  # seconds without any progress


def request(*words):
    out = b"*%d\r\n" % len(words)
    for w in words:
        out += b"$%d\r\n%s\r\n" % (len(w), w)
    return out


def next_reply(data):
    """Of a reply at the beginning of `data`: (value, bytes), or None while it is not whole."""
    end = data.find(b"\r\n")
    if end < 0:
        return None
    head = bytes(data[1:end])
    if data[:1] != b"$":
        assert data[:1] in b"+-:", bytes(data[:80])
        return bytes(data[:end]), end + 2
    if head == b"-1":
        return None.__class__, end + 2  # no value
    size = int(head)
    if len(data) < end + 2 + size + 2:
        return None
    return bytes(data[end + 2 : end + 2 + size]), end + 2 + size + 2


class Slot:
    """The keys of one connection, and which of their versions may be there. Nobody else writes them: what
    a connection had sent when it was reset may be carried out at any time after."""

    def __init__(self, number):
        self.number = number
        self.sent = [0] * KEYS
        self.acknowledged = [0] * KEYS

    def key(self, i):
        return b"slot:%d:%d" % (self.number, i)


class Connection:
    def __init__(self, slot, port, rng):
        self.slot, self.rng = slot, rng
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.socket.setblocking(False)
        self.out, self.data, self.asked = bytearray(), bytearray(), []
        self.half_closed = False
        self.steps = rng.randrange(2, 40)

    def fill(self):
        while len(self.asked) < DEPTH and not self.half_closed:
            i = self.rng.randrange(KEYS)
            key = self.slot.key(i)
            if self.rng.random() < 0.3:
                self.slot.sent[i] += 1
                version = self.slot.sent[i]
                # The end of a large one is cut off now and then.
                pad = b"x" * self.rng.choice((0, 10, 1000, 20000))
                self.out += request(b"SET", key, b"%d:%d:" % (self.slot.number, version) + pad)
                self.asked.append(("set", i, version))
            else:
                self.out += request(b"GET", key)
                self.asked.append(("get", i, self.slot.acknowledged[i]))

    def send(self):
        if self.out:
            try:
                del self.out[: self.socket.send(self.out)]
            except BlockingIOError:
                pass

    def take(self):
        """False when the connection has ended."""
        try:
            got = self.socket.recv(1 << 16)
        except BlockingIOError:
            return True
        if not got:
            assert self.half_closed and not self.asked, "the server hung up on requests of its own accord"
            return False
        self.data += got
        while self.asked:
            reply = next_reply(self.data)
            if reply is None:
                break
            value, size = reply
            del self.data[:size]
            what, i, version = self.asked.pop(0)
            if what == "set":
                assert value == b"+OK", value[:80]
                self.slot.acknowledged[i] = max(self.slot.acknowledged[i], version)
                continue
            if value is None.__class__:
                assert version == 0, f"a key of version {version} is gone"
                continue
            number, seen, _ = value.split(b":", 2)
            assert int(number) == self.slot.number, "a reply of another connection"
            assert version <= int(seen) <= self.slot.sent[i], (version, seen, self.slot.sent[i])
        assert self.asked or not self.data, "more replies than requests"
        return True

    def reset(self):
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        self.socket.close()

    def half_close(self):
        self.half_closed = True
        self.socket.setblocking(True)
        self.socket.sendall(self.out)
        self.socket.setblocking(False)
        self.out.clear()
        self.socket.shutdown(socket.SHUT_WR)


def main():
    port = int(sys.argv[1])
    seed = int(sys.argv[2]) if len(sys.argv) > 2 else random.randrange(1 << 30)
    print(f"serve_resets: seed {seed}", flush=True)
    rng = random.Random(seed)
    chooser = selectors.DefaultSelector()
    slots, standing = [], set()
    ends = {"reset": 0, "closed": 0, "half-closed": 0}

    def open_one():
        slots.append(Slot(len(slots)))
        c = Connection(slots[-1], port, rng)
        standing.add(c)
        chooser.register(c.socket, selectors.EVENT_READ, c)
        c.fill()
        c.send()

    def end(connection, how):
        chooser.unregister(connection.socket)
        standing.remove(connection)
        connection.reset() if how == "reset" else connection.socket.close()
        ends[how] += 1
        open_one()

    for _ in range(CONNECTIONS):
        open_one()
    stop = time.monotonic() + SECONDS
    progress = time.monotonic()
    answered = 0
    while time.monotonic() < stop:
        events = chooser.select(timeout=1)
        assert events or time.monotonic() - progress < LIMIT, "the server stands still"
        for key, _ in events:
            progress = time.monotonic()
            c = key.data
            before = len(c.asked)
            if not c.take():
                end(c, "half-closed")
                continue
            answered += before - len(c.asked)
            c.steps -= 1
            if c.steps <= 0 and not c.half_closed:
                how = rng.random()
                if how < 0.5:
                    c.fill()
                    c.send()
                    end(c, "reset")
                elif how < 0.75:
                    end(c, "closed")
                else:
                    c.half_close()
                continue
            c.fill()
            c.send()
    for c in standing:
        chooser.unregister(c.socket)
        c.reset()
    assert answered > 1000 and min(ends.values()) > 20, (answered, ends)

    # Whoever asks now sees all that was acknowledged.
    asker = socket.create_connection(("127.0.0.1", port), timeout=60)
    file = asker.makefile("rb")

    def ask(*words):
        asker.sendall(request(*words))
        line = file.readline()
        assert line, "the server has hung up"
        if line[:1] != b"$" or line[:3] == b"$-1":
            return None if line[:3] == b"$-1" else line.strip()
        return file.read(int(line[1:]) + 2)[:-2]

    for slot in rng.sample(slots, min(len(slots), 2000)):
        for i in range(KEYS):
            value = ask(b"GET", slot.key(i))
            seen = 0 if value is None else int(value.split(b":", 2)[1])
            assert slot.acknowledged[i] <= seen <= slot.sent[i], (slot.key(i), seen)
    limit = time.monotonic() + 60
    while b"connected_clients:1\r\n" not in ask(b"INFO", b"clients"):
        assert time.monotonic() < limit, ask(b"INFO", b"clients")
        time.sleep(0.1)
    print(f"serve_resets: {answered} replies, {ends}")


main()
