"""db_stress, db_crashtest.py and a db_bench of RocksDB's Makefile on pulse://.

Each setting is one case. One that fails runs again on the default file system with the same
settings and the same seed.
"""

import glob
import os
import re
import shutil
import signal
import subprocess
import sys
import time

import outcomes as oc
from gtest_suite import agent_work

# Enough flushes and compactions in a minute on a slow machine: small tables, few keys.
SMALL = dict(
    max_key=100000,
    column_families=4,
    threads=8,
    ops_per_thread=50000,
    cache_size=64 << 10,  # compactions find nothing there, and read
    value_size_mult=32,
    write_buffer_size=256 << 10,
    target_file_size_base=256 << 10,
    max_bytes_for_level_base=1 << 20,
    level0_file_num_compaction_trigger=2,
    max_background_compactions=4,
    subcompactions=2,
    reopen=3,
    compression_type="none",
    clear_column_family_one_in=0,
    seed=1,
)

# For a db_stress that has them, as RocksDB 11's: by default it picks among the compression libraries of its
# build, which has none here, and crashes; and compacts in workers of its own, which not all settings allow.
WHERE_KNOWN = dict(compression_manager="none", remote_compaction_worker_threads=0)
# The name in some releases, and that in others.
ALSO_CALLED = {"get_live_files_one_in": "get_live_files_apis_one_in"}

# One in 2^31-1 writes: never. With any write faults db_stress puts the file system straight under
# the database; else a wrapped Env hides from it what a read or a write is for.
NEVER = (1 << 31) - 1

STRESS = {
    "plain": {},
    "direct": dict(use_direct_reads=1, use_direct_io_for_flush_and_compaction=1),
    "mmap_read": dict(mmap_read=1),
    "unwrapped": dict(write_fault_one_in=NEVER),
    "unwrapped_direct": dict(
        write_fault_one_in=NEVER, use_direct_reads=1, use_direct_io_for_flush_and_compaction=1
    ),
    "universal": dict(compaction_style=1),
    "blob": dict(
        enable_blob_files=1,
        min_blob_size=8,
        blob_file_size=1 << 20,
        enable_blob_garbage_collection=1,
        blob_garbage_collection_age_cutoff=0.75,
    ),
    "atomic_flush": dict(
        test_cf_consistency=1, atomic_flush=1, reopen=0, disable_wal=1
    ),
    "transactions": dict(use_txn=1, txn_write_policy=0),
    "files": dict(
        checkpoint_one_in=5000,
        backup_one_in=5000,
        ingest_external_file_one_in=5000,
        compact_files_one_in=5000,
        compact_range_one_in=5000,
        flush_one_in=2000,
        get_live_files_one_in=5000,
        verify_checksum_one_in=5000,
    ),
    "open_faults": dict(
        open_metadata_write_fault_one_in=8, open_write_fault_one_in=16, open_read_fault_one_in=32
    ),
    "sync_fault_injection": dict(sync_fault_injection=1, reopen=0),
    "remote_compaction": dict(remote_compaction_worker_threads=2),
}

# For db_crashtest.py. No compression, since the build has none; fewer keys than its 25 million, which
# are all verified after each kill.
CRASH = dict(
    max_key=100000,
    column_families=4,
    compression_type="none",
    bottommost_compression_type="none",
    wal_compression="none",
    blob_compression_type="none",
    allow_setting_blob_options_dynamically=0,  # would set compression, too
    threads=16,
)

# For db_bench: small tables, so that there are compactions to do.
BENCH = dict(
    num=100000,
    value_size=400,
    write_buffer_size=4 << 20,
    target_file_size_base=4 << 20,
    compression_type="none",
    seed=1,
)

# Runs db_crashtest.py with its random choices fixed, on both file systems the same.
SEEDED = "import random, runpy, sys; random.seed(int(sys.argv.pop(1))); sys.argv.pop(0); " \
         "runpy.run_path(sys.argv[0], run_name='__main__')"


def options_for(known, extra):
    """Those of a setting, for a db_stress with the options `known`; and what it lacks."""
    options = dict({k: v for k, v in WHERE_KNOWN.items() if k in known}, **SMALL)
    options.update({k if k in known else ALSO_CALLED.get(k, k): v for k, v in extra.items()})
    return options, [k for k in options if k not in known]


def flags(options):
    return ["--%s=%s" % (k, v) for k, v in options.items()]


def environment(ctx, log_level):
    env = {k: v for k, v in os.environ.items() if not k.startswith("TEST_")}
    env["LD_LIBRARY_PATH"] = ctx.build
    env["PULSE_LOG"] = log_level
    return env


