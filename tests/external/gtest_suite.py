"""Runs GoogleTest programs case by case on pulse://, and failed cases on the default file system.

A program is started with a few hundred cases at a time. One that crashes or hangs ends its program;
the case counts as failed and the rest go on in a new one.
"""

import os
import re
import select
import shutil
import signal
import subprocess
import time

import outcomes as oc

CASES_PER_RUN = 200
FILTER_BYTES = 60000  # one argument may have 128 KiB

CLOSED = re.compile(r"session closed: (\d+) files.* (\d+) MiB fetched")


def agent_work(text):
    """What the plug-in's log lines say went through agents."""
    lines = CLOSED.findall(text)
    return dict(outputs=sum(int(l[0]) for l in lines), fetched_mib=sum(int(l[1]) for l in lines))


class Run:
    """What one program said."""

    def __init__(self):
        self.status = {}  # case -> "ok", "failed", "skipped", "crashed", "hung"
        self.why = {}
        self.text = {}
        self.seconds = {}
        self.outputs = 0
        self.sessions = 0
        self.end = ""  # how the program ended, if not well


def environment(ctx, program, on_pulse, tmp):
    env = {k: v for k, v in os.environ.items() if not k.startswith(("TEST_", "GTEST_"))}
    env["LD_LIBRARY_PATH"] = ctx.build
    env["TEST_TMPDIR"] = tmp
    if on_pulse:
        env["PULSE_LOG"] = "info"  # sessions say how many files they wrote
        env.update(ctx.test_environment(program))
    return env


def list_cases(binary, env, only):
    command = [binary, "--gtest_list_tests"] + (["--gtest_filter=" + only] if only else [])
    text = subprocess.run(
        command, env=env, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, timeout=300, check=True
    ).stdout.decode("utf-8", "replace")
    cases, group = [], ""
    for line in text.splitlines():
        name = line.split("#")[0].rstrip()
        if re.match(r"^[A-Za-z_]\S*\.$", name):
            group = name
        elif name.startswith("  ") and group:
            case = group + name.strip()
            if "DISABLED_" not in case:
                cases.append(case)
    return cases


def _read_lines(process, case_limit, deadline):
    """Yields lines; ends with None if nothing was heard for too long or the time was up."""
    buffer = b""
    fd = process.stdout.fileno()
    while True:
        wait = min(case_limit, deadline - time.time())
        ready = select.select([fd], [], [], max(wait, 0))[0]
        if not ready:
            yield None
            return
        data = os.read(fd, 65536)
        if not data:
            if buffer:
                yield buffer.decode("utf-8", "replace")
            return
        *lines, buffer = (buffer + data).split(b"\n")
        for line in lines:
            yield line.decode("utf-8", "replace")


def run_program(binary, cases, env, tmp, case_limit, deadline, log):
    """One process, the given cases."""
    run = Run()
    shutil.rmtree(tmp, ignore_errors=True)
    os.makedirs(tmp)
    process = subprocess.Popen(
        [binary, "--gtest_color=no", "--gtest_filter=" + ":".join(cases)],
        env=env,
        cwd=tmp,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    )
    current, began, lines = None, 0.0, []
    hung = False

    def finish(status, why=""):
        run.status[current] = status
        run.seconds[current] = time.time() - began
        run.text[current] = "\n".join(lines)
        run.why[current] = why

    for line in _read_lines(process, case_limit, deadline):
        if line is None:
            hung = True
            break
        log.write(line + "\n")
        closed = CLOSED.search(line)
        if closed:
            run.outputs += int(closed.group(1))
            run.sessions += 1
        # What the test printed without a newline stands before the mark.
        start = re.search(r"\[ RUN      \] (\S+)$", line)
        if start:
            current, began, lines = start.group(1), time.time(), []
            continue
        if current is None:
            continue
        end = re.search(r"\[( +OK |  FAILED  )\] " + re.escape(current) + r"(,| \(|$)", line)
        if not end:
            lines.append(line)
            continue
        skipped = [l for l in lines if "SKIPPED: " in l]
        if "FAILED" in end.group(1):
            finish("failed", first_failure(lines))
        elif skipped:
            finish("skipped", skipped[0].split("SKIPPED: ", 1)[1])
        else:
            finish("ok")
        current = None
    if hung:
        os.killpg(process.pid, signal.SIGKILL)
    process.stdout.close()
    code = process.wait()
    if hung:
        run.end = "time up" if time.time() >= deadline else "hung"
    elif code < 0:
        run.end = "killed by " + signal.Signals(-code).name
    elif code not in (0, 1):
        run.end = "exit status %d" % code
    if current is not None and run.end != "time up":
        why = "no output for %d s" % case_limit if hung else (run.end or "ended inside the case")
        finish("hung" if hung else "crashed", why + tail_of(lines))
    elif run.end not in ("", "time up"):
        run.end += " after its last case"
    shutil.rmtree(tmp, ignore_errors=True)
    return run


def tail_of(lines):
    for line in reversed(lines):
        if "Assertion" in line or "ERROR: " in line:
            return ": " + line.strip()[:300]
    return ""


def first_failure(lines):
    lines = [l for l in lines if " pulsedb " not in l]
    for i, line in enumerate(lines):
        if re.search(r": Failure$", line):
            place = os.path.basename(line.split(": Failure")[0])
            return " ".join([place] + [l.strip() for l in lines[i + 1 : i + 6]])[:400]
    return "no message"


def in_runs(cases):
    chunk, size = [], 0
    for case in cases:
        if chunk and (len(chunk) >= CASES_PER_RUN or size + len(case) > FILTER_BYTES):
            yield chunk
            chunk, size = [], 0
        chunk.append(case)
        size += len(case) + 1
    if chunk:
        yield chunk


