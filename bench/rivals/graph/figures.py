#!/usr/bin/env python3
"""The graph store beside Ladybug and Kuzu (from PyPI), in turns: load, sizes, scans, hops, transactions.

  make python
  python3 -m venv v && v/bin/pip install ladybug kuzu numpy build/python/dist/*.whl
  v/bin/python bench/rivals/graph/figures.py --json figures.json

Each round runs every program once, in a process of its own, on all CPUs, all of them within Python:
200,000 nodes and 2 million relationships, half of whose ends are skewed, with one integer each, loaded
from the same CSV files; all give the same answers, or the script fails. Printed: medians with the least
and the most of the rounds, and the medians of the rounds' ratios. PulseDB's load has the index on the
nodes' key in its time. A durable transaction creates one relationship between two nodes that it finds by
their keys; beside it stands a bare append with fdatasync, measured in the same process.
"""
import argparse
import json
import os
import shutil
import statistics
import sys
import threading
import time

from gtpc import fetch, in_turns, remove_database, run

PATHS = ("MATCH (a:Person)-[:KNOWS]->(b:Person)-[:KNOWS]->(c:Person) WHERE a.id < $most "
         "RETURN count(*)")
TRIANGLES = ("MATCH (a:Person)-[:KNOWS]->(b:Person)-[:KNOWS]->(c:Person), (a)-[:KNOWS]->(c) "
             "RETURN count(*)")
HOP = "MATCH (a:Person {id: $id})-[:KNOWS]->(b:Person) RETURN b.id"
SUM = "MATCH ()-[e:KNOWS]->() RETURN sum(e.w)"
CREATE = ("MATCH (a:Person {id: $a}), (b:Person {id: $b}) CREATE (a)-[:KNOWS {w: 1}]->(b)")
# Name, unit, what is asked against the better rival, whether more is better.
FIGURES = {
    "load": ("relationships/s", ">= 1.7", True),
    "bytes_small": ("bytes/relationship, 0..99", "<= 12", False),
    "bytes_random": ("bytes/relationship, 64 bits", "<= 16", False),
    "sum": ("ms", ">= 2", False),
    "two_hops": ("ms", ">= 2", False),
    "triangles": ("ms", "", False),
    "one_hop": ("requests/s", ">= 12", True),
    "durable": ("transactions/s, one writer", ">= 3, or 0.8 of bare", True),
    "durable_8": ("transactions/s, 8 writers", ">= 10 of one", True),
    "statements": ("statements/s in one transaction", ">= 20", True),
    "bare": ("appends with fdatasync/s", "", True),
}


def make_data(directory, nodes, edges, seed):
    import numpy
    random = numpy.random.default_rng(seed)
    os.makedirs(directory, exist_ok=True)

    def ends():
        flat = random.integers(0, nodes, edges)
        skewed = (nodes * random.random(edges) ** 1.5).astype(numpy.int64)
        return numpy.where(random.random(edges) < 0.5, flat, skewed)

    source, target = ends(), ends()
    # No loops, of which two hops would be one relationship twice, which Cypher does not allow.
    target = numpy.where(target == source, (target + 1) % nodes, target)
    with open(os.path.join(directory, "nodes.csv"), "w", encoding="utf-8") as file:
        file.write("id\n" + "\n".join(map(str, range(nodes))) + "\n")
    small = random.integers(0, 100, edges)
    wide = random.integers(-(1 << 63), (1 << 63) - 1, edges)
    for name, values in (("small", small), ("random", wide)):
        rows = zip(source.tolist(), target.tolist(), values.tolist())
        with open(os.path.join(directory, f"{name}.csv"), "w", encoding="utf-8") as file:
            file.write("source,target,w\n" + "".join(f"{a},{b},{w}\n" for a, b, w in rows))
    degrees = numpy.bincount(source, minlength=nodes)
    by_source = numpy.bincount(source, weights=degrees[target], minlength=nodes)
    paths = numpy.cumsum(by_source)
    most = int(numpy.searchsorted(paths, 2_000_000)) + 1
    return {"most": most, "paths": int(paths[min(most, nodes) - 1]), "sum": int(small.sum())}


