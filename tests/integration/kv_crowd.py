#!/usr/bin/env python3
"""Thousands of connections that are idle, slow or half through, in each design. usage:
kv_crowd.py PORT MAX_VALUE MEMORY

Most connections say nothing. Some send one request a byte at a time, some the beginning of one that
never ends: of a command, of a value of the longest length, of a pipeline. All the while the design is
changed, and one client's writes and reads are answered rightly. The slow requests, too, are answered
once they are whole. A value that is longer by one byte is refused, and nobody else notices. The process
never takes more than MEMORY bytes, which may be less than its limit. MAX_VALUE: --max-value, in bytes.
"""
import resource
import socket
import sys
import time

PORT, MAX_VALUE, MEMORY = int(sys.argv[1]), int(sys.argv[2]), int(sys.argv[3])
DESIGNS = ("cpu", "lat", "dual", "sav", "adaptive", "dpu", "shrd")
# As many as this process may have, and as the server takes.
CROWD = min(9_900, resource.getrlimit(resource.RLIMIT_NOFILE)[0] - 100)
SLOW = CROWD // 10
HALVES = (
    b"*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n$%d\r\n" % MAX_VALUE + b"x" * 20_000,
    b"*3\r\n$3\r\nSET\r\n$4\r\nhalf\r\n",
    b"*1000000\r\n",
    b"PING\r\nSET half ",
    b"set half 0 0 1000\r\nx",
    b"mg",
    b"",
)


def connect():
    return socket.create_connection(("127.0.0.1", PORT), timeout=60)


class Client:
    def __init__(self):
        self.socket = connect()
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        request = b"*%d\r\n" % len(words) + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words)
        self.socket.sendall(request)
        return self.reply()

    def reply(self):
        line = self.file.readline()
        if line[:1] in b"$=" and line[1:3] != b"-1":
            return self.file.read(int(line[1:]) + 2)[:-2]
        if line[:1] == b"*":
            return [self.reply() for _ in range(int(line[1:]))]
        return line.rstrip()

    def resident(self):
        fields = dict(line.split(b":", 1) for line in self.ask(b"INFO").split(b"\r\n") if b":" in line)
        return int(fields[b"used_memory_rss"])


def main():
    client = Client()
    assert client.ask(b"SET", b"slow", b"answered") == b"+OK"
    slow = [(connect(), b"*2\r\n$3\r\nGET\r\n$4\r\nslow\r\n" if i % 2 else b"get slow\r\n") for i in range(SLOW)]
    halves = [connect() for _ in range(SLOW)]
    idle = [connect() for _ in range(CROWD - 2 * SLOW)]
    for i, connection in enumerate(halves):
        connection.settimeout(0)
        try:
            connection.send(HALVES[i % len(HALVES)])
        except BlockingIOError:
            pass
    most = 0
    longest = max(len(request) for _, request in slow)
    for step in range(longest):
        design = DESIGNS[step % len(DESIGNS)].encode()
        assert client.ask(b"CONFIG", b"SET", b"design", design) == b"+OK"
        for connection, request in slow:
            if step < len(request):
                connection.send(request[step : step + 1])
        for i in range(50):
            key, value = b"key%d" % i, b"%d-%d" % (step, i)
            assert client.ask(b"SET", key, value) == b"+OK"
            assert client.ask(b"GET", key) == value
        most = max(most, client.resident())
    for connection, request in slow:
        reply = b""
        # memcached's form is taken as memcached's.
        end = b"answered\r\nEND\r\n" if request.startswith(b"get") else b"$8\r\nanswered\r\n"
        while not reply.endswith(end):
            more = connection.recv(100)
            assert more, (request, reply)
            reply += more
    for design in DESIGNS:
        assert client.ask(b"CONFIG", b"SET", b"design", design.encode()) == b"+OK"
        reply = client.ask(b"SET", b"longest", b"l" * MAX_VALUE)
        assert reply == b"+OK", (design, reply)
        too_long = Client()
        too_long.socket.sendall(b"*3\r\n$3\r\nSET\r\n$7\r\nlongest\r\n$%d\r\n" % (MAX_VALUE + 1))
        reply = too_long.reply()
        assert reply.startswith(b"-ERR Protocol error: invalid bulk length"), reply
        assert client.ask(b"APPEND", b"longest", b"l").startswith(b"-ERR string exceeds maximum"), design
        assert client.ask(b"STRLEN", b"longest") == b":%d" % MAX_VALUE
        most = max(most, client.resident())
    assert most <= MEMORY, f"{most} bytes are resident, of {MEMORY}"
    clients = len(client.ask(b"CLIENT", b"LIST").splitlines())
    print(
        f"{CROWD} connections, {len(slow)} of them slow and {len(halves)} half through, {clients} known; "
        f"{most >> 20} MiB resident at most, of {MEMORY >> 20}"
    )
    assert len(idle) < clients <= CROWD + 1


main()
