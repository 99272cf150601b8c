#!/usr/bin/env python3
"""redis_differential.py PULSE [--server kv|serve] [--commands N] [--seed N]

Sends the same random commands to `pulse kv` (or `pulse serve`) and to Debian's redis-server, and
compares the replies byte for byte: strings, counters, bits, expiry, transactions, errors. Stops at
the first difference, with the commands that led to it on the key. Prints its seed.
"""
import argparse
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

KEYS = [f"key{i}" for i in range(12)]
NUMBERS = ["0", "1", "-1", "7", "100", "-100", "8", "15", "31", "63", "9223372036854775807",
           "-9223372036854775808", "1.5", "x", "", " 1", "01", "+1", "99999999999"]
VALUES = ["", "a", "foobar", "10", "-5", "3.0", "\x00\xff\r\n", "x" * 100, "0" * 44, "1e3", "foo bar"]


class Client:
    def __init__(self, port):
        for _ in range(100):
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
                break
            except ConnectionRefusedError:
                time.sleep(0.1)
        self.file = self.socket.makefile("rb")

    def send(self, words):
        data = b"*%d\r\n" % len(words)
        for word in words:
            raw = word.encode("latin1")
            data += b"$%d\r\n%s\r\n" % (len(raw), raw)
        self.socket.sendall(data)

    def receive(self):
        line = self.file.readline()
        if line[:1] == b"$" and line != b"$-1\r\n":
            return line + self.file.read(int(line[1:]) + 2)
        if line and line[:1] in b"*%~>" and line != b"*-1\r\n":
            count = int(line[1:]) * (2 if line[:1] == b"%" else 1)
            return line + b"".join(self.receive() for _ in range(count))
        return line


def command(draw):
    key, other, third = draw.choice(KEYS), draw.choice(KEYS), draw.choice(KEYS)
    value, number = draw.choice(VALUES), draw.choice(NUMBERS)
    small = str(draw.randint(-20, 120))
    unit = draw.choice([[], ["BYTE"], ["BIT"], ["bit"], ["WORD"]])
    times = ["100", "1000", "0", "-1", "x", "100000"]
    field = draw.choice(["u8", "i8", "u4", "i16", "u63", "i64", "u64", "i5", "u1", "q3"])
    place = draw.choice(["0", "3", "#1", "#3", "100", "-1", "#x", "17"])
    options = draw.choice([[], ["NX"], ["XX"], ["GET"], ["NX", "GET"], ["XX", "GET"], ["KEEPTTL"],
                           ["EX", draw.choice(times)], ["PX", "100000"], ["EX"], ["NX", "XX"],
                           ["EX", "100", "KEEPTTL"], ["EXAT", "99999999999"]])
    return draw.choice([
        ["SET", key, value] + options, ["SET", key, number], ["GET", key], ["GET", key],
        ["GETSET", key, value], ["GETDEL", key], ["SETNX", key, value], ["STRLEN", key],
        ["APPEND", key, value], ["GETRANGE", key, small, number], ["SUBSTR", key, number, small],
        ["LCS", key, other] + draw.choice([[], ["LEN"], ["IDX"], ["idx", "WITHMATCHLEN"], ["LEN", "IDX"],
                                           ["IDX", "MINMATCHLEN", small], ["MINMATCHLEN"], ["WITH"]]),
        ["SETRANGE", key, str(draw.randint(-2, 60)), value], ["MGET", key, other, third, "none"],
        ["MSET", key, value, other, number], ["MSET", key, value, other],
        ["MSETNX", key, value, other, number], ["INCR", key], ["DECR", key],
        ["INCRBY", key, number], ["DECRBY", key, number], ["INCRBYFLOAT", key, number],
        ["DEL", key, other], ["UNLINK", key], ["EXISTS", key, other, key], ["TYPE", key],
        ["RENAME", key, other], ["RENAMENX", key, other], ["COPY", key, other],
        ["COPY", key, other, "REPLACE"], ["TOUCH", key, other], ["DBSIZE"],
        ["EXPIRE", key, draw.choice(times)] + draw.choice([[], ["NX"], ["XX"], ["NX", "GT"],
                                                           ["MAYBE"]]),
        # Never the same time twice: the servers do not look at their clocks at the same moment.
        ["EXPIRE", key, str(draw.randint(1000, 10**9)), draw.choice(["GT", "LT"])],
        ["PEXPIRE", key, "100000"], ["EXPIREAT", key, "99999999999"], ["PERSIST", key],
        ["TTL", key], ["EXPIRETIME", "none"], ["PTTL", "none"],
        ["SETEX", key, draw.choice(times), value], ["PSETEX", key, "100000", value],
        ["GETEX", key] + draw.choice([[], ["PERSIST"], ["EX", "100"], ["EX", "x"], ["KEEPTTL"]]),
        ["SETBIT", key, str(draw.randint(-1, 200)), draw.choice(["0", "1", "2"])],
        ["GETBIT", key, str(draw.randint(-1, 300))],
        ["BITCOUNT", key], ["BITCOUNT", key, small, number] + unit,
        ["BITPOS", key, draw.choice(["0", "1", "2"])],
        ["BITPOS", key, draw.choice(["0", "1"]), small],
        ["BITPOS", key, draw.choice(["0", "1"]), small, str(draw.randint(-20, 120))] + unit,
        ["BITOP", draw.choice(["AND", "OR", "XOR", "NOT"]), key, other, third],
        ["BITOP", "NOT", key, other],
        ["BITFIELD", key] + draw.choice([
            ["GET", field, place], ["SET", field, place, small], ["INCRBY", field, place, small],
            ["OVERFLOW", draw.choice(["WRAP", "SAT", "FAIL", "NONE"]), "INCRBY", field, place,
             number], ["GET", field]]),
        ["BITFIELD_RO", key, "GET", field, place],
        ["ECHO", value], ["GET"], ["NOSUCH", key], ["SET", key], ["MULTI"], ["EXEC"], ["DISCARD"],
        ["WATCH", key], ["UNWATCH"], ["FLUSHALL"] if draw.random() < 0.02 else ["GET", key],
    ])


