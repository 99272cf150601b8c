#!/usr/bin/env python3
"""kv-memory.py PULSE [options]: whether `pulse kv` obeys its --memory under churn.

Starts `pulse kv` and, unless --alone, an agent in a process of its own in front of it; SETs values of
random sizes (log-uniform, 1 B to --largest) with random times to live (log-uniform, a 1/250 of
--longest-ttl to --longest-ttl) to random keys; and adds up the proportional set sizes (PSS) of both
processes each --interval. Then, with the store full, it SETs and GETs --large values of the longest length
that the store takes. Prints what it found as JSON. Ends with 1 when the sum was ever above the limit and
--tolerance, or the most that `pulse kv` ever had resident (VmHWM, which misses no moment, without what
others share of files' pages), or when nothing was written; with 2 when a process did not start.

  scripts/kv-memory.py build/release/bin/pulse                     ten minutes, 1 GiB
  scripts/kv-memory.py build/release/bin/pulse --seconds 20 --bytes 1G --memory 256M

The limit is that of `pulse kv`. The agent's own memory, some 15 MiB, is added to the sum but is not in
the limit. It fits beside what `pulse kv` sets aside for buffers and does not use under this load: with
limits of 96M, 128M and 192M the sum was at most 0.85 of them, so the default --tolerance suffices there.
"""
import argparse
import json
import os
import random
import re
import signal
import socket
import subprocess
import sys
import tempfile
import threading
import time

UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30}
PATTERN = os.urandom(1 << 20)


def size_of(text):
    match = re.fullmatch(r"(\d+)([KMG]?)", text)
    if not match:
        raise argparse.ArgumentTypeError(f"{text}: expected a size, such as 1G")
    return int(match[1]) * UNITS[match[2]]


def log_uniform(draw, low, high):
    return low * (high / low) ** draw.random()


class Process:
    """A program whose output goes to a file, and that ends with this script."""

    def __init__(self, words, log):
        self.log = log
        self.popen = subprocess.Popen(words, stdout=open(log, "wb"), stderr=subprocess.STDOUT)

    def said(self):
        with open(self.log, encoding="utf-8", errors="replace") as f:
            return f.read()

    def wait_for(self, pattern):
        """The match of what it says once it is ready."""
        limit = time.monotonic() + 60
        while time.monotonic() < limit:
            found = re.search(pattern, self.said())
            if found:
                return found
            if self.popen.poll() is not None:
                break
            time.sleep(0.05)
        raise RuntimeError(f"{' '.join(self.popen.args)}: it does not start:\n{self.said()}")

    def number(self, file, name):
        with open(f"/proc/{self.popen.pid}/{file}", encoding="ascii") as f:
            return next(int(line.split()[1]) << 10 for line in f if line.startswith(name + ":"))

    def pss(self):
        return self.number("smaps_rollup", "Pss")

    def others(self):
        """What other processes have of the pages of files, programs and libraries, that it has resident."""
        try:
            return max(0, self.number("status", "RssFile") - self.number("smaps_rollup", "Pss_File"))
        except StopIteration:
            return 0  # Linux before 5.4

    def peak(self):
        return self.number("status", "VmHWM")

    def end(self):
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(60)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()


class Samples:
    """Sums of the processes' PSS, taken by a thread until it is stopped."""

    def __init__(self, processes, interval):
        self.processes, self.interval = processes, interval
        self.sums = []
        self.each = [0] * len(processes)
        self.others = processes[0].others()  # the least that it was
        self.stopping = threading.Event()
        self.error = None
        self.thread = threading.Thread(target=self.run)
        self.thread.start()

    def run(self):
        try:
            while not self.stopping.is_set():
                now = [p.pss() for p in self.processes]
                self.sums.append(sum(now))
                self.each = [max(a, b) for a, b in zip(self.each, now)]
                self.others = min(self.others, self.processes[0].others())
                self.stopping.wait(self.interval)
        except (OSError, StopIteration) as e:
            self.error = e

    def stop(self):
        self.stopping.set()
        self.thread.join()


