#!/usr/bin/env python3
"""db_bench and db_stress of the newest RocksDB on pulse://, by an embedded agent and by an agent process.

scripts/check-newest.sh builds the programs and calls this. The settings are those of stress_suites.py, with
fewer operations. A case passes if its programs end well, its outputs went through an agent, and RocksDB
without the plug-in verifies the database of db_bench.
"""

import argparse
import contextlib
import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import tempfile
import time

import outcomes as oc
import stress_suites as st
from gtest_suite import agent_work

LIMIT = 300  # seconds for one program: only a hang takes as long

# Each table gets a checksum of all its bytes, which RocksDB takes before the plug-in sees them.
BENCH = dict(st.BENCH, file_checksum="true", verify_checksum="true")
WRITE = "fillrandom,overwrite,compact,verifychecksum"
READ = "verifychecksum,verifyfilechecksums,readrandom"

# A Release build of db_stress refuses these faults, which are its default.
STRESS = dict(read_fault_one_in=0, metadata_read_fault_one_in=0, ops_per_thread=15000)


class Failure(Exception):
    pass


class Suite:
    def __init__(self, args):
        self.args = args
        self.tmp = os.path.join(args.result, "tmp")
        self.logs = os.path.join(args.result, "logs")
        for directory in (self.tmp, self.logs):
            shutil.rmtree(directory, ignore_errors=True)
            os.makedirs(directory)
        self.log = ""  # of the last program

    def program(self, name):
        return os.path.join(self.args.programs, "bin", name)

    def run(self, name, command, plugin=True, uri=""):
        """Runs a program and returns what it said. Its exit status has to be 0."""
        self.log = os.path.join(self.logs, name + ".log")
        env = {k: v for k, v in os.environ.items() if not k.startswith(("PULSE_", "LD_", "TEST_"))}
        if plugin:
            env["LD_PRELOAD"] = os.path.join(self.args.programs, "lib", "libpulse_rocksdb.so")
            env["PULSE_LOG"] = "info"  # sessions say how many files they wrote
        if uri:
            env["PULSE_URI"] = uri
        status, _ = st.run_logged(command, env, self.tmp, self.log, LIMIT)
        if status != 0:
            raise Failure(st.complaint(self.log, status))
        return st.text_of(self.log)

    @contextlib.contextmanager
    def agent(self, name, external):
        """The URI of an agent: of a process that lives as long as the context, or embedded."""
        if not external:
            yield "pulse://"
            return
        # Paths of sockets are short; those of build directories may not be.
        with tempfile.TemporaryDirectory(prefix="pulse-newest.") as directory:
            path = os.path.join(directory, "agent.sock")
            log = os.path.join(self.logs, name + ".agent.log")
            with open(log, "w") as f:
                process = subprocess.Popen(
                    [self.args.pulse, "agent", "--socket", path], stdin=subprocess.DEVNULL, stdout=f, stderr=f
                )
            try:
                end = time.time() + LIMIT
                while "agent: listening on" not in st.text_of(log):
                    if process.poll() is not None or time.time() > end:
                        raise Failure("the agent does not start; see " + log)
                    time.sleep(0.05)
                yield "pulse://" + path
                process.send_signal(signal.SIGTERM)
                status = process.wait(LIMIT)
                if status != 0:
                    raise Failure("the agent ended with status %d; see %s" % (status, log))
            finally:
                if process.poll() is None:
                    process.kill()
                    process.wait()

    def bench(self, name, external):
        db = os.path.join(self.tmp, name)
        command = [self.program("db_bench"), "--db=" + db] + st.flags(BENCH)
        old = ["--use_existing_db=true", "--reads=20000", "--benchmarks=" + READ]
        with self.agent(name, external) as uri:
            option = ["--fs_uri=" + uri]
            work = reached(self.run(name, command + option + ["--benchmarks=" + WRITE]), fetches=True)
            # By the environment alone, too, which depends on the signatures of DB::Open.
            if external:
                text = self.run(name + ".read", command + old, uri=uri)
                if db + " is on PulseDB" not in text:
                    raise Failure("PULSE_URI does not put the database on PulseDB")
            else:
                text = self.run(name + ".read", command + option + old)
            with_plugin = found(text)
        without = found(self.run(name + ".stock", command + old, plugin=False))
        if with_plugin != without:
            raise Failure("of the same keys %s are found with the plug-in, %s without it" % (with_plugin, without))
        self.damage_is_seen(name, db, command + old)
        shutil.rmtree(db)
        return work

    def damage_is_seen(self, name, db, command):
        """The verification above is worth nothing if it passes whatever is in the tables."""
        table = max(glob.glob(db + "/*.sst"), key=os.path.getsize)
        with open(table, "r+b") as f:
            f.seek(os.path.getsize(table) // 2)
            byte = f.read(1)[0]
            f.seek(-1, os.SEEK_CUR)
            f.write(bytes([byte ^ 1]))
        try:
            self.run(name + ".damaged", command, plugin=False)
        except Failure as e:
            if "Corruption" in str(e):
                return
            raise
        raise Failure("a damaged byte in the middle of a table is not noticed")

    def stress(self, name, external, setting):
        binary = self.program("db_stress")
        options, missing = st.options_for(st.known_flags(binary, os.environ), dict(st.STRESS[setting], **STRESS))
        if missing:
            raise Failure("db_stress has no option " + ", ".join(missing))
        db = os.path.join(self.tmp, name)
        os.makedirs(db + "/expected")
        options.update(db=db + "/db", expected_values_dir=db + "/expected", destroy_db_initially=1)
        with self.agent(name, external) as uri:
            work = reached(self.run(name, [binary] + st.flags(options) + ["--fs_uri=" + uri]))
        shutil.rmtree(db)
        return work


def reached(text, fetches=False):
    """What sessions say that they did. A program on another file system passes easily, and says nothing."""
    work = agent_work(text)
    if not work["outputs"]:
        raise Failure("nothing was written through the agent")
    if fetches and not work["fetched_mib"]:
        raise Failure("no compaction input was fetched by the agent")
    return work


def found(text):
    match = re.search(r"\((\d+ of \d+) found\)", text)
    if not match:
        raise Failure("db_bench does not say how many keys it found")
    return match.group(1)


CASES = {
    "bench_embedded": lambda suite, name: suite.bench(name, False),
    "bench_agent": lambda suite, name: suite.bench(name, True),
    "stress_plain": lambda suite, name: suite.stress(name, False, "plain"),
    "stress_atomic_flush_agent": lambda suite, name: suite.stress(name, True, "atomic_flush"),
    "stress_blob": lambda suite, name: suite.stress(name, False, "blob"),
    "stress_remote_compaction_agent": lambda suite, name: suite.stress(name, True, "remote_compaction"),
}


def main():
    p = argparse.ArgumentParser()
    p.add_argument("--programs", required=True)
    p.add_argument("--pulse", required=True)
    p.add_argument("--result", required=True)
    p.add_argument("cases", nargs="*", metavar="CASE", help="one of " + ", ".join(CASES))
    args = p.parse_args()
    unknown = [c for c in args.cases if c not in CASES]
    if unknown:
        p.error("no such case: %s (there are %s)" % (", ".join(unknown), ", ".join(CASES)))
    args.programs, args.pulse, args.result = map(os.path.abspath, (args.programs, args.pulse, args.result))
    suite = Suite(args)
    failed = 0
    for name in args.cases or CASES:
        began = time.time()
        try:
            work = CASES[name](suite, name)
            told = "%d outputs through the agent, %d MiB fetched" % (work["outputs"], work["fetched_mib"])
            oc.note("%s: passed in %.0f s: %s" % (name, time.time() - began, told))
        except Failure as e:
            failed += 1
            oc.note("%s: check failed: %s; see %s" % (name, e, suite.log))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
