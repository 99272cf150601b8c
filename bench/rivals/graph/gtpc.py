#!/usr/bin/env python3
"""GTPC's analytical queries on Ladybug and Kuzu (from PyPI) beside PulseDB's, in turns.

  python3 -m venv v && v/bin/pip install ladybug kuzu
  v/bin/python bench/rivals/graph/gtpc.py --pulse build/release/bin/pulse --json figures.json

`pulse bench graph` makes the data (repaired variant), the same CSV files for all. Each round runs every
program once, in a process of its own, on all CPUs: of each query one run to warm up, whose rows are compared with
PulseDB's, and one that is timed with all its rows fetched. Ladybug and Kuzu run within Python, PulseDB
within pulse-bench. What a program cannot run is listed by name, with its reason, and left out of the
sums that it is compared by.
"""
import argparse
import json
import math
import os
import shutil
import statistics
import subprocess
import sys
import time

TYPES = {"int": "INT64", "float": "DOUBLE", "string": "STRING", "localdatetime": "TIMESTAMP"}


def quoted(name):
    return f"`{name}`"


def remove_database(path):
    for old in (path, path + ".wal"):
        if os.path.isdir(old):
            shutil.rmtree(old)
        elif os.path.exists(old):
            os.remove(old)


def load(module, path, data, tables):
    """Creates the schema and copies all files in; returns seconds and the connection."""
    remove_database(path)
    connection = module.Connection(module.Database(path))
    edges = {}
    for table in tables:
        if "source" in table:
            edges.setdefault(table["name"], []).append(table)
            continue
        columns = ", ".join(f"{quoted(c['name'])} {TYPES[c['type']]}" for c in table["columns"])
        connection.execute(f"CREATE NODE TABLE {quoted(table['name'])}({columns}, PRIMARY KEY(id))")
    for name, several in edges.items():
        pairs = ", ".join(f"FROM {quoted(t['source'])} TO {quoted(t['target'])}" for t in several)
        connection.execute(f"CREATE REL TABLE {quoted(name)}({pairs})")
    begin = time.monotonic()
    for table in tables:
        options = "header=true"
        if "source" in table and len(edges[table["name"]]) > 1:
            options += f", from='{table['source']}', to='{table['target']}'"
        connection.execute(
            f"COPY {quoted(table['name'])} FROM '{os.path.join(data, table['file'])}' ({options})")
    return time.monotonic() - begin, connection


def plain(value):
    if hasattr(value, "strftime"):
        return value.strftime("%Y-%m-%dT%H:%M:%S")
    if isinstance(value, (int, float, str)) or value is None:
        return value
    return float(value)  # a decimal


def fetch(connection, text, values=None):
    result = connection.execute(text, values or {})
    rows = []
    while result.has_next():
        rows.append(result.get_next())
    return rows


def child(args):
    """One round of one program; prints JSON."""
    module = __import__(args.child)
    with open(os.path.join(args.data, "gtpc.json"), encoding="utf-8") as file:
        description = json.load(file)
    out = {"queries": {}}
    path = os.path.join(args.dir, args.child + ".db")
    if args.load:
        out["load_s"], connection = load(module, path, args.data, description["tables"])
        print(json.dumps(out))
        return
    connection = module.Connection(module.Database(path))
    connection.set_query_timeout(int(args.timeout * 1000))
    for query in description["queries"]["ladybug"]:
        if args.only and query["name"] not in args.only:
            continue
        found = out["queries"][query["name"]] = {}
        try:
            rows = fetch(connection, query["text"])
            begin, cpu = time.monotonic(), time.process_time()
            fetch(connection, query["text"])
            found["seconds"] = time.monotonic() - begin
            found["cpu_s"] = time.process_time() - cpu  # of all its threads
            found["rows"] = [[plain(value) for value in row] for row in rows]
        except RuntimeError as error:
            text = str(error).strip()
            found["error"] = text.splitlines()[0] if text else "no reason given"
            found["timeout"] = "nterrupt" in text or "imeout" in text
    print(json.dumps(out))


def same_value(a, b):
    if isinstance(a, str) or isinstance(b, str) or a is None or b is None:
        return a == b
    return math.isclose(a, b, rel_tol=1e-9, abs_tol=1e-6)