class Rival:
    """Ladybug or Kuzu, whose calls are the same."""

    def __init__(self, name, path):
        self.module = __import__(name)
        self.path = path
        self.connection = self.module.Connection(self.module.Database(path))

    def load(self, directory, edges):
        begin = time.monotonic()
        self.connection.execute("CREATE NODE TABLE Person(id INT64, PRIMARY KEY(id))")
        self.connection.execute("CREATE REL TABLE KNOWS(FROM Person TO Person, w INT64)")
        for table, file in (("Person", "nodes.csv"), ("KNOWS", edges)):
            self.connection.execute(f"COPY {table} FROM '{directory}/{file}' (header=true)")
        return time.monotonic() - begin

    def run(self, text, **values):
        return fetch(self.connection, text, values)

    def begin(self):
        self.connection.execute("BEGIN TRANSACTION")

    def commit(self):
        self.connection.execute("COMMIT")

    def close(self):
        self.connection.execute("CHECKPOINT")
        self.connection.close()


class Pulse:
    def __init__(self, path):
        import pulsedb
        self.graph = pulsedb.Graph(path)
        self.now = self.graph

    def load(self, directory, edges):
        begin = time.monotonic()
        self.graph.load_csv({"Person": f"{directory}/nodes.csv"},
                            {"KNOWS(Person,Person)": f"{directory}/{edges}"})
        self.graph.execute("CREATE INDEX FOR (n:Person) ON (n.id)")
        return time.monotonic() - begin

    def run(self, text, **values):
        return self.now.execute(text, values).fetchall()

    def begin(self):
        self.now = self.graph.begin()

    def commit(self):
        self.now.commit()
        self.now = self.graph

    def close(self):
        self.graph.close()


def size_of(path):
    total = 0
    for name in (path, path + ".wal"):
        if os.path.isfile(name):
            total += os.path.getsize(name)
    for root, _, names in os.walk(path):
        total += sum(os.stat(os.path.join(root, name)).st_blocks * 512 for name in names)
    return total


def rate(seconds, once):
    """Calls of once(i) for each second."""
    begin, count = time.monotonic(), 0
    while time.monotonic() - begin < seconds:
        once(count)
        count += 1
    return count / (time.monotonic() - begin)


def median_ms(repeats, once):
    once()
    times = []
    for _ in range(repeats):
        begin = time.monotonic()
        once()
        times.append(time.monotonic() - begin)
    return 1e3 * statistics.median(times)


def bare(path, seconds):
    with open(path, "wb", buffering=0) as file:
        def once(_):
            file.write(b"x" * 128)
            os.fdatasync(file.fileno())
        found = rate(seconds, once)
    os.remove(path)
    return found


def with_writers(store, writers, seconds, nodes):
    done, end = [0] * writers, time.monotonic() + seconds

    def write(n):
        while time.monotonic() < end:
            store.run(CREATE, a=(done[n] * 8 + n) % nodes, b=(done[n] * 8 + n + 7919) % nodes)
            done[n] += 1

    threads = [threading.Thread(target=write, args=(n,)) for n in range(writers)]
    begin = time.monotonic()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    return sum(done) / (time.monotonic() - begin)


def expect(name, got, wanted):
    if got != wanted:
        sys.exit(f"{name}: {got}, expected {wanted}")


def child(args):
    """One round of one program; prints JSON."""
    with open(os.path.join(args.data, "expected.json"), encoding="utf-8") as file:
        expected = json.load(file)
    path = os.path.join(args.dir, args.child + ".db")
    found = {}

    def opened(edges):
        remove_database(path)
        store = Pulse(path) if args.child == "pulsedb" else Rival(args.child, path)
        return store, store.load(args.data, edges)

    store, _ = opened("random.csv")
    store.close()
    del store
    found["bytes_random"] = size_of(path) / args.edges
    store, seconds = opened("small.csv")
    found["load"] = args.edges / seconds
    store.close()
    del store
    found["bytes_small"] = size_of(path) / args.edges
    store = Pulse(path) if args.child == "pulsedb" else Rival(args.child, path)
    expect("sum", store.run(SUM)[0][0], expected["sum"])
    expect("two hops", store.run(PATHS, most=expected["most"])[0][0], expected["paths"])
    found["sum"] = median_ms(args.repeats, lambda: store.run(SUM))
    found["two_hops"] = median_ms(args.repeats, lambda: store.run(PATHS, most=expected["most"]))
    found["triangle_count"] = store.run(TRIANGLES)[0][0]
    found["triangles"] = median_ms(3, lambda: store.run(TRIANGLES))
    found["one_hop"] = rate(args.seconds, lambda i: store.run(HOP, id=i * 7919 % args.nodes))
    found["bare"] = bare(os.path.join(args.dir, "bare"), args.seconds)
    found["durable"] = rate(args.seconds, lambda i: store.run(
        CREATE, a=i % args.nodes, b=(i + 7919) % args.nodes))
    if args.child == "pulsedb":
        found["durable_8"] = with_writers(store, 8, args.seconds, args.nodes)
    store.begin()
    begin, count = time.monotonic(), 5000
    for i in range(count):
        store.run(CREATE, a=i % args.nodes, b=(i + 104729) % args.nodes)
    store.commit()
    found["statements"] = count / (time.monotonic() - begin)
    store.close()
    remove_database(path)
    print(json.dumps(found))


