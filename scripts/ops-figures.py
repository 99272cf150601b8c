#!/usr/bin/env python3
"""Times `pulse compress`, `decompress` and `filter` beside the tools whose place they take, in pairs.

  scripts/ops-figures.py PULSE --corpus DIR --logs DIR [--parts filter] [--pairs 5] [--only TEXT]

DIR has files, compressed by bzip2 or not, as the Silesia corpus comes; --logs has files of lines.
They are repeated to the sizes asked for. Whole commands are timed after one warm-up, data in the page
cache, output to /dev/null (--output FILE: to that file, on the disk). Printed: medians of seconds and
of CPU seconds, the median of the pairs' ratios with the least and the most, sizes, and whether the two
did the same. Where an agent has a part, the host has CPU 0, the agent CPU 1, and its CPU time is apart.
The part ingest sends a compressed log to a host that receives, decompresses and filters all of it, and
to an agent that gives the host what matches: the host's CPU seconds, and the bytes that it receives.
Needs pigz, gzip, igzip, zstd and ripgrep.
"""

import argparse
import bz2
import json
import os
import pathlib
import resource
import re
import shutil
import socket
import statistics
import subprocess
import sys
import tempfile
import threading
import time

QUERIES = ["At (.+)Exit (.+)", "(.+) on (.+) at Exit (.+)", "on (.+) at (.+)", "Ramp to (.+)"]
TEXTS = ["ERROR", "Failed password", "timeout", "refused", "WARN"]
PARTS = ["compress", "decompress", "filter", "ingest"]
TOOLS = ["pigz", "gzip", "igzip", "zstd", "rg", "zcat"]


def read_files(directory):
    parts = []
    for path in sorted(pathlib.Path(directory).iterdir()):
        if path.is_file():
            data = path.read_bytes()
            parts.append(bz2.decompress(data) if path.suffix == ".bz2" else data)
    if not parts:
        sys.exit(f"ops-figures: {directory} has no files")
    return b"".join(parts)


def repeat(path, data, size):
    with open(path, "wb") as out:
        for _ in range(max(1, round(size / len(data)))):
            out.write(data)
    return path


def hundred_rules():
    forms = ["Failed password for user{}", "block blk_{}[0-9]+ terminating", "error {}.*state (6|7)",
             "timeout.*node-{}"]
    return "".join(forms[i % 4].format(i) + "\n" for i in range(1, 101))


def send(path, port):
    """What a client far away does, by a thread: its CPU time is nobody's here."""
    with socket.create_connection(("127.0.0.1", port)) as connection, open(path, "rb") as file:
        connection.sendfile(file)
        connection.shutdown(socket.SHUT_WR)
        while connection.recv(4096):
            pass


def receive(server, command, out):
    """The host: one stream, through `command` if there is one, to `out`. Exits the child process."""
    failed = True
    try:
        os.sched_setaffinity(0, {0})
        server.settimeout(60)
        connection, _ = server.accept()
        with open(out, "wb") as file:
            into = subprocess.Popen(["bash", "-c", command], stdin=subprocess.PIPE, stdout=file) if command else None
            to, room, total = into.stdin if into else file, memoryview(bytearray(1 << 20)), 0
            while size := connection.recv_into(room):
                to.write(room[:size])
                total += size
            to.close()
            failed = into is not None and into.wait() not in (0, 1)
        connection.close()
        pathlib.Path(f"{out}.bytes").write_text(str(total))
    except OSError as error:
        failed = True
        print(f"ops-figures: the host of a stream: {error}", file=sys.stderr)
    finally:
        # What the parent would clean up is the parent's.
        os._exit(1 if failed else 0)


def cpu_of(pid):
    fields = pathlib.Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


