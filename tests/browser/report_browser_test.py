#!/usr/bin/env python3
"""Opens the report of `pulse bench paper` in a headless browser: light, dark and narrow.

usage: report_browser_test.py PULSE SCRATCH

The results it is made of are invented here, one file for each experiment, with what real ones may
have: zeros, nulls, missing figures, long names, an experiment that has not run. probe.js looks at the
page from inside. That it sees what it should is shown on a page that was spoilt on purpose. Ends with
77 where no browser is installed; PULSE_BROWSER names one. With PULSE_BROWSER_SHOTS=DIR it leaves
screenshots there.
"""
import html
import json
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path

SKIP = 77
HERE = Path(__file__).resolve().parent
BROWSERS = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable", "chrome")
# Windows are not made narrower than that; a frame in one is.
LEAST_WINDOW = 600
FRAME = """<!doctype html><html><body><script>
addEventListener('message', function (e) {{
  document.documentElement.setAttribute('data-probe', e.data);
}});
</script><iframe width="{width}" height="800" style="border: 0" src="{page}"></iframe></body></html>
"""
STOCK, BOTH, PULSE = "stock-default", "stock-2cpu", "pulse"


def fail(text):
    print("FAIL: " + text, file=sys.stderr)
    sys.exit(1)


def find_browser():
    named = os.environ.get("PULSE_BROWSER")
    if named:
        path = shutil.which(named)
        if path is None:
            fail(f"PULSE_BROWSER={named} is no program")
        return path
    for name in BROWSERS:
        path = shutil.which(name)
        if path is not None:
            return path
    return None


def run_of(variant, pair, speed, **more):
    factor = 1 + 0.04 * (pair - 2)
    figures = {
        "variant": variant, "pair": pair, "ops_per_s": speed * factor, "mean_us": 1e6 / speed,
        "p50_us": 4.0, "p99_us": 3e5 / speed * 9, "p99.9_us": 3e7 / speed, "p99.99_us": 3e8 / speed,
        "max_us": 2e9 / speed, "stall_share": max(0.0, 0.5 - speed / 4e5),
        "compaction_mib_per_s": speed / 300 * factor, "host_cpu_s_per_gib": 3e5 / speed,
        "host_cpu_s": 12.5, "agent_cpu_s": 0.0 if variant.startswith("stock") else 1.25,
    }
    figures.update(more)
    return figures


def rows_of(labels, speeds):
    rows = []
    for i, label in enumerate(labels):
        runs = [run_of(name, pair, speed / (1 + i / 3))
                for pair in (1, 2, 3) for name, speed in speeds.items()]
        rows.append({"label": label, "runs": runs})
    return rows


def footprint():
    rows = []
    for n in (1, 2, 4):
        runs = []
        for pair in (1, 2):
            runs.append({"variant": STOCK, "pair": pair, "host_idle_rss_mib": 17,
                         "host_rss_mib": 300 + pair, "host_private_mib": 280})
            runs.append({"variant": PULSE, "pair": pair, "host_idle_rss_mib": 18,
                         "host_rss_mib": 400 + 33 * n, "host_private_mib": 290,
                         "agent_idle_rss_mib": 20, "agent_rss_mib": 90 + 33 * n,
                         "agent_private_mib": 9, "queues": n + 1, "queue_mib": 33 * (n + 1),
                         "mib_per_queue": 33, "fetch_mib": 65, "shared_mib": 65 + 33 * (n + 1)})
        rows.append({"label": f"{n} compaction" + ("s" if n > 1 else ""), "runs": runs})
    return rows


NOT_RUN = ["overwrite", "dcomp-bf2", "dcomp-bf3", "shift", "emulation", "remote-serve"]
REMOTE = ["remote-blocks", "remote-director"]


def part_of(variants, **more):
    runs = []
    for pair in (1, 2):
        for i, name in enumerate(variants):
            runs.append({"variant": name, "pair": pair, "turn": i + 1, **{
                metric: value * (1 + 0.1 * i + 0.02 * pair) for metric, value in more.items()}})
    return {"variants": {}, "runs": runs}