def run_logged(command, env, cwd, log, limit):
    """Exit status (None: hung and killed) and seconds; output goes to the file `log`."""
    began = time.time()
    with open(log, "a") as f:
        f.write("$ %s\n" % " ".join(command))
        f.flush()
        process = subprocess.Popen(
            command, env=env, cwd=cwd, stdin=subprocess.DEVNULL, stdout=f, stderr=f,
            start_new_session=True,
        )
        try:
            status = process.wait(limit)
        except subprocess.TimeoutExpired:
            status = None
        try:
            os.killpg(process.pid, signal.SIGKILL)  # what it may have left running
        except ProcessLookupError:
            pass
        process.wait()
        f.write("[exit status %s]\n" % status)
    return status, time.time() - began


def text_of(log):
    with open(log, errors="replace") as f:
        return f.read()


COMPLAINT = re.compile(
    r"Assertion `|[Vv]erification failed|Corruption|IO error|Error in|^Error|mismatch|Unexpected"
)


def complaint(log, status):
    if status is None:
        return "hung: did not end in its time"
    # Its banner of settings speaks of errors and faults as well; what went wrong comes last.
    lines = [l.strip() for l in text_of(log).splitlines() if COMPLAINT.search(l)]
    how = "killed by signal %d" % -status if status < 0 else "exit status %d" % status
    return how + (": " + lines[-1][:300] if lines else "")


class StressSuite:
    """db_stress in each setting of STRESS."""

    def __init__(self, ctx):
        self.ctx = ctx
        self.program = "db_stress"
        self.logs = os.path.join(ctx.logs, "db_stress")

    def run(self):
        ctx = self.ctx
        binary = ctx.stress_binary()
        if binary is None:
            ctx.outcomes.add("stress", self.program, "(all)", oc.NOT_RUN, "db_stress did not build")
            return
        os.makedirs(self.logs, exist_ok=True)
        known = known_flags(binary, environment(ctx, "error"))
        for case, extra in STRESS.items():
            if ctx.outcomes.is_known("stress", self.program, case):
                continue
            reason = ctx.expected.reason(self.program, case)
            options, missing = options_for(known, extra)
            if missing:
                reason = "this db_stress has no option " + ", ".join(missing)
            if reason and (missing or not ctx.args.run_expected):
                ctx.outcomes.add("stress", self.program, case, oc.SKIPPED, reason)
                continue
            oc.note("db_stress %s" % case)
            status, seconds, log = self._once(binary, case, options, True)
            work = agent_work(text_of(log))
            if status == 0:
                # A run that does not get to the agent shows nothing.
                why = ""
                if not work["outputs"]:
                    why = "nothing was written through the agent"
                elif "write_fault_one_in" in extra and not work["fetched_mib"]:
                    why = "no compaction input was fetched by the agent"
                verdict = oc.FAILED if why else oc.PASSED
                ctx.outcomes.add("stress", self.program, case, verdict, why, seconds, **work)
                continue
            why = complaint(log, status)
            stock = self._once(binary, case, options, False)[0]
            verdict = oc.FAILED if stock == 0 else oc.UPSTREAM
            ctx.outcomes.add("stress", self.program, case, verdict, why, seconds, log=log)

    def _once(self, binary, case, options, on_pulse):
        ctx = self.ctx
        db = os.path.join(ctx.tmp, "db_stress." + case)
        shutil.rmtree(db, ignore_errors=True)
        os.makedirs(db + "/expected")
        log = os.path.join(self.logs, "%s.%s.log" % (case, "pulse" if on_pulse else "default"))
        if os.path.exists(log):
            os.remove(log)
        options = dict(
            options, db=db + "/db", expected_values_dir=db + "/expected", destroy_db_initially=1
        )
        command = [binary] + flags(options)
        if on_pulse:
            command.append("--fs_uri=" + ctx.args.uri)
        status, seconds = run_logged(
            command, environment(ctx, "info"), db, log, ctx.args.case_limit * 2
        )
        if status == 0:
            shutil.rmtree(db, ignore_errors=True)
        elif on_pulse:
            keep(db, os.path.join(self.logs, case + ".db"))
        return status, seconds, log


