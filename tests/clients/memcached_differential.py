#!/usr/bin/env python3
"""memcached_differential.py --ours PORT --theirs PORT [--commands N] [--seed N]

Sends the same random commands, text and meta, to a server of ours and to Debian's memcached
(1.6.18), both on this machine (they are emptied), and compares the replies byte for byte. Stops at the first
difference, with the commands that led to it on the key. Prints its seed.

Left out, as the servers differ on purpose (src/services/kv/memcached/commands.h): mg l, whose time memcached
moves more seldom, and h of numbers, which it may store anew while they are counted; what marks numbers as
stale, E, blanks behind numbers that got shorter, wrong lines with a data block, delays of flush_all,
statistics; and ma T, which memcached 1.6.18 gives to the old item when the number gets
longer. Versions are compared by what they do. Times may be a second apart.
"""
import argparse
import base64
import random
import re
import socket
import sys

KEYS = [f"key{i}" for i in range(8)]
NUMBERS = [f"n{i}" for i in range(4)]  # keys whose values are numbers, mostly
BINARY = [base64.b64encode(b"bin\x00\xff%d" % i).decode() for i in range(3)]
VALUES = ["", "a", "foobar", "\x00\xff\r\n", "x" * 100, "0" * 44, "foo bar", "END", "y" * 5000]
COUNTS = ["0", "1", "7", "10", "999", "18446744073709551615", "18446744073709551606", "x", "-1", "",
          "+5", "18446744073709551616", "007"]
TIMES = ["0", "0", "0", "100", "1000000", "2592000", "2592001", "-1", "2000000000"]
BAD = ["", "x", "1.5", "--1"]
CAS = "\x01"  # in a command: the version that the server has told of the key


class Server:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.versions = {}
        self.rest = b""

    def send(self, key, command):
        text = command.replace(CAS, str(self.versions.get(key, 12345678)))
        self.socket.sendall(text.encode("latin1") + b"mn\r\n")

    def receive(self, key):
        while not ("\n" + self.rest.decode("latin1")).endswith("\nMN\r\n"):
            data = self.socket.recv(1 << 16)
            if not data:
                sys.exit(f"memcached_differential: a server closed the connection: {self.rest!r}")
            self.rest += data
        reply, self.rest = self.rest[:-4], b""
        found = re.match(rb"VALUE \S+ \d+ \d+ (\d+)\r\n", reply)
        found = found or re.match(rb"(?:VA|HD)[^\r]* c(\d+)", reply)
        if found:
            self.versions[key] = int(found.group(1))
        return reply


def flags(draw, some, most=6):
    chosen = draw.sample(some, draw.randint(0, min(most, len(some))))
    seen, result = set(), []
    for flag in chosen:
        if flag[0] not in seen or draw.random() < 0.02:
            seen.add(flag[0])
            result.append(flag)
    return "".join(" " + flag for flag in result)


