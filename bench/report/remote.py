"""The pages of remote storage: `pulse bench blocks`, `serve` and `director`, with the DDS paper's
figures beside ours (its sections 8 and 9). Their JSON has parts, each with every run; any part that is
there gets a table."""
from charts import colour_of
from figures import (FigureRow, format_figure, format_spread, is_number, list_in, number_in, object_in,
                     flag_in, text_in)
from model import Chart, Point, Series, Spread, Table, TargetRow
from results import Entry
from sections import LESS, MORE, Section
from targets import NOT_MEASURED

# Who comes so close to the best is held by the same, most likely.
NEAR_THE_BEST = 0.85

# In the order of the report; others come behind, by name. At a fixed rate, throughput says nothing.
PARTS = {
    "blocks": {"reads": "Reads, as fast as they go", "timed": "Reads at a fixed rate",
               "busy": "Reads, as fast as they go, beside a busy host",
               "busy-timed": "Reads at a fixed rate, beside a busy host",
               "writes": "Writes, as fast as they go",
               "busy-writes": "Writes, as fast as they go, beside a busy host"},
    "serve": {"get": "GET of what fits into the cache, one at a time",
              "get-pipelined": "GET of what fits into the cache, pipelined",
              "b": "YCSB-B on four times the cache, one at a time",
              "b-pipelined": "YCSB-B on four times the cache, pipelined",
              "busy-get": "GET of what fits into the cache, one at a time, beside a busy host",
              "busy-b": "YCSB-B on four times the cache, one at a time, beside a busy host"},
    "director": {"latency": "One message at a time", "stream": "Streams",
                 "idle": "Idle connections"}}
OPEN_LOOP = {"timed", "busy-timed"}

COLUMNS = [
    ("a second", "ops_per_s", 1), ("a second", "messages_per_s", 1), ("p50, µs", "p50_us", 1),
    ("p99, µs", "p99_us", 1), ("host CPU, µs each", "host_us", 1),
    ("agent CPU, µs each", "agent_us", 1), ("director's CPU, µs each", "loop_us", 1),
    ("host CPUs in use", "host_cpus", 1), ("agent CPUs in use", "agent_cpus", 1),
    ("answered by the agent, %", "offloaded_share", 100), ("Gbit/s", "gbit_per_s", 1),
    ("Gbit per CPU second", "gbit_per_cpu_s", 1), ("director's CPU busy, %", "loop_share", 100),
    ("MiB", "resident_mib", 1), ("bytes a connection", "bytes_each", 1)]


def _value(what, where, row, value, metric, of, over=""):
    return {"what": what, "where": where, "row": row, "value": value,
            "ours": {"metric": metric, "of": of, "over": over}}


ELSEWHERE = (
    "no DPU: the agent is a program on another CPU of this machine, as fast as the host's; the client "
    "is on the same machine, reaches the server over loopback and takes time from both CPUs; the "
    "kernel's TCP and io_uring instead of TLDK and SPDK. The paper has two machines with two 24-core "
    "CPUs each, 100 Gbit/s between them, and a BlueField-2 with three cores in use")