def spread(values):
    return {"median": statistics.median(values), "least": min(values), "most": max(values)}


def text_of(found):
    return " (".join([f"{found['median']:,.4g}", f"{found['least']:,.4g} – {found['most']:,.4g})"])


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--programs", default="ladybug,kuzu", help="modules to compare with")
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--nodes", type=int, default=200_000)
    parser.add_argument("--edges", type=int, default=2_000_000)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--seconds", type=float, default=2, help="of each rate")
    parser.add_argument("--repeats", type=int, default=7, help="of each query, after one to warm up")
    parser.add_argument("--dir", default="./graph-rivals", help="work here")
    parser.add_argument("--json", default="", help="write all figures here")
    for inner in ("--child", "--data"):
        parser.add_argument(inner, help=argparse.SUPPRESS)
    return parser.parse_args()


def main():
    args = arguments()
    if args.child:
        child(args)
        return
    rivals = [name for name in args.programs.split(",") if name]
    programs = ["pulsedb", *rivals]
    data = os.path.join(os.path.abspath(args.dir), "data")
    expected = make_data(data, args.nodes, args.edges, args.seed)
    with open(os.path.join(data, "expected.json"), "w", encoding="utf-8") as file:
        json.dump(expected, file)
    rounds = [{} for _ in range(args.rounds)]
    for turn, program in in_turns(programs, args.rounds):
        words = [sys.executable, os.path.abspath(__file__), "--child", program, "--data", data]
        for name in ("dir", "nodes", "edges", "seconds", "repeats"):
            words += ["--" + name, str(getattr(args, name))]
        rounds[turn][program] = json.loads(run(words).splitlines()[-1])
    # Of parallel relationships each is in a triangle of its own, which Ladybug 0.22 does not count.
    for program in programs:
        print(f"triangles counted by {program}: {rounds[0][program]['triangle_count']:,}")
    result = {"benchmark": "graph-rivals", "paths": expected["paths"], "rounds": rounds, "figures": {},
              "settings": {name: getattr(args, name) for name in ("programs", "nodes", "edges", "seed")}}
    print(f"{expected['paths']:,} paths of two hops; medians (least – most), {args.rounds} rounds")
    for name, (unit, asked, more) in FIGURES.items():
        row = {p: spread([r[p][name] for r in rounds]) for p in programs if name in rounds[0][p]}
        line = "; ".join(f"{p} {text_of(s)}" for p, s in row.items())
        others = [p for p in rivals if name in rounds[0][p]]
        if name == "durable_8":
            ratios = [r["pulsedb"][name] / max(r[p]["durable"] for p in rivals) for r in rounds]
        elif name == "bare" or not others:
            ratios = []
        else:
            pick = max if more else min
            ratios = [r["pulsedb"][name] / pick(r[p][name] for p in others) for r in rounds]
            ratios = ratios if more or "bytes" in name else [1 / r for r in ratios]
        if ratios:
            row["ratio"] = spread(ratios)
            line += f"; against the better {text_of(row['ratio'])}"
        if name == "durable":
            of_bare = spread([r["pulsedb"][name] / r["pulsedb"]["bare"] for r in rounds])
            row["of_bare"] = of_bare
            line += f"; of bare {text_of(of_bare)}"
        print(f"{name}, {unit}: {line}" + (f"; asked {asked}" if asked else ""))
        result["figures"][name] = {"unit": unit, "asked": asked, **row}
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)
    shutil.rmtree(data)


if __name__ == "__main__":
    main()
