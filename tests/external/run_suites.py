#!/usr/bin/env python3
"""Runs what rocksdb_suites.sh has built, and prints the table. Not to be called by hand."""

import argparse
import concurrent.futures
import fnmatch
import json
import os
import re
import sys
import time

import outcomes as oc
import stress_suites
from gtest_suite import GtestSuite


class Expected:
    """expected_VERSION.txt: `program case-pattern reason` per line, # for comments."""

    def __init__(self, path):
        self._lines = []
        if not os.path.exists(path):
            return
        with open(path) as f:
            for number, line in enumerate(f, 1):
                line = line.split("#")[0].strip()
                if not line:
                    continue
                parts = line.split(None, 2)
                if len(parts) < 3:
                    raise SystemExit("%s:%d: wants PROGRAM CASES REASON" % (path, number))
                self._lines.append(parts)

    def reason(self, program, case):
        for p, pattern, reason in self._lines:
            if p == program and fnmatch.fnmatchcase(case, pattern):
                return reason
        return None


class Context:
    def __init__(self, args):
        self.args = args
        self.result = args.result
        self.source = os.path.join(args.result, "source")
        self.build = os.path.join(args.result, "build")
        self.tmp = os.path.join(args.result, "tmp")
        self.logs = os.path.join(args.result, "logs")
        self.expected = Expected(args.expected)
        state = oc.fingerprint(
            args.pulse_root, args.version, args.uri, os.environ.get("PULSE_OPTIONS", "")
        )
        path = os.path.join(args.result, "outcomes.jsonl")
        self.outcomes = oc.Outcomes(path, state, args.rerun)

    def binary(self, program):
        return os.path.join(self.build, program)

    def stress_binary(self):
        return stress_suites.find_db_stress(self.build)

    def test_environment(self, program):
        """What makes a test program use pulse://."""
        if program == "env_basic_test":
            with open(os.path.join(self.source, "env/env_basic_test.cc")) as f:
                # Until it is repaired upstream, it takes the URI of a file system for that of an Env.
                if re.search(r'CreateFromUri\(ConfigOptions\(\), uri, "", &fs_env', f.read()):
                    return {"TEST_ENV_URI": "id=CompositeEnv;file_system=" + self.args.uri}
        return {"TEST_FS_URI": self.args.uri}


def number(text):
    value = int(text)
    if value <= 0:
        raise argparse.ArgumentTypeError("must be positive")
    return value


def parse():
    p = argparse.ArgumentParser()
    p.add_argument("--result", required=True)
    p.add_argument("--version", required=True)
    p.add_argument("--pulse-root", required=True)
    p.add_argument("--expected", required=True)
    p.add_argument("--suites", required=True)
    p.add_argument("--programs", default="")
    p.add_argument("--cases", default="")
    p.add_argument("--jobs", type=number, default=1)
    p.add_argument("--limit", type=number, default=3600)
    p.add_argument("--case-limit", type=number, default=600)
    p.add_argument("--crash-minutes", type=number, default=10)
    p.add_argument("--retries", type=number, default=3)
    p.add_argument("--seed", type=int, default=int(time.time()))
    p.add_argument("--uri", default="pulse://")
    p.add_argument("--rerun", action="store_true")
    p.add_argument("--run-expected", action="store_true")
    return p.parse_args()


def main():
    args = parse()
    ctx = Context(args)
    os.makedirs(ctx.logs, exist_ok=True)
    os.makedirs(ctx.tmp, exist_ok=True)
    suites = args.suites.split(",")
    oc.note("seed of the crash tests: %d (--seed repeats their choices)" % args.seed)

    tests = []
    if "env" in suites:
        tests.append(GtestSuite(ctx, "env", "env_basic_test", "CustomEnv*"))
    if "db" in suites:
        programs = [p for p in args.programs.split(",") if p]
        tests += [GtestSuite(ctx, "db", p, args.cases) for p in programs]
    with concurrent.futures.ThreadPoolExecutor(max_workers=args.jobs) as pool:
        for future in [pool.submit(t.run) for t in tests]:
            future.result()

    # One after the other: each has threads enough for a machine.
    if "make" in suites:
        stress_suites.MakeSuite(ctx).run()
    if "stress" in suites:
        stress_suites.StressSuite(ctx).run()
    for kind in ("blackbox", "whitebox"):
        if kind in suites:
            stress_suites.CrashSuite(ctx, kind).run()

    outcomes = ctx.outcomes.all()
    table = oc.format_table(outcomes)
    print(table)
    with open(os.path.join(args.result, "results.txt"), "w") as f:
        f.write(table + "\n")
    with open(os.path.join(args.result, "results.json"), "w") as f:
        counts = {s: sum(o["status"] == s for o in outcomes) for s in oc.ORDER}
        json.dump(
            dict(rocksdb=args.version, uri=args.uri, seed=args.seed, counts=counts, cases=outcomes),
            f,
            indent=1,
        )
    oc.note("results: %s/results.txt, results.json, logs/" % args.result)
    if any(o["status"] == oc.FAILED for o in outcomes):
        return 1
    if not any(o["status"] == oc.PASSED for o in outcomes):
        oc.note("nothing passed: nothing was shown")
        return 2
    return 0


if __name__ == "__main__":
    sys.exit(main())
