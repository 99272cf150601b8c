"""Results as benchmarks leave them, invented."""
import json
import sys
import tempfile
import unittest
from pathlib import Path

sys.dont_write_bytecode = True
sys.path.insert(0, str(Path(__file__).resolve().parent.parent))

import build  # noqa: E402
import remote  # noqa: E402
import results  # noqa: E402

EVIL = "<script>alert('x')</script>|`*[&\x01"
STOCK, PULSE = "stock-default", "pulse"
PAPER = {"figures": ["Fig. 10"], "values": [
    {"what": "throughput", "where": "Fig. 10", "least": 1.22, "most": 1.82,
     "ours": {"metric": "ops_per_s", "of": PULSE, "over": STOCK}}]}


def aim(experiment="fillrandom", kind="at least", value=1.6, metric="ops_per_s", of=PULSE, over=STOCK,
        row="1024 B", points=False):
    return {"what": f"{metric} of {of}", "experiment": experiment, "row": row,
            "quantity": {"metric": metric, "of": of, "over": over, "points": points},
            "target": {"kind": kind, "value": value}, "needs": "a slower disk"}


def run(variant, pair, speed, **more):
    return {"variant": variant, "pair": pair, "ops_per_s": speed, "p99_us": 3.5,
            "stall_share": 0.25, "host_cpu_s": None, **more}


def rows(*labels):
    return [{"label": label, "runs": [run(STOCK, 1, 100), run(PULSE, 1, 150), run(STOCK, 2, 110),
                                      run(PULSE, 2, 220)]} for label in labels]


def paper_result(name, *labels):
    return {
        "benchmark": "paper", "experiment": name, "pulse_version": "1.2", "revision": "aaa",
        "finished": "2020-01-02T03:04:05Z", "rows": rows(*labels), "paper": PAPER,
        "machine": {"cpu": "quick", "cpus": 2, "memory_bytes": 1 << 30},
        "settings": {"scale": 0.1, "pairs": 2, "threads": 3, "tiny": False, "host_cpus": "0",
                     "agent_cpus": "1", "uri_options": "", "warm_ups": 1, "points": [
                         {"num": 1000, "value_bytes": 1024, "shape": {"memtable_bytes": 64 << 20}}]}}


def part(what, figures):
    """`figures`: a variant's speed and host CPU; the second pair has a twentieth more."""
    return {"runs": [{"variant": name, "pair": pair, "ops_per_s": speed * (1 if pair == 1 else 1.05),
                      "host_us": us, "agent_us": 7, f"{what}_p50_us": 400, f"{what}_p99_us": 900}
                     for name, (speed, us) in figures.items() for pair in (1, 2)]}


def blocks():
    return {
        "benchmark": "blocks", "pulse_version": "1.2", "revision": "aaa",
        "machine": {"cpu": "quick", "cpus": 2, "memory_bytes": 1 << 30},
        "settings": {"pairs": 2, "warm_ups": 1, "tiny": False, "block": 1024, "batch": 4,
                     "outstanding": 8, "connections": 4, "bytes": 512 << 20, "host_cpus": "0",
                     "agent_cpus": "1"},
        "parts": {
            "writes": part("writes", {"os-io_uring": (50000, 8), "library": (120000, 4)}),
            "a new part": part("reads", {"offloaded": (1234, 1)}),
            "reads": part("reads", {"os-io_uring": (80000, 5.7), "forwarded": (40000, 10),
                                    "offloaded": (74000, 0.002)})},
        "ratios": [{"ratio": "reads/s, offloaded / os-io_uring", "median": 0.93, "min": 0.92,
                    "max": 0.94, "count": 2, "target": "at least 1.8", "verdict": "missed"},
                   {"ratio": "reads/s, library / os-threads", "median": 1.2, "count": 2}]}


def soak():
    samples = [{"at_s": at, "seconds": 1, "ops_per_s": 100e3 + at, "worst_write_ms": 5.0,
                "bytes_persisted": 1 << 20, "bytes_inline": 0, "queued_bytes": 0,
                "queued_requests": 3, "host": {"rss_bytes": 300 << 20, "descriptors": 20},
                "agent": {"rss_bytes": 0 if at == 5 else 90 << 20, "descriptors": 9}}
               for at in range(1, 11)]
    return {"benchmark": "soak", "settings": {"threads": 4, "keys": 1000, "seed": 7},
            "samples": samples,
            "events": [{"kind": "kill", "begin_s": 2, "end_s": 4}, {"kind": "slow", "begin_s": 6}],
            "result": {"passed": True, "seconds": 10, "operations": 1e6, "keys_checked": 1000,
                       "mischief": {"kill": 1, "slow": 1}, "problems": [],
                       "trends": {"host memory": {"first_quarter": 1.0, "verdict": "flat"}}}}


def ring():
    def cell(rate):
        return {"progress": {"messages_per_s": {"median": rate}, "p50_us": {"median": 2.0}},
                "farm": {"messages_per_s": {"median": rate / 2}, "p50_us": {"median": 0}}}
    return {"benchmark": "ring", "figures": {"vmread": {"flood": {"1": cell(3e7), "64": cell(3e6)}}},
            "ratios": {"vmread": [{"ratio": "rate, progress / farm", "median": 2.0, "count": 2}]}}


class ReportTestCase(unittest.TestCase):
    """A directory of results, and the report of it."""

    def setUp(self):
        folder = tempfile.TemporaryDirectory()
        self.addCleanup(folder.cleanup)
        self.dir = Path(folder.name)

    def put(self, name, value):
        text = value if isinstance(value, str) else json.dumps(value)
        (self.dir / name).write_text(text, encoding="utf-8")

    def put_catalogue(self, *names, targets=(), optional=()):
        self.put("experiments.json", {"targets": list(targets), "experiments": [
            {"name": name, "title": f"About {name}", "paper": PAPER, "optional": name in optional}
            for name in names]})

    def load(self):
        return results.load(self.dir, remote.entries())

    def report(self):
        return build.build(self.load())

    def page(self, name):
        pages = {page.name: page for page in self.report().pages}
        self.assertIn(name, pages)
        return pages[name]

    def table(self, page, caption):
        return next(table for table in page.tables if caption in table.caption)

    def assertAnyHas(self, text, texts):
        self.assertTrue(any(text in one for one in texts), f"{text!r} in none of {texts}")

    def assertNoneHas(self, text, texts):
        self.assertFalse(any(text in one for one in texts), f"{text!r} in one of {texts}")