def key_of(row):
    """Sorts rows alike whose sums differ in their last digits."""
    return tuple((0, f"{v:.4f}") if isinstance(v, (int, float)) else (1, str(v)) for v in row)


def same_rows(a, b):
    if len(a) != len(b):
        return False
    return all(len(x) == len(y) and all(map(same_value, x, y))
               for x, y in zip(sorted(a, key=key_of), sorted(b, key=key_of)))


def run(command):
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)} failed:\n{done.stdout}{done.stderr}")
    return done.stdout


def pulse_round(args):
    words = [args.pulse, "bench", "graph", "--part", "gtpc", "--variants", "repaired", "--pairs", "1",
             "--warehouses", str(args.warehouses), "--seed", str(args.seed), "--query-timeout",
             str(args.timeout), "--dir", os.path.join(args.dir, "work"), "--json",
             os.path.join(args.dir, "pulse.json"), "--answers", os.path.join(args.dir, "answers.json")]
    if args.only:
        words += ["--only", ",".join(args.only)]
    if args.tiny:
        words.append("--tiny")
    if args.allow_tmpfs:
        words.append("--allow-tmpfs")
    run(words)
    with open(os.path.join(args.dir, "pulse.json"), encoding="utf-8") as file:
        result = json.load(file)["gtpc"][0]
    with open(os.path.join(args.dir, "answers.json"), encoding="utf-8") as file:
        answers = {q["query"]: q["rows"] for q in json.load(file)[0]["queries"] or []}
    queries = {}
    for row in result["queries"]:
        found = queries[row["query"]] = {}
        if "seconds" in row:
            found.update(seconds=row["seconds"]["median"], cpu_s=row["cpu_s"],
                         rows=answers[row["query"]])
        else:
            found.update(error=row.get("error", "it took too long"), timeout=row.get("timeout", False))
    return {"load_s": result["load_s"], "queries": queries}


def rival_round(args, program, loading=False):
    words = [sys.executable, os.path.abspath(__file__), "--child", program, "--data", args.data, "--dir",
             args.dir, "--timeout", str(args.timeout)]
    if args.only:
        words += ["--only", ",".join(args.only)]
    return json.loads(run(words + (["--load"] if loading else [])))


def in_turns(programs, rounds):
    """Each program once in each round, in each round another one first: the round's number, and the program."""
    for turn in range(rounds):
        for i in range(len(programs)):
            program = programs[(turn + i) % len(programs)]
            print(f"round {turn + 1} of {rounds}: {program}", file=sys.stderr, flush=True)
            yield turn, program


def summary_of(rounds, names):
    """By query: the median of its seconds, or why there is none."""
    found = {}
    for name in names:
        of_query = [r["queries"][name] for r in rounds if name in r["queries"]]
        failed = next((q for q in of_query if "seconds" not in q), None)
        found[name] = ({"error": failed["error"], "timeout": failed["timeout"]} if failed else
                       {"seconds": statistics.median(q["seconds"] for q in of_query),
                        "cpu_s": statistics.median(q["cpu_s"] for q in of_query),
                        "least": min(q["seconds"] for q in of_query),
                        "most": max(q["seconds"] for q in of_query)})
    return found


def show(programs, names, summaries, differing):
    print(f"{'':6}" + "".join(f"{p + ', ms':>18}{'CPU ms':>9}" for p in programs))
    for name in names:
        cells = [f"{1e3 * q['seconds']:.1f}{1e3 * q['cpu_s']:9.1f}" if "seconds" in q else
                 ("timeout" if q["timeout"] else "–") + " " * 9
                 for q in (summaries[p][name] for p in programs)]
        wrong = [p for p in programs if name in differing.get(p, [])]
        print(f"{name:6}" + "".join(f"{c:>27}" for c in cells) +
              (f"  other rows: {', '.join(wrong)}" if wrong else ""))