FIG13, FIG14, FIG20 = "section 8.2, Fig. 13a", "section 8.3, Fig. 14", "section 8.5, Fig. 20"
FIG21, FIG22 = "section 9.1, Fig. 21", "section 9.2, Fig. 22"
OS, LIB, OFF = "os-io_uring", "library", "offloaded"
PAPERS = {
    "blocks": {
        "figures": ["DDS Fig. 13", "Fig. 14", "Fig. 20"],
        "values": [
            _value("reads/s, files by the OS (Windows; here os-io_uring)", FIG13, "reads", 390e3,
                   "ops_per_s", OS),
            _value("host CPUs in use at that, files by the OS", FIG13, "reads", 10.7, "host_cpus", OS),
            _value("reads/s, files by the library", FIG13, "reads", 580e3, "ops_per_s", LIB),
            _value("host CPUs in use at that, files by the library", FIG13, "reads", 6.5, "host_cpus",
                   LIB),
            _value("reads/s, offloaded (no host CPU to speak of)", FIG13, "reads", 730e3, "ops_per_s",
                   OFF),
            _value("reads/s, library ÷ OS (580 by 390)", FIG13, "reads", 580 / 390, "ops_per_s", LIB,
                   OS),
            _value("reads/s, offloaded ÷ OS (730 by 390)", FIG13, "reads", 730 / 390, "ops_per_s", OFF,
                   OS),
            _value("latency of reads at the most, OS, µs (percentile not said; ours p99)", FIG14,
                   "reads", 11e3, "p99_us", OS),
            _value("latency of reads at the most, offloaded, µs (the same)", FIG14, "reads", 850,
                   "p99_us", OFF),
            _value("latency at the same throughput, library ÷ OS (6 times less; ours p99)", FIG14,
                   "timed", 1 / 6, "p99_us", LIB, OS),
            _value("writes/s, files by the OS", FIG14, "writes", 210e3, "ops_per_s", OS),
            _value("writes/s, files by the library", FIG14, "writes", 290e3, "ops_per_s", LIB),
            _value("p99 of these writes, OS, µs (the paper: tail)", FIG14, "writes", 48e3, "p99_us",
                   OS),
            _value("p99 of these writes, library, µs (the paper: tail)", FIG14, "writes", 3e3,
                   "p99_us", LIB),
            _value("reads/s, without a copy ÷ copying (730 by 520)", FIG20, "reads", 730 / 520,
                   "ops_per_s", OFF, "offloaded-copying"),
            _value("median latency, without a copy ÷ copying (260 by 310 µs)", FIG20, "reads",
                   260 / 310, "p50_us", OFF, "offloaded-copying")],
        "differs": f"{ELSEWHERE}; not a 1 TB NVMe SSD but a disk of this machine, whose limit these "
                   "notes name"},
    "serve": {
        "figures": ["DDS Fig. 21", "Fig. 22"],
        "values": [
            _value("reads/s, FASTER over TCP (here off)", FIG22, "get", 340e3, "ops_per_s", "off"),
            _value("host CPUs in use at that, without DDS", FIG22, "get", 20, "host_cpus", "off"),
            _value("reads/s, FASTER with DDS (here on)", FIG22, "get", 970e3, "ops_per_s", "on"),
            _value("host CPUs in use at that, with DDS", FIG22, "get", 0, "host_cpus", "on"),
            _value("reads/s, with DDS ÷ without (970 by 340)", FIG22, "get", 970 / 340, "ops_per_s",
                   "on", "off"),
            _value("p99 of its page server at 90 K pages/s without DDS, µs", FIG21, "pages", 4.4e3,
                   "p99_us", "off"),
            _value("p99 of its page server at 160 K pages/s with DDS, µs", FIG21, "pages", 1.3e3,
                   "p99_us", "on")],
        "differs": f"{ELSEWHERE}; RocksDB with keys of 16 B behind the Redis protocol instead of FASTER "
                   "with keys and values of 8 B, which has most of its data on disk where GET here has "
                   "it in the cache. The page server is not measured by this benchmark: pulse-pages "
                   "load is a load for it"},
    "director": {
        "figures": ["DDS Fig. 18"],
        "values": [
            _value("Gbit/s that one core directs (here spliced)", "section 8.5", "stream", 6.4,
                   "gbit_per_cpu_s", "splice")],
        "differs": f"{ELSEWHERE}. Its Fig. 18 has an echo that the DPU answers, 3 times faster by TLDK "
                   "than by Linux's TCP, which is slower there than the host's answer; here the host "
                   "answers, and the added latency is measured"}}
TITLES = {"blocks": "random block I/O", "serve": "Redis clients on a RocksDB",
          "director": "the director"}