class Figures:
    def __init__(self, options, scratch):
        self.options = options
        self.scratch = scratch
        self.rows = []

    def run(self, command):
        """Seconds, CPU seconds, standard output."""
        before, start = resource.getrusage(resource.RUSAGE_CHILDREN), time.monotonic()
        done = subprocess.run(["bash", "-c", command], stdout=subprocess.PIPE, check=False)
        wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        if done.returncode not in (0, 1):
            sys.exit(f"ops-figures: exit status {done.returncode}: {command}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return wall, cpu, done.stdout.decode().strip()

    def pair(self, name, ours, theirs, asked, check=None, cpu_asked=None):
        """`check`: commands whose output shows each side's result, not timed."""
        if self.options.only not in name:
            return
        self.run(ours), self.run(theirs)
        runs = [(self.run(ours), self.run(theirs)) for _ in range(self.options.pairs)]
        told = {result for both in runs for _, _, result in both}
        if check is not None:
            told = {self.run(command)[2] for command in check}
        ratios = sorted(b[0] / a[0] for a, b in runs)
        median = lambda side, what: statistics.median(both[side][what] for both in runs)
        row = {"name": name, "asked": asked, "ratio": statistics.median(ratios), "least": ratios[0],
               "most": ratios[-1], "seconds": [median(0, 0), median(1, 0)],
               "cpu_seconds": [median(0, 1), median(1, 1)], "alike": len(told) == 1}
        row["cpu_ratio"] = row["cpu_seconds"][0] / row["cpu_seconds"][1]
        self.rows.append(row)
        cpu = f", asked {cpu_asked}" if cpu_asked else ""
        print(f"{name}: {row['ratio']:.2f} ({row['least']:.2f} - {row['most']:.2f}), asked {asked}; "
              f"{median(0, 0):.3f} s against {median(1, 0):.3f} s; CPU {median(0, 1):.3f} s against "
              f"{median(1, 1):.3f} s: {row['cpu_ratio']:.3f}{cpu}"
              f"{'' if row['alike'] else '; THE RESULTS DIFFER'}", flush=True)

    def size(self, name, ours, theirs, asked):
        if self.options.only not in name:
            return
        sizes = [int(self.run(f"{command} | wc -c")[2]) for command in (ours, theirs)]
        self.rows.append({"name": f"{name}, size", "ratio": sizes[0] / sizes[1], "asked": asked,
                          "bytes": sizes})
        print(f"{name}, size: {sizes[0] / sizes[1]:.4f}, asked {asked}", flush=True)

    def compression(self, large, small):
        pulse, out = self.options.pulse, self.options.output
        half = os.path.getsize(large) // 2
        pieces = [self.scratch / "half1", self.scratch / "half2"]
        self.run(f"head -c {half} {large} >{pieces[0]}; tail -c +{half + 1} {large} >{pieces[1]}")

        def against(name, level, theirs, file, asked, size):
            self.pair(name, f"{pulse} compress {level} -c {file} >{out}", f"{theirs} {file} >{out}", asked)
            self.size(name, f"{pulse} compress {level} -c {file}", f"{theirs} {file}", size)

        against("pigz -1", "-1", "pigz -1 -p2 -c", large, ">= 3.7", "<= 1")
        for level in (1, 2):
            self.pair(f"two igzip -{level} at once", f"{pulse} compress -1 -c {large} >{out}",
                      " & ".join(f"taskset -c {i} igzip -{level} -c {piece} >/dev/null"
                                 for i, piece in enumerate(pieces)) + " & wait", ">= 0.92")
        self.size("two igzip -1 at once", f"{pulse} compress -1 -c {large}", f"igzip -1 -c {large}", "-")
        against("pigz -6", "-6", "pigz -6 -p2 -c", small, ">= 11", "<= 1.13")
        against("zstd -1", "-1 --format zstd", "zstd -1 -T2 -q -c", large, ">= 1", "<= 1.02")
        against("zstd -3", "-3 --format zstd", "zstd -3 -T2 -q -c", large, ">= 1", "<= 1.02")

        name = "pigz -9, an agent on CPU 1"
        if self.options.only in name:
            socket = self.scratch / "agent.sock"
            agent = subprocess.Popen(["taskset", "-c", "1", pulse, "agent", "--ops", "--socket", str(socket),
                                      "--cpus", "1"], stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
            while not socket.exists():
                time.sleep(0.1)
            ours = f"taskset -c 0 {pulse} compress -9 --agent {socket} --cpus 0 -c {small}"
            theirs = f"pigz -9 -p2 -c {small}"
            self.pair(name, f"{ours} >{out}", f"{theirs} >{out}", ">= 1", cpu_asked="<= 0.5")
            self.size(name, ours, theirs, "1")
            agent.terminate()
            agent.wait()

    def decompression(self, large):
        pulse, out = self.options.pulse, self.options.output
        foreign = self.scratch / "foreign.gz"
        self.run(f"gzip -6 -c {large} >{foreign}")
        readers = {"gzip": 4, "pigz": 3, "igzip": 1}
        sums = lambda *commands: [f"{c} | cksum" for c in commands]
        for tool, asked in readers.items():
            self.pair(f"{tool} -dc of gzip's output", f"{pulse} decompress -c {foreign} >{out}",
                      f"{tool} -dc {foreign} >{out}", f">= {asked}",
                      sums(f"{pulse} decompress -c {foreign}", f"{tool} -dc {foreign}"))
        index = self.scratch / "foreign.index"
        self.run(f"{pulse} decompress --index {index} -c {foreign} >{out}")
        for tool, asked in readers.items():
            self.pair(f"{tool} -dc of gzip's output, by an index",
                      f"{pulse} decompress --index {index} -c {foreign} >{out}",
                      f"{tool} -dc {foreign} >{out}", f">= {asked}")
        for level in ("-1", "-6", "-9"):
            own = self.scratch / "own.gz"
            self.run(f"{pulse} compress {level} -c {large} >{own}")
            self.pair(f"igzip -dc of ours, {level}", f"{pulse} decompress -c {own} >{out}",
                      f"igzip -dc {own} >{out}", ">= 1.8",
                      sums(f"{pulse} decompress -c {own}", f"igzip -dc {own}"))
        for level in (1, 3):
            own = self.scratch / "own.zst"
            self.run(f"{pulse} compress -{level} --format zstd -c {large} >{own}")
            self.pair(f"zstd -dc of ours, -{level}", f"{pulse} decompress -c {own} >{out}",
                      f"zstd -dcq {own} >{out}", ">= 1.7",
                      sums(f"{pulse} decompress -c {own}", f"zstd -dcq {own}"))

    def filters(self, lines):
        pulse = self.options.pulse
        rules = self.scratch / "rules"
        rules.write_text(hundred_rules())
        queries = " ".join(f"-e '{q}'" for q in QUERIES)
        rg = "rg --no-config -a"
        packed = self.scratch / "lines.gz"
        self.run(f"pigz -1 -c {lines} >{packed}")
        self.pair("ripgrep, Q1 to Q4", f"{pulse} filter -c {queries} {lines}", f"{rg} -c {queries} {lines}", ">= 2")
        self.pair("ripgrep, 100 rules", f"{pulse} filter -c --rules {rules} {lines}",
                  f"{rg} -c -f {rules} {lines} || echo 0", ">= 5")
        ours = f"{pulse} filter {queries} --compress gzip {packed}"
        theirs = f"zcat {packed} | {rg} -N {queries} | pigz -1"
        self.pair("zcat | rg | pigz -1", f"{ours} >{self.options.output}", f"{theirs} >{self.options.output}",
                  ">= 3", [f"{ours} | pigz -dc | cksum", f"{theirs} | pigz -dc | cksum"])

    def ingest(self, lines):
        name = "a host that receives everything"
        if self.options.only not in name:
            return
        packed, rules = self.scratch / "stream.gz", self.scratch / "texts"
        self.run(f"pigz -6 -c {lines} >{packed}")
        rules.write_text("".join(f"{text}\n" for text in TEXTS))
        server = socket.create_server(("127.0.0.1", 0))
        log = self.scratch / "agent.log"
        with open(log, "w") as file:
            agent = subprocess.Popen(
                [self.options.pulse, "agent", "--socket", str(self.scratch / "ingest.sock"), "--cpus", "1",
                 "--ingest", "0", "--filter", str(rules), "--to", f"127.0.0.1:{server.getsockname()[1]}"],
                stdout=file, stderr=file)
        try:
            while not (to := re.search(r"filters streams sent to 127.0.0.1:(\d+) ", log.read_text())):
                if agent.poll() is not None:
                    sys.exit(f"ops-figures: the agent does not start: {log.read_text()}")
                time.sleep(0.1)
            sides = [(int(to[1]), None), (server.getsockname()[1], f"gzip -dc | rg --no-config -a -N -F -f {rules}")]
            runs = [[self.stream(packed, server, agent.pid, number, *side) for number, side in enumerate(sides)]
                    for _ in range(self.options.pairs + 1)][1:]
        finally:
            agent.terminate()
            agent.wait()
        alike = len({self.run(f"cksum <{self.scratch}/received.{i}")[2] for i in (0, 1)}) == 1
        middle = lambda side, what: statistics.median(run[side][what] for run in runs)
        row = {"name": name, "asked": "-", "alike": alike}
        for i, what in enumerate(("seconds", "host_cpu_seconds", "agent_cpu_seconds", "host_bytes")):
            row[what] = [middle(0, i), middle(1, i)]
        ratios = sorted(theirs[1] / max(ours[1], 1e-3) for ours, theirs in runs)
        row["ratio"], row["least"], row["most"] = statistics.median(ratios), ratios[0], ratios[-1]
        self.rows.append(row)
        print(f"{name}, its CPU time against that of one behind an agent: {row['ratio']:.2f} "
              f"({row['least']:.2f} - {row['most']:.2f}); host CPU {middle(0, 1):.3f} s against "
              f"{middle(1, 1):.3f} s; bytes to the host {middle(0, 3) / 1e6:.1f} MB against "
              f"{middle(1, 3) / 1e6:.1f} MB ({os.path.getsize(lines) / 1e6:.0f} MB of lines); "
              f"{middle(0, 0):.3f} s against {middle(1, 0):.3f} s; agent CPU {middle(0, 2):.3f} s"
              f"{'' if alike else '; THE RESULTS DIFFER'}", flush=True)

    def stream(self, packed, server, agent, number, port, command):
        """Seconds, the host's CPU seconds, the agent's, and bytes that the host received."""
        out = self.scratch / f"received.{number}"
        host = os.fork()
        if host == 0:
            receive(server, command, out)
        before, agent_before, start = resource.getrusage(resource.RUSAGE_CHILDREN), cpu_of(agent), time.monotonic()
        client = threading.Thread(target=send, args=(packed, port))
        client.start()
        _, status = os.waitpid(host, 0)
        wall, after = time.monotonic() - start, resource.getrusage(resource.RUSAGE_CHILDREN)
        client.join()
        if status != 0:
            sys.exit(f"ops-figures: the host of a stream failed: {command}")
        cpu = after.ru_utime + after.ru_stime - before.ru_utime - before.ru_stime
        return wall, cpu, cpu_of(agent) - agent_before, int(pathlib.Path(f"{out}.bytes").read_text())


def main():
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("pulse", help="the program, such as build/release/bin/pulse")
    parser.add_argument("--corpus", help="a directory of files to compress")
    parser.add_argument("--logs", help="a directory of files of lines, for filters")
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--parts", nargs="+", default=PARTS, choices=PARTS)
    parser.add_argument("--only", default="", help="the rows whose names contain this")
    parser.add_argument("--size", type=int, default=441, help="MB of data; pigz -6 and -9 take a quarter")
    parser.add_argument("--lines", type=int, default=260, help="MB of lines")
    parser.add_argument("--output", default="/dev/null")
    parser.add_argument("--json", help="a file for the figures")
    options = parser.parse_args()
    missing = [tool for tool in TOOLS if shutil.which(tool) is None]
    if missing:
        sys.exit(f"ops-figures: not installed: {', '.join(missing)}")
    for part in options.parts:
        of_lines = part in ("filter", "ingest")
        if (options.logs if of_lines else options.corpus) is None:
            parser.error(f"--parts {part} needs {'--logs' if of_lines else '--corpus'}")
    if options.pairs < 1:
        parser.error("--pairs: at least 1")
    with tempfile.TemporaryDirectory(prefix="ops-figures.") as name:
        scratch = pathlib.Path(name)
        figures = Figures(options, scratch)
        if {"compress", "decompress"} & set(options.parts):
            corpus = read_files(options.corpus)
            large = repeat(scratch / "large", corpus, options.size * 1e6)
        if "compress" in options.parts:
            figures.compression(large, repeat(scratch / "small", corpus, options.size * 1e6 / 4))
        if "decompress" in options.parts:
            figures.decompression(large)
        if {"filter", "ingest"} & set(options.parts):
            lines = repeat(scratch / "lines", read_files(options.logs), options.lines * 1e6)
        if "filter" in options.parts:
            figures.filters(lines)
        if "ingest" in options.parts:
            figures.ingest(lines)
    if options.json:
        pathlib.Path(options.json).write_text(json.dumps(figures.rows, indent=1) + "\n")


if __name__ == "__main__":
    main()