class Load:
    """SETs of a connection, a pipeline of them at a time."""

    def __init__(self, port, args):
        self.args, self.draw = args, random.Random(args.seed)
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.replies = self.socket.makefile("rb")
        self.sets = self.refused = self.bytes = 0  # bytes: of the values that were stored

    def one(self):
        """A SET and the size of its value."""
        size = int(log_uniform(self.draw, 1, self.args.largest))
        ttl = int(log_uniform(self.draw, self.args.longest_ttl / 250, self.args.longest_ttl) * 1000)
        key = b"key%d" % self.draw.randrange(self.args.keys)
        at = self.draw.randrange(len(PATTERN))
        value = (PATTERN[at:] + PATTERN)[:size] if at + size > len(PATTERN) else PATTERN[at:at + size]
        words = (b"SET", key, value, b"PX", b"%d" % max(1, ttl))
        return b"*5\r\n" + b"".join(b"$%d\r\n%s\r\n" % (len(w), w) for w in words), size

    def round(self):
        requests, sizes = zip(*(self.one() for _ in range(self.args.pipeline)))
        self.socket.sendall(b"".join(requests))
        for size in sizes:
            reply = self.replies.readline()
            if not reply:
                raise RuntimeError("the connection was lost")
            if reply.startswith(b"+OK"):
                self.sets += 1
                self.bytes += size
            elif reply.startswith(b"-OOM"):
                self.refused += 1
            else:
                raise RuntimeError(f"unexpected reply: {reply!r}")

    def longest_value(self):
        self.socket.sendall(b"CONFIG GET proto-max-bulk-len\r\n")
        return int([self.replies.readline() for _ in range(5)][4])

    def large(self, size):
        """A SET of so long a value, and a GET of it."""
        value = (PATTERN * (size // len(PATTERN) + 1))[:size]
        self.socket.sendall(b"*3\r\n$3\r\nSET\r\n$5\r\nlarge\r\n$%d\r\n%s\r\n" % (size, value))
        reply = self.replies.readline()
        if not reply.startswith((b"+OK", b"-OOM")):
            raise RuntimeError(f"a value of {size} bytes: unexpected reply: {reply!r}")
        if reply.startswith(b"-OOM"):
            self.refused += 1
            return
        self.sets += 1
        self.bytes += size
        self.socket.sendall(b"*2\r\n$3\r\nGET\r\n$5\r\nlarge\r\n")
        if self.replies.readline() != b"$%d\r\n" % size or self.replies.read(size + 2)[:-2] != value:
            raise RuntimeError(f"a value of {size} bytes: GET has another one")


def measure(args, directory):
    lanes = os.path.join(directory, "kv.sock")
    words = [args.pulse, "kv", "--port", "0", "--memory", args.memory, "--policy", args.policy]
    if args.max_value:
        words += ["--max-value", args.max_value]
    processes = []
    try:
        kv = Process(words if args.alone else words + ["--agent-socket", lanes],
                     os.path.join(directory, "kv.log"))
        processes.append(kv)
        port = int(kv.wait_for(r":(\d+) \(process")[1])
        if not args.alone:
            kv.wait_for("agents on")
            agent = Process([args.pulse, "agent", "--socket", os.path.join(directory, "agent.sock"),
                             "--serve", "0", "--serve-kv", lanes], os.path.join(directory, "agent.log"))
            processes.append(agent)
            port = int(agent.wait_for(r"\(port (\d+)\)")[1])
        load = Load(port, args)
        samples = Samples(processes, args.interval)
        begin = time.monotonic()
        end = begin + args.seconds
        try:
            while (time.monotonic() < end or load.bytes < args.bytes) and samples.error is None:
                load.round()
            seconds = time.monotonic() - begin
            longest = load.longest_value()
            for _ in range(args.large):
                load.large(longest)
        finally:
            samples.stop()
        if samples.error is not None:
            raise RuntimeError(f"cannot read a process's memory: {samples.error}")
        peak = kv.peak() - samples.others
    finally:
        for process in reversed(processes):
            process.end()
    limit = size_of(args.memory)
    names = ["kv"] if args.alone else ["kv", "agent"]
    return {
        "format": "pulse-kv-memory",
        "version": 1,
        "memory_bytes": limit,
        "policy": args.policy,
        "seconds": round(seconds, 1),
        "sets": load.sets,
        "refused": load.refused,
        "bytes": load.bytes,
        "large_values": args.large,
        "longest_value": longest,
        "samples": len(samples.sums),
        "largest_pss": dict(zip(names, samples.each)),
        "largest_sum": max(samples.sums),
        "largest_share": round(max(samples.sums) / limit, 4),
        "kv_peak": peak,
        "tolerance": args.tolerance,
        "ok": max(peak, *samples.sums) <= limit * (1 + args.tolerance) and load.sets > 0,
    }


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pulse", help="the program")
    parser.add_argument("--memory", default="1G", help="the limit [1G]")
    parser.add_argument("--policy", default="allkeys-lfu")
    parser.add_argument("--max-value", help="of `pulse kv` [as long as --memory has room for]")
    parser.add_argument("--seconds", type=float, default=600)
    parser.add_argument("--bytes", type=size_of, default=0,
                        help="go on after --seconds until that much is stored, such as 4G [0]")
    parser.add_argument("--interval", type=float, default=0.1, help="seconds between two looks [0.1]")
    parser.add_argument("--largest", type=size_of, default=1 << 20, help="value, in bytes [1M]")
    parser.add_argument("--large", type=int, default=8,
                        help="values of the longest length at the end [8]")
    parser.add_argument("--longest-ttl", type=float, default=65, help="seconds [65]")
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--pipeline", type=int, default=16)
    parser.add_argument("--tolerance", type=float, default=0.02, help="above the limit [0.02]")
    parser.add_argument("--alone", action="store_true", help="without an agent")
    parser.add_argument("--seed", type=int, default=None, help="of the load; default: another each time")
    parser.add_argument("--json", help="write the result to this file, too")
    args = parser.parse_args()
    try:
        size_of(args.memory)
        with tempfile.TemporaryDirectory(prefix="pulse-kv-memory.") as directory:
            result = measure(args, directory)
    except (argparse.ArgumentTypeError, OSError, RuntimeError) as e:
        print(f"kv-memory: {e}", file=sys.stderr)
        return 2
    text = json.dumps(result, indent=2)
    print(text)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            f.write(text + "\n")
    return 0 if result["ok"] else 1


if __name__ == "__main__":
    sys.exit(main())