def entries():
    """One for each benchmark, without a result."""
    return [Entry(f"remote-{name}", f"Remote storage: {title}", PAPERS[name])
            for name, title in TITLES.items()]


def benchmark_of(entry):
    return entry.name.removeprefix("remote-")


def _with_shared_names(run):
    """Latencies without "reads_", of writes where there are no reads; and the CPUs in use."""
    run = dict(run)
    for metric in ("p50_us", "p99_us"):
        for what in ("reads_", "writes_"):
            if metric not in run and is_number(run.get(what + metric)):
                run[metric] = run[what + metric]
    each_second = number_in(run, "ops_per_s")
    for who in ("host", "agent"):
        us = number_in(run, f"{who}_us", -1)
        if us >= 0 and each_second > 0:
            run[f"{who}_cpus"] = us * each_second / 1e6
    return run


def part_rows(result, benchmark):
    """A row for each part, labelled by its name."""
    parts = object_in(result, "parts")
    known = [name for name in PARTS.get(benchmark, {}) if name in parts]
    return [FigureRow({"label": name, "runs": [_with_shared_names(run)
                                               for run in list_in(parts[name], "runs")
                                               if isinstance(run, dict)]})
            for name in known + sorted(parts.keys() - set(known))]


def against_throughput(row, title):
    """Host CPU against throughput, as the DDS paper's figures 13 and 22 have it."""
    chart = Chart("against", f"{title}: host CPU against throughput",
                  f"host CPUs in use, from bottom to top, {LESS}", groups=[title],
                  group_title=f"requests a second, {MORE}")
    for name in row.variants:
        up, along = row.figure("host_cpus", name), row.figure("ops_per_s", name)
        if up and along:
            chart.series.append(Series(name, colour_of(name), [Point(up, across=along)]))
    return chart


def _latency(row, title):
    names = row.variants
    return Chart("dots", f"{title}: latency", f"microseconds, logarithmic, {LESS}", groups=names,
                 logarithmic=True, series=[
                     Series(label, colour, [Point(row.figure(f"{label}_us", n)) for n in names])
                     for label, colour in (("p50", 1), ("p99", 4))])


def _limit(row):
    """Who reached the most, and who came so close that a ratio of throughputs says little."""
    speeds = {name: row.figure("ops_per_s", name) for name in row.variants}
    speeds = {name: speed.median for name, speed in speeds.items() if speed}
    if not speeds:
        return []
    best = max(speeds, key=speeds.get)
    near = []
    for name, speed in speeds.items():
        if speed >= NEAR_THE_BEST * speeds[best]:
            cpu = row.figure("host_us", name)
            near.append(f"{name} {format_figure(speed)}"
                        + (f" for {format_figure(cpu.median)} µs" if cpu else ""))
    text = (f"Limit of this machine, {row.label}: nobody got past {format_figure(speeds[best])} a "
            f"second ({best}).")
    if len(near) > 1:
        text += (f" Within {100 * (1 - NEAR_THE_BEST):.0f} % of it, with their host CPU for each "
                 f"request: {'; '.join(near)}. The same thing is likely to hold them, such as the disk "
                 "or the client; then the ratio of their throughputs cannot show how they differ, and "
                 "the host's CPU can.")
    return [text]


def _fill_part(page, benchmark, row):
    title = PARTS.get(benchmark, {}).get(row.label, row.label)
    section = Section([row], {}, page)
    open_loop = row.label in OPEN_LOOP
    if row.label == "stream":
        before = len(page.charts)
        section.absolute(f"{title}: bytes that a CPU of the director passes on",
                         "Gbit per second of its CPU time; the line is the DDS paper's 6.4, "
                         f"{MORE}", "gbit_per_cpu_s")
        for chart in page.charts[before:]:
            chart.reference = 6.4
    elif row.label in ("latency", "b") or open_loop:
        section.add(_latency(row, title))
    # Pipelined loads have theirs in the tables; one alone is against nobody.
    if not row.label.endswith("-pipelined") and not open_loop:
        chart = against_throughput(row, title)
        if len(chart.series) > 1:
            section.add(chart)
    if not section.figures(COLUMNS, f"{title}: medians over pairs, with the least and the most"):
        page.notes.append(f"{title}: the file has no runs of this.")
    if not open_loop:
        page.notes += _limit(row)


