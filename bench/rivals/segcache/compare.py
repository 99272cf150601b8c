#!/usr/bin/env python3
"""compare.py BUILD [--items N] [--pairs N] [--seconds S] [--cpu N] [--json FILE]: the crate segcache beside
PulseDB's in-memory engine, by calls of one thread, in turns: the same keys in the same order, values and
batches. BUILD has bin/pulse; the crate's program is built below it, by cargo, from crates.io. Two releases:
the last one for one thread, and the newest, which several threads may share."""
import argparse
import json
import os
import statistics
import subprocess
import sys

HERE = os.path.dirname(os.path.abspath(__file__))
# Name of the part in bench/macro/data/kv.json: its title, bytes of key and value, share of SETs, keys.
LOADS = [("engine-get", "8 B + 8 B, GET, uniform", 8, 8, 0.0, "uniform"),
         ("engine-get-zipf", "8 B + 8 B, GET, zipf 0.99", 8, 8, 0.0, "zipf"),
         ("engine-mixed", "8 B + 8 B, half SET, uniform", 8, 8, 0.5, "uniform"),
         ("engine-get-100", "16 B + 100 B, GET, uniform", 16, 100, 0.0, "uniform"),
         ("engine-set-100", "16 B + 100 B, SET, uniform", 16, 100, 1.0, "uniform")]
RIVALS = ("single", "shared")


def ours(args, scratch):
    """Million calls a second by part, of one round."""
    file = os.path.join(scratch, "ours.json")
    subprocess.run([os.path.join(args.build, "bin/pulse"), "bench", "kv", "--part", "engine",
                    "--variants", "batch", "--pairs", "1", "--items", str(args.items),
                    "--seconds", str(args.seconds), "--host-cpus", str(args.cpu), "--dir",
                    os.path.join(scratch, "bench"),
                    "--json", file], check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
    with open(file, encoding="utf-8") as found:
        parts = json.load(found)["parts"]
    return {name: part["runs"][0]["ops_per_s"] / 1e6 for name, part in parts.items()}


def theirs(program, args, which, load):
    _, _, key, value, sets, keys = load
    out = subprocess.run(["taskset", "-c", str(args.cpu), program, which, str(args.items), str(key),
                          str(value), str(sets), keys, "32", str(args.seconds)],
                         check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL).stdout
    found = json.loads(out)
    # Keys that it lost while it was filled are said, and no reason to stop.
    return found["ops_per_s"] / 1e6, found


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("build")
    parser.add_argument("--items", type=int, default=16_000_000)
    parser.add_argument("--pairs", type=int, default=5)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--cpu", type=int, default=0)
    parser.add_argument("--json", default="")
    args = parser.parse_args()
    target = os.path.join(os.path.abspath(args.build), "segcache")
    subprocess.run(["cargo", "build", "--release", "--quiet", "--locked", "--manifest-path",
                    os.path.join(HERE, "Cargo.toml"), "--target-dir", target], check=True)
    program = os.path.join(target, "release/segcache-rival")
    rows = {load[0]: {"ours": [], **{which: [] for which in RIVALS}} for load in LOADS}
    lost = {}
    for pair in range(args.pairs):
        turn = list(RIVALS)
        if pair % 2 == 0:
            turn.reverse()
        own = ours(args, target) if pair % 2 == 0 else None
        for load in LOADS:
            for which in turn:
                rate, found = theirs(program, args, which, load)
                rows[load[0]][which].append(rate)
                gets = found["hits"] + found["missed"]
                lost[(load[0], which)] = (args.items - found["filled"],
                                          100 * found["missed"] / gets if gets else 0,
                                          found["refused"])
        own = own or ours(args, target)
        for name in rows:
            rows[name]["ours"].append(own[name])
        print(f"pair {pair + 1}/{args.pairs}", file=sys.stderr)
    print(f"million calls a second, {args.items} items, CPU {args.cpu}, {args.pairs} pairs in turn")
    for name, title, *_ in LOADS:
        row = rows[name]
        line = f"{title}: ours {statistics.median(row['ours']):.1f}"
        for which in RIVALS:
            ratios = [a / b for a, b in zip(row["ours"], row[which])]
            items, missed, refused = lost[(name, which)]
            line += (f"; {which} {statistics.median(row[which]):.1f}, ours / it "
                     f"{statistics.median(ratios):.2f} ({min(ratios):.2f} - {max(ratios):.2f})")
            if items or missed or refused:
                line += f" [lost {items}, not found {missed:.2f} %, refused {refused}]"
        print(line)
    if args.json:
        with open(args.json, "w", encoding="utf-8") as out:
            json.dump({"items": args.items, "rows": rows}, out, indent=1)


if __name__ == "__main__":
    main()