def same(words, ours, theirs):
    if ours == theirs:
        return True
    # The same refusal; names of commands and arguments come with different words.
    if ours[:1] == b"-" and theirs[:1] == b"-":
        return ours.split(b" ")[0] == theirs.split(b" ")[0]
    # A time to live that was read on both sides of a tick.
    if words[0] == "TTL" and ours[:1] == theirs[:1] == b":":
        return abs(int(ours[1:]) - int(theirs[1:])) <= 1
    if words[0] == "EXEC":
        a, b = ours.split(b"\r\n"), theirs.split(b"\r\n")
        return len(a) == len(b) and all(
            x == y or (x[:1] == y[:1] == b"-") or
            (re.match(rb":\d+$", x) and re.match(rb":\d+$", y) and abs(int(x[1:]) - int(y[1:])) <= 1)
            for x, y in zip(a, b))
    return False


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pulse")
    parser.add_argument("--server", choices=["kv", "serve"], default="kv")
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    redis = shutil.which("redis-server")
    if redis is None:
        sys.exit("redis_differential: redis-server is not installed: apt-get install redis-server "
                 "(Debian then starts one of its own on port 6379)")
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed} (repeat with --seed {seed})", flush=True)
    work = tempfile.mkdtemp()
    children = []
    try:
        with socket.socket() as probe:
            probe.bind(("127.0.0.1", 0))
            their_port = probe.getsockname()[1]
        children.append(subprocess.Popen(
            [redis, "--port", str(their_port), "--bind", "127.0.0.1", "--save", "", "--dir", work],
            stdout=subprocess.DEVNULL))
        ours = [args.pulse, args.server, "--port", "0"]
        if args.server == "serve":
            ours += ["--db", os.path.join(work, "db"), "--offload", "off"]
        else:
            ours += ["--threads", "2"]
        server = subprocess.Popen(ours, stderr=subprocess.PIPE, text=True)
        children.append(server)
        our_port = int(re.search(r":(\d+) ", server.stderr.readline()).group(1))
        draw = random.Random(seed)
        us, them = Client(our_port), Client(their_port)
        history = []
        sent = 0
        while sent < args.commands:
            batch = [command(draw) for _ in range(draw.randint(1, 20))]
            for words in batch:
                us.send(words)
                them.send(words)
            for words in batch:
                mine, other = us.receive(), them.receive()
                history.append((words, mine, other))
                if not same(words, mine, other):
                    for old in [h for h in history if set(h[0][1:]) & set(words[1:])][-30:]:
                        print(*old)
                    sys.exit(f"redis_differential: after {len(history)} commands, {words} gives "
                             f"{mine!r}, and redis-server gives {other!r}")
            history = history[-1000:]
            sent += len(batch)
        print(f"{sent} commands: the same replies as redis-server's")
    finally:
        for child in children:
            child.kill()
            child.wait()
        shutil.rmtree(work, ignore_errors=True)


if __name__ == "__main__":
    main()
