"""Outcomes of cases: what they are, where they are kept, how they are printed.

One line of JSON per case in RESULT_DIR/outcomes.jsonl, appended as soon as it is known, so that a
run that is cut off goes on where it ended. A later line for the same case replaces an earlier one.
"""

import collections
import hashlib
import json
import os
import threading
import time

PASSED = "passed"
FAILED = "failed"  # on pulse://, never on the default file system
UPSTREAM = "upstream"  # on both
SKIPPED = "skipped"  # with a reason: by the test, or by expected_VERSION.txt
NOT_RUN = "not run"  # the program's time was up, or it did not build

ORDER = [PASSED, FAILED, UPSTREAM, SKIPPED, NOT_RUN]


def note(text):
    print("[%s] %s" % (time.strftime("%H:%M:%S"), text), flush=True)


def fingerprint(pulse_root, *settings):
    """Of PulseDB's sources and the settings: results of different ones must not be mixed."""
    digest = hashlib.sha256("\n".join(settings).encode())
    for room in ("include", "src", "plugin"):
        for directory, subdirectories, files in os.walk(os.path.join(pulse_root, room)):
            subdirectories.sort()
            for name in sorted(files):
                path = os.path.join(directory, name)
                digest.update(os.path.relpath(path, pulse_root).encode())
                with open(path, "rb") as f:
                    digest.update(f.read())
    return digest.hexdigest()


class Outcomes:
    def __init__(self, path, print_now, forget):
        self._path = path
        self._lock = threading.Lock()
        self._by_key = {}
        if os.path.exists(path):
            try:
                with open(path + ".of") as f:
                    print_then = f.read()
            except OSError:
                print_then = ""
            if print_then != print_now:
                note("PulseDB or the settings have changed: all is run again")
                forget = True
            if forget:
                os.rename(path, path + ".old")
        with open(path + ".of", "w") as f:
            f.write(print_now)
        if os.path.exists(path):
            with open(path) as f:
                for line in f:
                    try:
                        o = json.loads(line)
                    except ValueError:
                        continue  # the last line of a run that was killed
                    self._by_key[(o["suite"], o["program"], o["case"])] = o

    def add(self, suite, program, case, status, reason="", seconds=0.0, **more):
        o = dict(
            suite=suite,
            program=program,
            case=case,
            status=status,
            reason=reason,
            seconds=round(seconds, 2),
            **more,
        )
        with self._lock:
            self._by_key[(suite, program, case)] = o
            with open(self._path, "a") as f:
                f.write(json.dumps(o) + "\n")
        if status in (FAILED, UPSTREAM):
            note("%s: %s %s: %s" % (status.upper(), program, case, reason))

    def is_known(self, suite, program, case):
        o = self._by_key.get((suite, program, case))
        return o is not None and o["status"] != NOT_RUN

    def all(self):
        with self._lock:
            return list(self._by_key.values())


def summary(outcomes):
    """[(suite, program, {status: count}, outputs persisted by the agent)], in order of first sight."""
    rows = collections.OrderedDict()
    for o in outcomes:
        counts = rows.setdefault((o["suite"], o["program"]), [collections.Counter(), 0])
        counts[0][o["status"]] += 1
        counts[1] += o.get("outputs", 0)
    return [(suite, program, c, n) for (suite, program), (c, n) in rows.items()]


def format_table(outcomes):
    lines = []
    head = "%-9s %-36s" % ("suite", "program") + "".join("%9s" % s for s in ORDER) + "%10s" % "outputs"
    lines += [head, "-" * len(head)]
    totals = collections.Counter()
    for suite, program, counts, outputs in summary(outcomes):
        totals.update(counts)
        cells = "".join("%9s" % (counts[s] or "-") for s in ORDER)
        lines.append("%-9s %-36s%s%10d" % (suite, program, cells, outputs))
    lines.append("-" * len(head))
    lines.append("%-9s %-36s" % ("", "all") + "".join("%9s" % (totals[s] or "-") for s in ORDER))
    for status in (FAILED, UPSTREAM, SKIPPED, NOT_RUN):
        some = [o for o in outcomes if o["status"] == status]
        if not some:
            continue
        lines += ["", status + ":"]
        if status in (FAILED, UPSTREAM):
            lines += ["  %s %s: %s" % (o["program"], o["case"], o["reason"]) for o in some]
            continue
        # Many cases share a reason.
        groups = collections.OrderedDict()
        for o in some:
            groups.setdefault((o["program"], o["reason"]), []).append(o["case"])
        for (program, reason), cases in groups.items():
            more = " and %d more" % (len(cases) - 1) if len(cases) > 1 else ""
            lines.append("  %s %s%s: %s" % (program, cases[0], more, reason))
    lines += ["", "outputs: table and blob files that went through the agent"]
    return "\n".join(lines)