class CrashSuite:
    """db_crashtest.py, blackbox or whitebox."""

    def __init__(self, ctx, kind):
        self.ctx, self.kind = ctx, kind
        self.logs = os.path.join(ctx.logs, "crash")

    def run(self):
        ctx, program, case = self.ctx, "db_crashtest.py", self.kind
        if ctx.outcomes.is_known(self.kind, program, case):
            return
        binary = ctx.stress_binary()
        if binary is None:
            ctx.outcomes.add(self.kind, program, case, oc.NOT_RUN, "db_stress did not build")
            return
        os.makedirs(self.logs, exist_ok=True)
        oc.note("db_crashtest.py %s for %d minutes" % (self.kind, ctx.args.crash_minutes))
        status, seconds, log = self._once(binary, True)
        kills = count_kills(log)
        more = dict(kills=kills, seed=ctx.args.seed, log=log)
        if status == 0:
            verdict, why = oc.PASSED, "%d kills" % kills
            if kills == 0:
                verdict, why = oc.FAILED, "no db_stress was killed"
            ctx.outcomes.add(self.kind, program, case, verdict, why, seconds, **more)
            return
        why = "%s, after %d kills" % (complaint(log, status), kills)
        stock = self._once(binary, False)[0]
        verdict = oc.FAILED if stock == 0 else oc.UPSTREAM
        ctx.outcomes.add(self.kind, program, case, verdict, why, seconds, **more)

    def _once(self, binary, on_pulse):
        ctx = self.ctx
        tmp = os.path.join(ctx.tmp, self.kind)
        shutil.rmtree(tmp, ignore_errors=True)
        os.makedirs(tmp)
        log = os.path.join(self.logs, "%s.%s.log" % (self.kind, "pulse" if on_pulse else "default"))
        if os.path.exists(log):
            os.remove(log)
        known = known_flags(binary, environment(ctx, "error"))
        options = dict(CRASH)
        if "compression_manager" in known:
            options["compression_manager"] = WHERE_KNOWN["compression_manager"]
        options["duration"] = ctx.args.crash_minutes * 60
        if self.kind == "blackbox":
            options["interval"] = 20
        else:
            options.update(random_kill_odd=20011, ops_per_thread=1000, reopen=5)
        script = os.path.join(ctx.source, "tools/db_crashtest.py")
        command = [sys.executable, "-u", "-c", SEEDED, str(ctx.args.seed), script, self.kind]
        command += ["--stress_cmd=" + binary] + flags(options)
        if on_pulse:
            command.append("--fs_uri=" + ctx.args.uri)
        # Nothing but errors on standard error, where the script looks for them.
        env = dict(environment(ctx, "error"), TEST_TMPDIR=tmp)
        limit = ctx.args.crash_minutes * 60 + 1800
        status, seconds = run_logged(command, env, tmp, log, limit)
        if status == 0 and "Killing the run for running too long" in text_of(log):
            status = None
        if status == 0:
            status = crashed_signal(log)
        if status == 0:
            shutil.rmtree(tmp, ignore_errors=True)
        elif on_pulse:
            keep(tmp, os.path.join(self.logs, self.kind + ".db"))
        return status, seconds, log


class MakeSuite:
    """db_bench linked statically by RocksDB's Makefile, with the plug-in in-tree."""

    def __init__(self, ctx):
        self.ctx = ctx

    def run(self):
        ctx = self.ctx
        if ctx.outcomes.is_known("make", "db_bench", "fill, compact, read"):
            return
        logs = os.path.join(ctx.logs, "make")
        db = os.path.join(ctx.tmp, "make.db")
        os.makedirs(logs, exist_ok=True)
        os.makedirs(ctx.tmp, exist_ok=True)
        log = os.path.join(logs, "db_bench.log")
        if os.path.exists(log):
            os.remove(log)
        shutil.rmtree(db, ignore_errors=True)
        command = [os.path.join(ctx.result, "source_make", "db_bench")]
        command += ["--fs_uri=" + ctx.args.uri, "--db=" + db] + flags(BENCH)
        command += ["--benchmarks=fillrandom,overwrite,compact,verifychecksum,readrandom"]
        status, seconds = run_logged(
            command, environment(ctx, "info"), ctx.tmp, log, ctx.args.case_limit
        )
        work = agent_work(text_of(log))
        why = ""
        if status != 0:
            why = complaint(log, status)
        elif work["outputs"] == 0:
            why = "nothing was written through the agent"
        ctx.outcomes.add(
            "make",
            "db_bench",
            "fill, compact, read",
            oc.FAILED if why else oc.PASSED,
            why,
            seconds,
            **work,
        )
        shutil.rmtree(db, ignore_errors=True)


def crashed_signal(log):
    """db_crashtest.py takes any signal for its kill point's SIGTERM: a crash would go unseen."""
    for number in re.findall(r"kill option=\d+, exitcode=-(\d+)", text_of(log)):
        if int(number) not in (signal.SIGTERM, signal.SIGKILL):
            return -int(number)
    return 0


def count_kills(log):
    """Blackbox says KILLED, or TERMINATED for RocksDB 11's SIGTERM; whitebox's db_stress kills itself, and
    the exit status is negative."""
    text = text_of(log)
    return len(re.findall(r"^(?:KILLED|TERMINATED) \d+", text, re.M)) + len(
        re.findall(r"kill option=\d+, exitcode=-\d+", text)
    )


def known_flags(binary, env):
    text = subprocess.run(
        [binary, "--helpfull"], env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=60
    ).stdout.decode("utf-8", "replace")
    return set(re.findall(r"^ +-(\w+) \(", text, re.M))


def keep(directory, target):
    """A database that failed stays, for looking into; an older one goes."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.move(directory, target)


def find_db_stress(build):
    found = [p for p in glob.glob(os.path.join(build, "**", "db_stress"), recursive=True)
             if os.path.isfile(p) and os.access(p, os.X_OK)]
    return found[0] if found else None