def compared(summaries, program, names, differing):
    """Sums over the queries that both run, with the same rows."""
    both = [n for n in names if "seconds" in summaries["pulse"][n] and
            "seconds" in summaries[program][n] and n not in differing[program]]
    found = {"queries": both}
    for figure, short in (("seconds", "s"), ("cpu_s", "cpu_s")):
        ours, theirs = (sum(summaries[p][n][figure] for n in both) for p in ("pulse", program))
        found[f"pulse_{short}"], found[f"rival_{short}"] = ours, theirs
        found["ratio" if short == "s" else "cpu_ratio"] = ours / theirs if theirs else 0.0
    return found


def arguments():
    parser = argparse.ArgumentParser(description=__doc__,
                                     formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--pulse", help="the program pulse, with pulse-bench beside it")
    parser.add_argument("--programs", default="ladybug,kuzu", help="modules to compare with")
    parser.add_argument("--warehouses", type=int, default=1)
    parser.add_argument("--rounds", type=int, default=3)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--timeout", type=float, default=20, help="seconds of a query")
    parser.add_argument("--only", default="", help="only these queries: Q1,Q14")
    parser.add_argument("--dir", default="./gtpc-rivals", help="work here; gigabytes for 5 warehouses")
    parser.add_argument("--json", default="", help="write all figures here")
    parser.add_argument("--tiny", action="store_true")
    parser.add_argument("--allow-tmpfs", action="store_true")
    for inner in ("--child", "--data"):
        parser.add_argument(inner, help=argparse.SUPPRESS)
    parser.add_argument("--load", action="store_true", help=argparse.SUPPRESS)
    args = parser.parse_args()
    args.only = [name for name in args.only.split(",") if name]
    return args


def main():
    args = arguments()
    if args.child:
        child(args)
        return
    if not args.pulse:
        sys.exit("give --pulse: the program pulse")
    os.makedirs(args.dir, exist_ok=True)
    args.data = os.path.join(args.dir, "data")
    words = [args.pulse, "bench", "graph", "--variants", "repaired", "--write-csv", args.data,
             "--warehouses", str(args.warehouses), "--seed", str(args.seed)]
    run(words + (["--tiny"] if args.tiny else []))
    rivals = [name for name in args.programs.split(",") if name]
    loads = {}
    for program in rivals:
        loads[program] = rival_round(args, program, loading=True)["load_s"]
        print(f"{program}: loaded in {loads[program]:.2f} s", flush=True)
    programs = ["pulse", *rivals]
    rounds = {program: [] for program in programs}
    for _, program in in_turns(programs, args.rounds):
        rounds[program].append(pulse_round(args) if program == "pulse" else rival_round(args, program))
    loads["pulse"] = statistics.median(r["load_s"] for r in rounds["pulse"])
    names = list(rounds["pulse"][0]["queries"])
    summaries = {program: summary_of(rounds[program], names) for program in programs}
    differing = {}
    for program in rivals:
        ours, theirs = rounds["pulse"][0]["queries"], rounds[program][0]["queries"]
        differing[program] = [n for n in names if "rows" in ours[n] and "rows" in theirs[n] and
                              not same_rows(ours[n]["rows"], theirs[n]["rows"])]
    show(programs, names, summaries, differing)
    result = {"warehouses": args.warehouses, "rounds": args.rounds, "load_s": loads,
              "queries": summaries, "other_rows": differing, "compared": {}}
    for program in rivals:
        one = result["compared"][program] = compared(summaries, program, names, differing)
        print(f"\n{program}: {len(one['queries'])} queries that both run: pulse {one['pulse_s']:.3f} s, "
              f"{program} {one['rival_s']:.3f} s, ratio {one['ratio']:.2f} (asked: at most 0.5); CPU "
              f"{one['pulse_cpu_s']:.3f} s and {one['rival_cpu_s']:.3f} s, ratio {one['cpu_ratio']:.2f}")
        for name in names:
            if "seconds" not in summaries[program][name]:
                print(f"  {program} does not run {name}: {summaries[program][name]['error']}")
    for name in names:
        if "seconds" not in summaries["pulse"][name]:
            print(f"pulse does not run {name}: {summaries['pulse'][name]['error']}")
    if args.json:
        with open(args.json, "w", encoding="utf-8") as file:
            json.dump(result, file, indent=1)


if __name__ == "__main__":
    main()