def stock_name(case):
    return case.replace("CustomEnv/", "EnvDefault/", 1)


class GtestSuite:
    def __init__(self, ctx, suite, program, only=""):
        self.ctx, self.suite, self.program, self.only = ctx, suite, program, only
        self.binary = ctx.binary(program)
        self.tmp = os.path.join(ctx.tmp, program)
        self.logs = os.path.join(ctx.logs, program)
        self.sessions = 0

    def add(self, case, status, *args, **more):
        self.ctx.outcomes.add(self.suite, self.program, case, status, *args, **more)

    def run(self):
        if not os.path.exists(self.binary):
            self.add("(all)", oc.NOT_RUN, "did not build; see build.log")
            return
        os.makedirs(self.logs, exist_ok=True)
        os.makedirs(self.tmp, exist_ok=True)
        env = environment(self.ctx, self.program, True, self.tmp)
        try:
            cases = list_cases(self.binary, env, self.only)
        except (subprocess.SubprocessError, OSError) as e:
            self.add("(all)", oc.FAILED, "does not list its cases: %s" % e)
            return
        todo = []
        for case in cases:
            reason = self.ctx.expected.reason(self.program, case)
            if self.ctx.outcomes.is_known(self.suite, self.program, case):
                continue
            if reason and not self.ctx.args.run_expected:
                self.add(case, oc.SKIPPED, reason)
            else:
                todo.append(case)
        oc.note("%s: %d cases, %d to run" % (self.program, len(cases), len(todo)))
        deadline = time.time() + self.ctx.args.limit
        with open(os.path.join(self.logs, "all.log"), "a") as log:
            for chunk in in_runs(todo):
                self._run_chunk(chunk, env, deadline, log)
        # RocksDB takes its default file system, without a word, for a URI that it does not know.
        if todo and self.sessions == 0:
            self.add("(all)", oc.FAILED, "never opened %s" % self.ctx.args.uri)
        oc.note("%s: done" % self.program)

    def _run_chunk(self, chunk, env, deadline, log):
        left = list(chunk)
        while left:
            if time.time() >= deadline:
                for case in left:
                    self.add(case, oc.NOT_RUN, "the program's time (--limit) was up")
                return
            run = run_program(
                self.binary, left, env, self.tmp, self.ctx.args.case_limit, deadline, log
            )
            log.flush()
            self.sessions += run.sessions
            outputs = run.outputs
            for case, status in run.status.items():
                seconds = run.seconds[case]
                if status == "ok":
                    self.add(case, oc.PASSED, "", seconds, outputs=outputs)
                    outputs = 0  # of all cases of the run, told once
                elif status == "skipped":
                    self.add(case, oc.SKIPPED, "the test says: " + run.why[case], seconds)
                else:
                    self._judge(case, run, log)
            before = len(left)
            left = [c for c in left if c not in run.status]
            if run.end.endswith("after its last case"):
                self.add("(end of the program)", oc.FAILED, run.end)
            if len(left) == before and run.end != "time up":
                for case in left:
                    self.add(case, oc.NOT_RUN, "the program does not run it: " + (run.end or "?"))
                return

    def _judge(self, case, run, log):
        """A failed case: is it us?"""
        self._keep(case, "pulse.log", case, run)
        first, seconds = run.why[case], run.seconds[case]
        tries = self.ctx.args.retries
        stock = self._again(case, tries, False, log)
        if stock:
            self.add(
                case, oc.UPSTREAM, "%d of %d on the default, too: %s" % (stock, tries, first), seconds
            )
            return
        again = self._again(case, tries, True, log)
        if again == 0 and self._fails_in_company(case, run, log):
            self.add(
                case, oc.UPSTREAM, "on the default, too, after the cases before it: " + first, seconds
            )
            return
        self.add(
            case,
            oc.FAILED,
            "%d of %d runs: %s" % (again + 1, tries + 1, first),
            seconds,
            log=os.path.join(self.logs, safe(case) + ".pulse.log"),
        )

    def _fails_in_company(self, case, run, log):
        """Alone it passes. Does the default file system fail it after the same earlier cases?"""
        before = list(run.status)
        before = before[: before.index(case) + 1]
        tmp = self.tmp + ".stock"
        env = environment(self.ctx, self.program, False, tmp)
        limit = sum(run.seconds[c] for c in before) * 3 + self.ctx.args.case_limit
        names = [stock_name(c) for c in before]
        again = run_program(
            self.binary, names, env, tmp, self.ctx.args.case_limit, time.time() + limit, log
        )
        name = stock_name(case)
        if again.status.get(name) in ("ok", "skipped"):
            return False
        self._keep(case, "default.log", name, again)
        return name in again.status

    def _again(self, case, tries, on_pulse, log):
        """How many of `tries` runs fail."""
        failures = 0
        tmp = self.tmp + (".again" if on_pulse else ".stock")
        name = case if on_pulse else stock_name(case)
        env = environment(self.ctx, self.program, on_pulse, tmp)
        for _ in range(tries):
            limit = self.ctx.args.case_limit
            run = run_program(self.binary, [name], env, tmp, limit, time.time() + limit, log)
            if run.status.get(name) not in ("ok", "skipped"):
                failures += 1
                self._keep(case, "pulse-again.log" if on_pulse else "default.log", name, run)
        return failures

    def _keep(self, case, suffix, name, run):
        with open(os.path.join(self.logs, safe(case) + "." + suffix), "w") as f:
            f.write(run.text.get(name, "") + "\n" + run.end + "\n")


def safe(case):
    return re.sub(r"[^A-Za-z0-9_.-]", "_", case)