def remote_results():
    blocks = ["os-io_uring", "os-threads", "library", "forwarded", "offloaded", "offloaded-copying"]
    fronts = [f"{form}-{net}" for form in ("direct", "forward", "splice")
              for net in ("epoll", "io_uring")]
    reads = {"ops_per_s": 75e3, "reads_p50_us": 410.0, "reads_p99_us": 1300.0, "agent_us": 12.0}
    return {
        "blocks": {
            "reads": part_of(blocks, host_us=5.7, **reads),
            "timed": part_of(blocks[::2], host_us=0.002, **reads),
            "writes": part_of(blocks[:3], ops_per_s=1.3e5, writes_p50_us=90.0, host_us=8.0),
            "a part of another name": part_of(blocks[:1], host_us=0.0, **reads),
        },
        "director": {
            "latency": part_of(fronts, messages_per_s=2e4, p50_us=31.0, p99_us=77.0, loop_us=9.0),
            "stream": part_of(fronts[2:], gbit_per_s=11.0, gbit_per_cpu_s=17.0, loop_share=0.7),
            "idle": part_of(fronts, resident_mib=41.0, bytes_each=4300),
        },
    }


def write_remote(out):
    ratio = {"median": 0.0004, "min": 0.0003, "max": 0.0005, "count": 2, "verdict": "held",
             "ratio": "host CPU per read, offloaded / forwarded", "target": "at most 0.02"}
    for name, parts in remote_results().items():
        result = {"benchmark": name, "parts": parts, "ratios": [ratio], "pulse_version": "test",
                  "machine": {"cpu": "Another processor", "cpus": 2, "file_system": "ext4"},
                  "settings": {"pairs": 2, "warm_ups": 1, "host_cpus": "0", "agent_cpus": "1"}}
        (out / f"{name}.json").write_text(json.dumps(result))
    (out / "serve.json").write_text('{"benchmark": "serve", "par')


def results():
    three = {STOCK: 94000.0, BOTH: 130000.0, PULSE: 151000.0}
    fill = rows_of(["128 B", "256 B", "512 B", "1024 B", "2048 B"], three)
    fill[4]["runs"] = [r for r in fill[4]["runs"] if r["variant"] != BOTH]
    for run in fill[0]["runs"]:
        run["compaction_mib_per_s"] = None
    tails = rows_of(["1024 B"], three)
    for run in tails[0]["runs"]:
        if run["variant"] == PULSE:
            run["stall_share"] = 0
    ablation = {STOCK: 94000.0, "pulse-on-host": 1.2e5, BOTH: 1.3e5, PULSE: 1.5e5, "pulse-pool": 1.6e5}
    engines = {PULSE: 1.5e5, "pulse-poll": 1.6e5, "pulse-libaio": 1.3e5, "pulse-threads": 1.1e5}
    queue = {f"pulse-{m}M": 1.5e5 - 40 * m for m in (32, 64, 128, 256, 512)}
    return {
        "fillrandom": fill, "tails": tails, "footprint": footprint(),
        "ycsb": rows_of(["load", "A", "B", "C", "D", "E", "F"], three),
        "ablation": rows_of(["1024 B"], ablation), "engines": rows_of(["1024 B"], engines),
        "queue": rows_of(["1024 B"], queue),
    }


def write_results(out):
    shape = {"memtable_bytes": 64 << 20, "level1_bytes": 256 << 20, "background_jobs": 4,
             "block_cache_bytes": 50 << 20}
    for name, rows in results().items():
        result = {
            "benchmark": "paper", "experiment": name, "rows": rows, "pulse_version": "test",
            "machine": {"cpu": "An invented processor with <a long name> & more", "cpus": 2,
                        "memory_bytes": 24 << 30, "kernel": "6.0", "rocksdb": "7.8.3",
                        "file_system": "ext4"},
            "settings": {"scale": 0.025, "pairs": 3, "warm_ups": 1, "threads": 10, "tiny": False,
                         "host_cpus": "0", "agent_cpus": "1", "uri_options": "",
                         "environment_options": "engine=" + "long" * 40,
                         "points": [{"num": 961538, "value_bytes": 1024, "shape": shape}]},
            "finished": "2020-01-01T00:00:00Z", "page_cache": "drop_caches",
        }
        (out / f"{name}.json").write_text(json.dumps(result))


