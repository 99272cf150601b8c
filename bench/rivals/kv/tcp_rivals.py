#!/usr/bin/env python3
"""tcp_rivals.py PULSE LOAD [options]: `pulse kv` over TCP beside redis-server and memcached.

For each rival, operation, pipeline depth and number of connections: the rival and `pulse kv` in turn, the
server on one CPU and the client on another, the same client for both: redis-benchmark for Redis's
protocol, LOAD (build/release/bin/memcached_load) for memcached's. Figures are medians of --pairs runs,
and least and most; a ratio is that of a pair. Where the client takes more than nine tenths of its CPU,
it is the limit, and the row says so. A rival that is not installed is named and left out.

With --serve it is `pulse serve` without an agent beside redis-server, on hot keys: --hot-keys of them. Its
database lies in --dir, and writes are synced when the kernel likes; redis-server keeps nothing.

  bench/rivals/kv/tcp_rivals.py build/release/bin/pulse build/release/bin/memcached_load --json FILE
"""
import argparse
import json
import os
import random
import re
import resource
import shutil
import signal
import socket
import statistics
import subprocess
import sys
import tempfile
import time

VALUE_BYTES = 100
CLIENT_IS_LIMIT = 0.9


def free_port():
    """None of those that the kernel gives to whoever connects, who could take it before the server starts."""
    with open("/proc/sys/net/ipv4/ip_local_port_range", encoding="ascii") as f:
        low, high = map(int, f.read().split())
    ports = [port for port in range(10000, 65536) if not low <= port <= high]
    while True:
        port = random.choice(ports)
        try:
            socket.create_server(("127.0.0.1", port)).close()
            return port
        except OSError:
            pass  # another server's


class Server:
    """A server on a CPU, from when it accepts connections."""

    def __init__(self, words, port, cpu, log):
        self.log = open(log, "wb")
        self.popen = subprocess.Popen(["taskset", "-c", str(cpu)] + words, stdout=self.log, stderr=self.log)
        limit = time.monotonic() + 30
        while True:
            try:
                socket.create_connection(("127.0.0.1", port), timeout=5).close()
                return
            except OSError:
                if self.popen.poll() is not None or time.monotonic() > limit:
                    self.end()
                    raise RuntimeError(f"{words[0]} does not start; see {log}") from None
                time.sleep(0.05)

    def cpu_seconds(self):
        with open(f"/proc/{self.popen.pid}/stat", encoding="ascii") as f:
            fields = f.read().rsplit(")", 1)[1].split()
        return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")

    def end(self):
        if self.popen.poll() is None:
            self.popen.send_signal(signal.SIGTERM)
            try:
                self.popen.wait(30)
            except subprocess.TimeoutExpired:
                self.popen.kill()
                self.popen.wait()
        self.log.close()


def start(name, args, directory):
    """The server of that name, on a port of its own."""
    port = free_port()
    log = os.path.join(directory, f"{name}.log")
    words = {
        "pulse": [args.pulse, "kv", "--port", str(port), "--memory", "1G", "--policy", "allkeys-lfu"]
        if not args.serve else
        [args.pulse, "serve", "--port", str(port), "--db", tempfile.mkdtemp(dir=directory),
         "--offload", "off", "--sync", "no"],
        "redis-server": [args.redis, "--port", str(port), "--save", "", "--appendonly", "no", "--dir", directory],
        "memcached": [args.memcached, "-p", str(port), "-U", "0", "-l", "127.0.0.1", "-m", "1024", "-t", "1",
                      "-c", "4096"] + (["-u", "root"] if os.geteuid() == 0 else []),
    }[name]
    return Server(words, port, args.server_cpu, log), port


def client_run(words, cpu):
    """What a client prints, and the share of a CPU that it took."""
    before, begin = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
    done = subprocess.run(["taskset", "-c", str(cpu)] + words, capture_output=True, text=True, check=False)
    wall, after = time.monotonic() - begin, resource.getrusage(resource.RUSAGE_CHILDREN)
    if done.returncode != 0:
        raise RuntimeError(f"{' '.join(words)}: {done.stderr.strip() or done.stdout.strip()}")
    return done.stdout, (after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime) / wall


def redis_load(port, operation, depth, connections, args):
    words = [args.benchmark, "-p", str(port), "-t", operation, "-P", str(depth), "-c", str(connections),
             "-d", str(VALUE_BYTES), "-r", str(args.keys), "-n", str(args.requests * depth), "--csv"]
    said, cpu = client_run(words, args.client_cpu)
    row = re.search(r'^"%s","([0-9.]+)"' % operation.upper(), said, re.MULTILINE)
    if not row:
        raise RuntimeError(f"redis-benchmark says no rate: {said.strip()}")
    return float(row[1]), cpu


