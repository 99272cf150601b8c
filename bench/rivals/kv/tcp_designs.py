#!/usr/bin/env python3
"""tcp_designs.py PULSE [options]: what the designs of `pulse kv` take of the host's CPU over TCP.

`cpu` has its server on CPU 0 and redis-benchmark on CPU 1. The others have the agent on CPU 0, and the
host's threads on CPU 1 beside the client; `agent` is an agent in a process of its own. Each in turn,
--pairs times; figures are medians, and least and most. The host's time is that of all its threads
(/proc/PID/task/*/schedstat), looking for work included; a ratio is that of a pair.

With --adaptive it is `adaptive` beside each design that it may choose with one thread each: the host's on
CPU 0, the agent's on CPU 1, the client on both. The same server gets all loads in turn, so that each is a step;
what a load brings is counted from a second after its begin, all later trials of designs included.

  bench/rivals/kv/tcp_designs.py build/release/bin/pulse --json FILE
"""
import argparse
import csv
import json
import os
import resource
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import time

from tcp_rivals import free_port

VALUE_BYTES = 100
LOADS = [(1, 50), (1, 500), (32, 50), (1, 1)]  # pipeline, connections


def wait_for(port, process):
    limit = time.monotonic() + 30
    while True:
        try:
            with socket.create_connection(("127.0.0.1", port), timeout=5) as s:
                s.sendall(b"PING\r\n")
                if s.recv(64) == b"+PONG\r\n":
                    return
        except OSError:
            pass
        if process.poll() is not None or time.monotonic() > limit:
            raise RuntimeError("the server does not start")
        time.sleep(0.05)


def thread_nanos(pid):
    """Of the host's threads, and of the agent's, which have names of their own."""
    host = agent = 0
    for thread in os.listdir(f"/proc/{pid}/task"):
        with open(f"/proc/{pid}/task/{thread}/comm", encoding="ascii") as f:
            is_agents = f.read().startswith("pulse-agent")
        with open(f"/proc/{pid}/task/{thread}/schedstat", encoding="ascii") as f:
            nanos = int(f.read().split()[0])
        host, agent = (host, agent + nanos) if is_agents else (host + nanos, agent)
    return host, agent


def words_of_cpus(design, args):
    if design == "agent":
        return ["--cpus", str(args.client_cpu)]
    if design == "cpu":
        return ["--cpus", str(args.server_cpu)]
    host, agent = (args.server_cpu, args.client_cpu) if args.adaptive else (args.client_cpu, args.server_cpu)
    return ["--design", design, "--cpus", str(host), "--agent-cpus", str(agent)]


class Store:
    """`pulse kv` with a design, its clients' port, and its agent's process, if it has one."""

    def __init__(self, design, args, directory):
        self.processes = []
        self.log = tempfile.TemporaryFile("w+", encoding="utf-8")
        common = ["--memory", "1G", "--policy", "allkeys-lfu"]
        self.port = free_port()
        cpus = words_of_cpus(design, args)
        if design != "agent":
            self.start([args.pulse, "kv", "--port", str(self.port)] + cpus + common)
        else:
            lanes = os.path.join(directory, "kv.sock")
            self.start([args.pulse, "kv", "--port", str(free_port()), "--agent-socket", lanes] + cpus + common)
            while not os.path.exists(lanes):
                time.sleep(0.05)
            self.start([args.pulse, "agent", "--socket", os.path.join(directory, "agent.sock"), "--serve-kv", lanes,
                        "--serve", str(self.port), "--cpus", str(args.server_cpu), "--serve-spin-us", "50"])
        try:
            wait_for(self.port, self.processes[-1])
        except RuntimeError as error:
            self.end()
            self.log.seek(0)
            raise RuntimeError(f"{error}: {self.log.read().strip()}") from None

    def start(self, words):
        self.processes.append(subprocess.Popen(words, stdout=subprocess.DEVNULL, stderr=self.log))

    def nanos(self):
        host, agent = thread_nanos(self.processes[0].pid)
        return host, agent + sum(sum(thread_nanos(p.pid)) for p in self.processes[1:])

    def end(self):
        for process in reversed(self.processes):
            process.terminate()
        for process in self.processes:
            process.wait()


def benchmark(store, operation, depth, connections, requests, args):
    cpus = f"{args.server_cpu},{args.client_cpu}" if args.adaptive else str(args.client_cpu)
    words = ["taskset", "-c", cpus, args.benchmark, "-p", str(store.port), "-t", operation, "-P",
             str(depth), "-c", str(connections), "-d", str(VALUE_BYTES), "-r", str(args.keys), "-n", str(requests),
             "--csv"]
    done = subprocess.run(words, capture_output=True, text=True, check=True)
    return list(csv.reader(done.stdout.splitlines()))[-1]