class Browser:
    def __init__(self, program, scratch):
        self.program = program
        self.scratch = scratch

    def command(self, width, dark):
        return [self.program, "--headless", "--no-sandbox", "--disable-gpu", "--no-first-run",
                "--disable-dev-shm-usage", "--hide-scrollbars", "--enable-logging=stderr", "--v=0",
                f"--user-data-dir={self.scratch}/profile", "--host-resolver-rules=MAP * ~NOTFOUND",
                f"--window-size={width},900",
                # 0: the reader prefers dark colours; 1: light ones.
                f"--blink-settings=preferredColorScheme={0 if dark else 1}"]

    def probe(self, page, width, dark):
        """What probe.js says of `page`, with what the browser says on its console."""
        probed = self.scratch / "probed.html"
        script = "<script>\n" + (HERE / "probe.js").read_text() + "</script>\n"
        # A replacement function, since the script is no pattern.
        text, count = re.subn("<head>", lambda m: m.group(0) + script, page, count=1)
        if count != 1:
            fail("the report has no <head>")
        probed.write_text(text)
        shown = probed
        if width < LEAST_WINDOW:
            shown = self.scratch / "frame.html"
            shown.write_text(FRAME.format(width=width, page=probed.as_uri()))
        done = subprocess.run(self.command(max(width, LEAST_WINDOW), dark)
                              + ["--virtual-time-budget=10000", "--dump-dom", shown.as_uri()],
                              capture_output=True, text=True, timeout=120, check=False)
        found = re.search(r'data-probe="([^"]*)"', done.stdout)
        if found is None:
            fail(f"{self.program} did not run the page (exit status {done.returncode}):\n"
                 + done.stderr[-2000:])
        answer = json.loads(html.unescape(found.group(1)))
        console = [line for line in done.stderr.splitlines() if "CONSOLE" in line]
        answer["problems"] += ["console: " + line for line in console]
        return answer

    def shoot(self, page, width, height, dark, file):
        command = [c for c in self.command(width, dark) if not c.startswith("--window-size")]
        subprocess.run(command + [f"--window-size={width},{height}", f"--screenshot={file}",
                                  page.as_uri()], capture_output=True, timeout=120, check=True)


def spoil(page):
    """The same page with one defect of each kind that the probe looks for."""
    page = page.replace("<main", '<img src="http://127.0.0.1:9/x.png"><div style="width:3000px">x'
                        '</div><a href="#nowhere">x</a><script>throw new Error("spoilt")</script>'
                        "<main", 1)
    page = page.replace('class="mark"', 'class="gone"', 3)  # of the first group
    return re.sub(r'(<svg[^>]*class="chart".*?)</svg>',
                  lambda m: m.group(1).replace('class="mark"', 'class="gone"')
                  + '<text x="740" y="40">far outside</text></svg>', page, count=1, flags=re.S)


def main():
    if len(sys.argv) != 3:
        fail("usage: report_browser_test.py PULSE SCRATCH")
    pulse, scratch = sys.argv[1], Path(sys.argv[2]).resolve()
    program = find_browser()
    if program is None:
        print("SKIPPED: no browser; make browser-test installs one, PULSE_BROWSER names one")
        return SKIP
    shutil.rmtree(scratch, ignore_errors=True)
    out = scratch / "out"
    out.mkdir(parents=True)
    write_results(out)
    write_remote(out)
    subprocess.run([pulse, "bench", "paper", "--out", str(out), "--report-only"], check=True,
                   stdout=subprocess.DEVNULL)
    report = out / "report.html"
    page = report.read_text()
    browser = Browser(program, scratch)

    charts = page.count("<svg")
    wanted = sorted(list(results()) + NOT_RUN + REMOTE + ["targets"])
    for width, dark in ((1200, False), (1200, True), (400, False), (320, True)):
        answer = browser.probe(page, width, dark)
        facts, name = answer["facts"], f"{width} px wide, {'dark' if dark else 'light'}"
        if answer["problems"]:
            fail(f"{name}:\n  " + "\n  ".join(answer["problems"]))
        if facts["width"] != width or facts["dark"] != dark:
            fail(f"{name}: the browser shows something else: {facts}")
        if sorted(facts["sections"]) != wanted:
            fail(f"{name}: the sections are {facts['sections']}, not {wanted}")
        if facts["highlights"] != 2:
            fail(f"{name}: {facts['highlights']} charts at the top, not one for each of two papers")
        if facts["charts"] != charts or charts < 18:
            fail(f"{name}: {facts['charts']} charts where {charts} are in the file")
        print(f"-- {name}: {charts} charts, {facts['marks']} marks")

    spoilt = "\n".join(browser.probe(spoil(page), 1200, False)["problems"])
    for kind in ("network: ", "overflow: ", "link: ", "script: ", "console: ", "no mark to see",
                 "cuts off"):
        if kind not in spoilt:
            fail(f"a spoilt page has passed the check of \"{kind}\"; seen were:\n{spoilt}")
    print("-- a spoilt page is told from a good one")

    shots = os.environ.get("PULSE_BROWSER_SHOTS")
    if shots:
        Path(shots).mkdir(parents=True, exist_ok=True)
        for name, width, height, dark in (("light", 1200, 9000, False), ("dark", 1200, 9000, True),
                                          ("narrow", 500, 9000, False)):
            browser.shoot(report, width, height, dark, Path(shots).resolve() / f"{name}.png")
    shutil.rmtree(scratch, ignore_errors=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