def memcached_load(port, operation, depth, connections, args):
    words = [args.load, str(port), operation, str(connections), str(depth), str(args.keys), str(VALUE_BYTES),
             str(args.seconds)]
    said, _ = client_run(words, args.client_cpu)
    result = json.loads(said)
    return result["requests_per_s"], result["client_cpu_share"]


def run_once(name, load, operation, depth, connections, args, directory):
    server, port = start(name, args, directory)
    try:
        if load is redis_load:  # keys to find
            redis_load(port, "set", 32, 50, args)
        before, begin = server.cpu_seconds(), time.monotonic()
        rate, client = load(port, operation, depth, connections, args)
        share = (server.cpu_seconds() - before) / (time.monotonic() - begin)
    finally:
        server.end()
    return {"requests_per_s": rate, "client_cpu_share": round(client, 3), "server_cpu_share": round(share, 3)}


def compare(rival, load, operation, depth, connections, args, directory):
    runs = {"pulse": [], rival: []}
    for pair in range(args.pairs):
        # Who is first changes from pair to pair.
        for name in (rival, "pulse") if pair % 2 == 0 else ("pulse", rival):
            runs[name].append(run_once(name, load, operation, depth, connections, args, directory))
    ratios = [p["requests_per_s"] / r["requests_per_s"] for p, r in zip(runs["pulse"], runs[rival])]
    client = max(r["client_cpu_share"] for r in runs["pulse"])
    return {"rival": rival, "operation": operation, "pipeline": depth, "connections": connections,
            "runs": runs, "ratio": statistics.median(ratios), "least": min(ratios), "most": max(ratios),
            "client_is_limit": client > CLIENT_IS_LIMIT}


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pulse", help="the program")
    parser.add_argument("load", help="memcached_load")
    cpus = sorted(os.sched_getaffinity(0))
    parser.add_argument("--server-cpu", type=int, default=cpus[0])
    parser.add_argument("--client-cpu", type=int, default=cpus[-1])
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--seconds", type=float, default=3, help="of a run of LOAD [3]")
    parser.add_argument("--requests", type=int, default=200_000, help="of redis-benchmark, times the pipeline")
    parser.add_argument("--keys", type=int, default=100_000)
    parser.add_argument("--serve", action="store_true", help="`pulse serve` on hot keys, beside redis-server")
    parser.add_argument("--hot-keys", type=int, default=1000, help="with --serve [1000]")
    parser.add_argument("--dir", help="for logs and databases, until it ends [TMPDIR]")
    parser.add_argument("--redis", default=shutil.which("redis-server"))
    parser.add_argument("--benchmark", default=shutil.which("redis-benchmark"))
    parser.add_argument("--memcached", default=shutil.which("memcached"))
    parser.add_argument("--tiny", action="store_true", help="one short pair of each, so that it is seen to work")
    parser.add_argument("--json", help="write the results to this file")
    args = parser.parse_args()
    if args.tiny:
        args.pairs, args.seconds, args.requests, args.keys = 1, 0.2, 2000, 1000
    if args.serve:
        args.keys = args.hot_keys
    rivals = []
    if args.redis and args.benchmark:
        rivals.append(("redis-server", redis_load))
    else:
        print("tcp_rivals: left out: redis-server (apt-get install redis-server redis-tools)", file=sys.stderr)
    if args.serve:
        pass  # it does not speak memcached's protocol
    elif args.memcached:
        rivals.append(("memcached", memcached_load))
    else:
        print("tcp_rivals: left out: memcached (apt-get install memcached)", file=sys.stderr)
    rows = []
    try:
        with tempfile.TemporaryDirectory(prefix="pulse-rivals.", dir=args.dir) as directory:
            for rival, load in rivals:
                for depth in (1, 32):
                    for connections in (50, 500):
                        for operation in ("get", "set"):
                            row = compare(rival, load, operation, depth, connections, args, directory)
                            rows.append(row)
                            mark = "  the client is the limit" if row["client_is_limit"] else ""
                            print(f"{rival:>12} {operation}  P={depth:<2} {connections:>3} connections  "
                                  f"{row['ratio']:.2f} ({row['least']:.2f} - {row['most']:.2f}){mark}", flush=True)
    except (OSError, RuntimeError, ValueError) as e:
        print(f"tcp_rivals: {e}", file=sys.stderr)
        return 1
    result = {"format": "pulse-kv-tcp-rivals", "version": 1, "server_cpu": args.server_cpu,
              "client_cpu": args.client_cpu, "served": "serve" if args.serve else "kv", "keys": args.keys,
              "value_bytes": VALUE_BYTES, "pairs": args.pairs, "rows": rows}
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(result, f, indent=1)
            f.write("\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