def run(design, operation, depth, connections, args):
    with tempfile.TemporaryDirectory() as directory:
        store = Store(design, args, directory)
        try:
            benchmark(store, "set", 32, 50, args.keys, args)
            requests = int(args.requests * (20 if depth > 1 else 0.2 if connections == 1 else 1))
            before, used = store.nanos(), resource.getrusage(resource.RUSAGE_CHILDREN)
            begin = time.monotonic()
            row = benchmark(store, operation, depth, connections, requests, args)
            wall, after = time.monotonic() - begin, store.nanos()
            now = resource.getrusage(resource.RUSAGE_CHILDREN)
        finally:
            store.end()
    client = now.ru_utime + now.ru_stime - used.ru_utime - used.ru_stime
    return {"requests_per_s": float(row[1]), "host_ns": (after[0] - before[0]) / requests,
            "agent_ns": (after[1] - before[1]) / requests, "client_cpu_share": client / wall,
            "p50_ms": float(row[4]), "p99_ms": float(row[6])}


def spread(values):
    middle = statistics.median(values)
    return f"{middle:.4g}" if len(values) == 1 else f"{middle:.4g} ({min(values):.4g} - {max(values):.4g})"


def compare(args):
    designs = ["cpu"] + [d for d in args.designs.split(",") if d != "cpu"]
    results = []
    for operation in args.operations.split(","):
        for depth, connections in LOADS:
            runs = {d: [] for d in designs}
            for _ in range(args.pairs):
                for design in designs:
                    runs[design].append(run(design, operation, depth, connections, args))
            print(f"{operation}, {connections} connections, pipelines of {depth}", flush=True)
            for design in designs:
                of = lambda name, d=design: [r[name] for r in runs[d]]
                ratio = lambda name, d=design: [r[name] / c[name] for r, c in zip(runs[d], runs["cpu"])]
                line = (f"  {design:5}  {spread(of('requests_per_s'))}/s, host {spread(of('host_ns'))} ns, agent "
                        f"{spread(of('agent_ns'))} ns, client's CPU {spread(of('client_cpu_share'))}, p50 "
                        f"{spread(of('p50_ms'))} ms")
                if design != "cpu":
                    line += f"; of cpu's: rate {spread(ratio('requests_per_s'))}, host {spread(ratio('host_ns'))}"
                print(line, flush=True)
            results.append({"operation": operation, "pipeline": depth, "connections": connections, "runs": runs})
    return results


def run_steps(design, operation, args):
    """Requests a second at each load, from a second after it began."""
    rates = []
    with tempfile.TemporaryDirectory() as directory:
        store = Store(design, args, directory)
        try:
            benchmark(store, "set", 32, 50, args.keys, args)
            for depth, connections in LOADS:
                rate = float(benchmark(store, operation, depth, connections, 1000, args)[1])
                begin = time.monotonic()
                while time.monotonic() - begin < 1:  # the step
                    rate = float(benchmark(store, operation, depth, connections, max(1000, int(rate / 8)), args)[1])
                rates.append(float(benchmark(store, operation, depth, connections, int(rate * args.seconds), args)[1]))
        finally:
            store.end()
    return rates


def compare_adaptive(args):
    designs = [d for d in args.designs.split(",") if d not in ("adaptive", "agent")] + ["adaptive"]
    results = []
    for operation in args.operations.split(","):
        rounds = [{d: run_steps(d, operation, args) for d in designs} for _ in range(args.pairs)]
        for i, (depth, connections) in enumerate(LOADS):
            of = {d: [r[d][i] for r in rounds] for d in designs}
            # The best over all rounds: the best of each would be the luckiest.
            best = max((d for d in designs if d != "adaptive"), key=lambda d: statistics.median(of[d]))
            ratio = spread([a / b for a, b in zip(of["adaptive"], of[best])])
            print(f"{operation}, {connections} connections, pipelines of {depth}: adaptive {ratio} of {best}; "
                  + ", ".join(f"{d} {spread(of[d])}/s" for d in designs), flush=True)
            results.append({"operation": operation, "pipeline": depth, "connections": connections, "best": best,
                            "requests_per_s": of})
    return results


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pulse")
    parser.add_argument("--benchmark", default=shutil.which("redis-benchmark"))
    parser.add_argument("--designs", help="of cpu, lat, sav, dual, agent; cpu comes first [cpu,lat,agent; with "
                                          "--adaptive cpu,lat,sav]")
    parser.add_argument("--adaptive", action="store_true", help="`adaptive` beside the designs that it may choose")
    parser.add_argument("--seconds", type=float, default=4, help="of each load, with --adaptive [4]")
    parser.add_argument("--operations", default="get,set")
    parser.add_argument("--pairs", type=int, default=3)
    parser.add_argument("--requests", type=int, default=400_000)
    parser.add_argument("--keys", type=int, default=1_000_000)
    parser.add_argument("--server-cpu", type=int, default=0)
    parser.add_argument("--client-cpu", type=int, default=1)
    parser.add_argument("--json", help="write all figures here")
    args = parser.parse_args()
    if args.benchmark is None:
        sys.exit("tcp_designs.py: no redis-benchmark; install redis-tools")
    args.designs = args.designs or ("cpu,lat,sav" if args.adaptive else "cpu,lat,agent")
    results = compare_adaptive(args) if args.adaptive else compare(args)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as f:
            json.dump(results, f, indent=1)


if __name__ == "__main__":
    main()