def ratios_in(result):
    return [ratio for ratio in list_in(result, "ratios") if text_in(ratio, "ratio")]


def ratio_spread(ratio):
    median = number_in(ratio, "median")
    return Spread(median, number_in(ratio, "min", median), number_in(ratio, "max", median),
                  int(number_in(ratio, "count")))


def ratio_table(ratios):
    return Table("Compared over pairs: medians, with the least and the most",
                 ["", "asked", "got", "verdict"],
                 [[text_in(r, "ratio"), text_in(r, "target", "–"), format_spread(ratio_spread(r)),
                   text_in(r, "verdict", "–")] for r in ratios])


def target_rows(entry):
    """The ratios that have a target, as the benchmark has judged them."""
    rows = []
    tiny = flag_in(object_in(entry.result, "settings"), "tiny")
    for ratio in ratios_in(entry.result):
        if text_in(ratio, "target"):
            got = ratio_spread(ratio)
            rows.append(TargetRow(
                text_in(ratio, "ratio"), text_in(ratio, "target"), got,
                NOT_MEASURED if tiny else text_in(ratio, "verdict", "–"),
                "a tiny run shows nothing" if tiny else "", entry.name, got.count))
    return rows


def _load(benchmark, result):
    settings = object_in(result, "settings")

    def number(key):
        count = number_in(settings, key)
        return f"{count:g}" if count < 1000 else format_figure(count)

    busy = ""
    if number_in(settings, "neighbours") and any(
            name.startswith("busy") for name in object_in(result, "parts")):
        busy = (f" A busy host has {number('neighbours')} other processes on its CPUs, which compute "
                "and count for nobody.")
    if benchmark == "blocks":
        return (f"Random I/O on a file over the network, the DDS paper's own benchmark: requests of "
                f"{number('block')} B, {number('batch')} in a message, {number('outstanding')} messages "
                f"outstanding on each of {number('connections')} connections, a file of "
                f"{number_in(settings, 'bytes') / (1 << 20):.0f} MiB. os-*: network and files by the "
                "host; library: files by the agent; forwarded: that, behind the agent's director; "
                f"offloaded: reads by the agent alone.{busy}")
    if benchmark == "serve":
        return (f"Redis clients on a RocksDB of {number('records')} records with values of "
                f"{number('value_bytes')} B; {number('connections')} connections, pipelines of "
                f"{number('pipeline')}. off: the server alone; off-2cpu: with the agent's CPU too; "
                "forwarded: behind the agent's director, which passes all on; on: reads of clean keys "
                f"answered by the agent. Every value is checked, and its age.{busy}")
    return ("The cost of a director in front of a server that echoes: "
            f"direct: without it; forward: it looks at each message of {number('bytes')} B; spin: "
            f"that, and it looks for more for up to {number('spin_us')} us before it sleeps; splice: "
            f"it passes bytes through. {number('idle_connections')} idle connections.")


def fill(entry, page):
    """Fills `page` with a benchmark that has run."""
    benchmark = benchmark_of(entry)
    ratios = ratios_in(entry.result)
    if ratios:
        page.tables.append(ratio_table(ratios))
    rows = part_rows(entry.result, benchmark)
    for row in rows:
        _fill_part(page, benchmark, row)
    # At the end: what is ours first.
    Section(rows, entry.paper, page).paper_table("The DDS paper's figures beside ours")
    tiny = flag_in(object_in(entry.result, "settings"), "tiny")
    page.statement = ("A tiny run: its figures mean nothing. " if tiny else "") + _load(benchmark,
                                                                                         entry.result)