def command(draw):
    key, value = draw.choice(KEYS + NUMBERS), draw.choice(VALUES)
    if key in NUMBERS:
        value = draw.choice(["0", "5", "10", "99", "18446744073709551615", "abc", ""])
    time = draw.choice(TIMES) if draw.random() < 0.95 else draw.choice(BAD)
    good_time = draw.choice(TIMES)
    client_flags = draw.choice(["0", "1", "4294967295", "+7"])
    noreply = " noreply" if draw.random() < 0.1 else ""
    count = draw.choice(COUNTS)
    number = draw.choice(NUMBERS)
    common = ["k", "O12", "Oabcdefgh", "q", "Pa", "Lb/", "t", "c", "f", "v", "u"]
    kind = draw.randrange(26)
    store = draw.choice(["set", "set", "add", "replace", "cas"] +
                        (["append", "prepend"] if key not in NUMBERS else []))
    if kind < 6:
        version = (" " + draw.choice([CAS, CAS, CAS, "1", "0"])) if store == "cas" else ""
        return key, (f"{store} {key} {client_flags} {good_time} {len(value)}{version}{noreply}\r\n"
                     f"{value}\r\n")
    if kind < 9:
        word = draw.choice(["get", "gets", "gets"])
        others = draw.sample(KEYS, draw.randint(0, 3)) if word == "get" else []
        return key, f"{word} {' '.join([key] + others)}\r\n"
    if kind == 9:
        return key, f"{draw.choice(['gat', 'gats'])} {time} {key}\r\n"
    if kind == 10:
        return key, f"touch {key} {time}{noreply}\r\n"
    if kind == 11:
        return key, f"delete {key}{draw.choice(['', '', '', ' 0', ' 1', ' 0 0'])}{noreply}\r\n"
    if kind < 14:
        return number, f"{draw.choice(['incr', 'decr'])} {number} {count}{noreply}\r\n"
    if kind == 14 and draw.random() < 0.1:
        return key, f"flush_all{draw.choice(['', ' 0', ' -1', ' x'])}{noreply}\r\n"
    if kind < 17:
        some = common + ["T" + time] + (["s", "h"] if key not in NUMBERS else [])
        if key not in NUMBERS:
            some += [draw.choice(["N30", "N0", "Nx"]), draw.choice(["R30", "R1000", "R0"])]
        return key, f"mg {key}{flags(draw, some)}\r\n"
    if kind < 20:
        modes = ["MS", "ME", "MR", "MX", "M"] + (["MA", "MP"] if key not in NUMBERS else [])
        some = common + ["T" + time, draw.choice(modes), "F" + client_flags, "N5", "R9", "s", "h",
                         "l", "C" + draw.choice([CAS, CAS, "1", "0", "x"])] + ([] if key in NUMBERS else ["I"])
        return key, f"ms {key} {len(value)}{flags(draw, some)}\r\n{value}\r\n"
    if kind == 20:
        some = common + ["C" + draw.choice([CAS, "1", "0"]), "R5"]
        if key not in NUMBERS:
            some += ["I", "T" + good_time]
        return key, f"md {key}{flags(draw, some)}\r\n"
    if kind < 23:
        some = common + ["N" + time, "J" + count, "D" + count,
                         draw.choice(["MI", "MD", "M+", "M-", "MX"]), "C" + draw.choice([CAS, "0", "1"])]
        return number, f"ma {number}{flags(draw, some)}\r\n"
    if kind == 23:
        binary = draw.choice(BINARY)
        return binary, draw.choice([
            f"mg {binary} b{flags(draw, common)}\r\n", f"ms {binary} 2 b k c\r\nhi\r\n",
            f"md {binary} b k\r\n", "mg %%%% b\r\n"])
    if kind == 24:  # wrong lines, without a data block
        long = "k" * 251
        return key, draw.choice([
            "get\r\n", "gat\r\n", "gat x\r\n", f"set {key}\r\n", f"set {key} 0 0 -1\r\n",
            f"set {key} 0 0 x\r\n", f"cas {key} 0 0 1\r\n", "touch\r\n", "incr a\r\n", "decr\r\n",
            "delete\r\n", "delete a b c d\r\n", "GET a\r\n", "foo\r\n", "\r\n", "\n", " \r\n",
            f"get {long}\r\n", f"get a {long}\r\n", f"delete {long}\r\n", f"incr {long} 1\r\n",
            f"touch {long} 1\r\n", f"mg {long}\r\n", f"md {long}\r\n", f"ma {long}\r\n", "mx a\r\n",
            "mg\r\n", "ms\r\n", "ms a\r\n", "ms a x\r\n", "ms a -1\r\n", "md\r\n", "ma\r\n", "me\r\n",
            "mg a z\r\n", "mg a S\r\n", "mg a v v\r\n", "md a z\r\n", "ma a z\r\n",
            "mg a O" + "o" * 32 + "\r\n", "md a O" + "o" * 32 + "\r\n", "verbosity\r\n",
            "verbosity x\r\n", "flush_all 1 2 3\r\n", "stats nothing\r\n", "shutdown\r\n",
            "mg a" + " v" * 20 + "\r\n"])
    return key, draw.choice(["version\r\n", "verbosity 1\r\n", "me nothing\r\n",
                             f"set {key} 0 0 3\r\nabcde"])


def shown(key, reply):
    """A reply without what may differ."""
    text = re.sub(rb"^((?:VALUE \S+ \d+ \d+)) \d+\r\n", rb"\1 CAS\r\n", reply)
    if text[:2] in (b"VA", b"HD"):
        text = re.sub(rb"^([^\r]*) c\d+", rb"\1 cCAS", text)
    if key in NUMBERS:  # blanks behind a number
        text = re.sub(rb"^(VALUE \S+ \d+) \d+", rb"\1 SIZE", text)
        text = re.sub(rb"^VA \d+", b"VA SIZE", text)
        text = re.sub(rb" +\r\n", b"\r\n", text)
    return text


def same(key, ours, theirs):
    ours, theirs = shown(key, ours), shown(key, theirs)
    time = rb"^((?:HD|VA)[^\r]*) t(-?\d+)"
    mine, other = re.match(time, ours), re.match(time, theirs)
    # Of what is over by the same command, memcached tells a time of about 2 ** 32.
    if mine and other and (abs(int(mine.group(2)) - int(other.group(2))) <= 1 or
                           (mine.group(2) == b"0" and int(other.group(2)) > 4_000_000_000)):
        ours, theirs = re.sub(time, rb"\1 tT", ours), re.sub(time, rb"\1 tT", theirs)
    return ours == theirs


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--ours", type=int, required=True)
    parser.add_argument("--theirs", type=int, required=True)
    parser.add_argument("--commands", type=int, default=100_000)
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed} (repeat with --seed {seed})", flush=True)
    draw = random.Random(seed)
    us, them = Server(args.ours), Server(args.theirs)
    for server in (us, them):
        server.send("", "flush_all\r\n")
        server.receive("")
    history = []
    for number in range(args.commands):
        key, text = command(draw)
        us.send(key, text)
        them.send(key, text)
        mine, other = us.receive(key), them.receive(key)
        history.append((text, mine, other))
        if not same(key, mine, other):
            for old in [h for h in history[-1000:] if key in h[0]][-20:]:
                print(*(repr(part)[:100] for part in old))
            sys.exit(f"memcached_differential: after {number + 1} commands, {text[:300]!r} gives "
                     f"{mine[:300]!r}, and memcached gives {other[:300]!r}")
    print(f"{args.commands} commands: the same replies as memcached's")


if __name__ == "__main__":
    main()
