"""The page of each experiment of the PulseDB paper: what was measured, its charts and tables."""
from figures import (ADAPTIVE, AGGRESSIVE, BOTH, DCOMP, HOST, POOL, PULSE, SPLIT, STOCK, WHOLE,
                     WITH_BACKLOG, Quantity, flag_in, format_figure, format_spread, is_whole_by_name,
                     lacks_whole, list_in, number_in, object_in, rows_of, text_in)
from model import Chart
from sections import LESS, MORE, Section
from targets import HELD, MISSED, NOT_CLEAR, Target

MIB = 1 << 20
FILL_COLUMNS = [
    ("operations/s", "ops_per_s", 1), ("... with the compaction backlog", WITH_BACKLOG, 1),
    ("p99, µs", "p99_us", 1), ("p99.9, µs", "p99.9_us", 1), ("stalled, %", "stall_share", 100),
    ("compaction, MiB/s", "compaction_mib_per_s", 1),
    ("host CPU of compactions, s per GiB", "compaction_cpu_s_per_gib", 1),
    ("compactions by the agent", "whole_compactions", 1), ("host CPU, s", "host_cpu_s", 1),
    ("agent CPU, s", "agent_cpu_s", 1)]
YCSB_COLUMNS = [
    ("operations/s", "ops_per_s", 1), ("read p99, µs", "read_p99_us", 1),
    ("write p99, µs", "write_p99_us", 1), ("scan p99, µs", "scan_p99_us", 1),
    ("stalled, %", "stall_share", 100), ("host CPU, s", "host_cpu_s", 1),
    ("agent CPU, s", "agent_cpu_s", 1), ("sorted runs at the beginning", "sorted_runs_before", 1)]


def _size(size):
    for limit, unit in ((1e9, "GB"), (1e6, "MB")):
        if size >= 0.9995 * limit:  # so that three digits never round to a thousand
            return f"{size / limit:.3g} {unit}"
    return f"{size / 1e3:.3g} kB"


def _scaling(settings):
    """How the run is to the paper's."""
    if flag_in(settings, "tiny"):
        text = "A tiny run of a few megabytes shows that all works: its figures mean nothing. "
    else:
        text = (f"{'A quick run at s' if flag_in(settings, 'quick') else 'S'}cale "
                f"{number_in(settings, 'scale'):.3g} of the paper's 40 GB and 20 million YCSB "
                "operations: ")
    if "size_bytes" in settings:
        return f"{text}{_size(number_in(settings, 'size_bytes'))} of keys and values in level 0."
    shape, points = object_in(settings, "shape"), list_in(settings, "points")
    value_bytes = number_in(settings, "value_bytes")
    if points:
        shape = object_in(points[0], "shape")
        size = number_in(points[0], "num") * (16 + number_in(points[0], "value_bytes"))
        text += f"{_size(size)} of keys and values for each run"
    elif "records" in settings:
        records = number_in(settings, "records")
        text += (f"{format_figure(records)} records of {value_bytes:g} B "
                 f"({_size(records * (16 + value_bytes))}), "
                 f"{format_figure(number_in(settings, 'operations'))} operations for each workload")
    jobs = [f"{number_in(object_in(p, 'shape'), 'background_jobs'):g}" for p in points] or [
        f"{number_in(shape, 'background_jobs'):g}"]
    threads, memtable = number_in(settings, "threads"), number_in(shape, "memtable_bytes")
    paper = ("the paper's, so that fewer levels fill than by 40 GB" if memtable == 64 * MIB
             else "not the paper's (64 MiB and 256 MiB)")
    return (f"{text}, by {threads:g} thread{'' if threads == 1 else 's'}. Keys of 16 B, no "
            f"compression, direct reads, memtables and tables of {memtable / MIB:g} MiB, level 1 of "
            f"{number_in(shape, 'level1_bytes') / MIB:g} MiB, "
            f"{jobs[0] if jobs[0] == jobs[-1] else f'{jobs[0]} to {jobs[-1]}'} background jobs, a "
            f"block cache of {number_in(shape, 'block_cache_bytes') / MIB:.3g} MiB; the block cache "
            f"is scaled with the data, memtables and levels are {paper}.")


def _throughput(section):
    section.absolute("Throughput", f"operations per second, {MORE}", "ops_per_s")


def _speeds(section, of_over, over="stock RocksDB", metric="ops_per_s", more=""):
    section.ratios(f"Throughput against {over}{more}", metric, of_over)


def _host_cpu(section, of_over):
    section.ratios("Host CPU of compactions for each GiB compacted", "compaction_cpu_s_per_gib",
                   of_over, more_is_better=False)


def _by_size(section):
    _throughput(section)
    _speeds(section, [(PULSE, STOCK), (PULSE, BOTH), (ADAPTIVE, STOCK)])
    section.ratios("Compaction throughput", "compaction_mib_per_s", [(PULSE, STOCK)])
    _host_cpu(section, [(PULSE, STOCK)])
    section.figures(FILL_COLUMNS)


def _fillrandom(section, _):
    _by_size(section)
    return ("Random writes into an empty database, as db_bench's fillrandom has them, by the size of "
            "the values. Stock RocksDB runs on the host's CPU, and as stock-2cpu on host's and "
            "agent's together.")


def _overwrite(section, _):
    _by_size(section)
    return ("Random writes into a copy of a database of the same size, which stock RocksDB has "
            "filled, by the size of the values.")


def _tails(section, _):
    section.by_metric(Chart("dots", "Latency of a write", f"microseconds, logarithmic, {LESS}",
                            logarithmic=True),
                      [("mean", "mean_us"), ("p99", "p99_us"), ("p99.9", "p99.9_us"),
                       ("p99.99", "p99.99_us"), ("max", "max_us")])
    section.by_row(Chart("dots", f"Latency of a write, {PULSE} ÷ {STOCK}",
                         "ratio over pairs; 1 = equal, below 1 is better", reference=1.0),
                   [(name, Quantity(f"{name}_us", PULSE, STOCK), 1.0)
                    for name in ("mean", "p99", "p99.9", "p99.99")])
    section.absolute("Time in which writes were held up", f"per cent of the run, {LESS}",
                     "stall_share", 100)
    section.figures(FILL_COLUMNS)
    return ("Random writes of 1 KiB, each timed, and the share of the run in which RocksDB delayed or "
            "stopped its writers. Writers are a closed loop.")


def _ycsb(section, settings):
    _throughput(section)
    _speeds(section, [(PULSE, STOCK), (PULSE, BOTH), (ADAPTIVE, STOCK)])
    section.figures(YCSB_COLUMNS)
    start = text_in(settings, "initial_database")
    return ("YCSB's core workloads: Load inserts, A reads and updates by halves, B reads with 5 % "
            "updates, C only reads, D reads the latest with 5 % inserts, E scans with 5 % inserts, F "
            "reads and reads, modifies, writes by halves. Every value read is checked. Sorted runs "
            "are the tables of level 0 and the other levels, which a scan has to merge."
            + (f" The database that A to F begin with: {start}." if start else ""))


def _ablation(section, _):
    pairs = [(name, STOCK) for name in ("pool-on-host", "pulse-on-host", PULSE, POOL, BOTH)]
    _throughput(section)
    _speeds(section, pairs)
    _host_cpu(section, pairs)
    section.figures(FILL_COLUMNS)
    return ("Random writes of 1 KiB with one part of PulseDB after the other: pool-on-host writes as "
            "stock RocksDB does, into a pool; pulse-on-host has the pipeline but no second processor; "
            "pulse has its agent on the other one; pulse-pool has its tables in a pool as well.")


def _engines(section, _):
    _throughput(section)
    _speeds(section, [(f"pulse-{name}", PULSE) for name in ("poll", "libaio", "threads")],
            over="io_uring")
    section.figures(FILL_COLUMNS)
    return ("The same random writes of 1 KiB with each of the agent's I/O engines: pulse is io_uring, "
            "pulse-poll io_uring that polls the device (where it can), then libaio, and threads with "
            "blocking calls.")


def _queue(section, _):
    sizes = [(name.split("-")[-1].removesuffix("M"), Quantity("ops_per_s", name))
             for name in section.variants]
    section.sweep(Chart("line", "Throughput by the size of the request queue",
                        f"operations per second, {MORE}",
                        group_title="MiB of queue for each output, doubling from point to point"),
                  sizes)
    _speeds(section, [(name, "pulse-32M") for name in section.variants if name != "pulse-32M"],
            over="the smallest queue")
    section.figures(FILL_COLUMNS)
    return ("Random writes of 1 KiB with request queues from 32 to 512 MiB between the merging host "
            "and the persisting agent.")


def _footprint(section, _):
    def chart(title, unit, shown):
        section.by_row(Chart("bars", title, f"{unit}, {LESS}"),
                       [(name, Quantity(metric, of), 1.0) for name, metric, of in shown])
    chart("Memory of the queues under load", "MiB that host and agent share, at the most",
          [("queues", "queue_mib", PULSE), ("queues and read-ahead", "shared_mib", PULSE)])
    chart("The process of the database under load", "MiB resident, with shared memory, at the most",
          [(STOCK, "host_rss_mib", STOCK), (PULSE, "host_rss_mib", PULSE)])
    chart("The agent's process", "MiB resident, with shared memory",
          [("under load", "agent_rss_mib", PULSE), ("idle", "agent_idle_rss_mib", PULSE)])
    section.figures([
        ("host idle, MiB", "host_idle_rss_mib", 1), ("host loaded, MiB", "host_rss_mib", 1),
        ("host, not shared, MiB", "host_private_mib", 1),
        ("agent idle, MiB", "agent_idle_rss_mib", 1), ("agent loaded, MiB", "agent_rss_mib", 1),
        ("agent, not shared, MiB", "agent_private_mib", 1), ("queues", "queues", 1),
        ("queues, MiB", "queue_mib", 1), ("MiB per queue", "mib_per_queue", 1),
        ("read-ahead, MiB", "fetch_mib", 1)])
    return ("Memory of PulseDB beside stock RocksDB, with so many compactions at a time: of the "
            "database's process and of the agent in a process of its own, opened and at rest, and at "
            "the most while the threads write. Queues and read-ahead are memory that both map; it "
            "counts as resident in both, and exists once. A flush and outputs that are being synced "
            "have queues too, so there can be more queues than compactions.")


def _dcomp(section, _):
    _throughput(section)
    pairs = [(name, STOCK) for name in (DCOMP, AGGRESSIVE, PULSE, ADAPTIVE)]
    _speeds(section, pairs)
    _speeds(section, pairs, metric=WITH_BACKLOG, more=", including the compaction backlog")
    _speeds(section, [(PULSE, DCOMP), (ADAPTIVE, DCOMP)], over="DComp")
    section.figures(FILL_COLUMNS)
    return ("Random writes with compactions in three places: all on the host (stock); whole ones on "
            "the agent when the host's slots are busy (dcomp) or always (aggressive); merged on the "
            "host and persisted by the agent (pulse); and the choice left to PulseDB (adaptive). "
            "Throughput including the compaction backlog counts the time until compactions rest.")


def _shift(section, _):
    _throughput(section)
    section.ratios("Throughput of the adaptive placement against the fixed ones", "ops_per_s",
                   [(ADAPTIVE, HOST), (ADAPTIVE, SPLIT), (ADAPTIVE, WHOLE)])
    section.figures(FILL_COLUMNS)
    return ("Random writes of 1 KiB in four phases, each of which ends when compactions rest: in the "
            "first and third a busy process shares the host's CPU, in the others three share the "
            "agent's. Compactions all on the host, merged there and persisted by the agent (split), "
            "all on the agent (whole), and the choice left to PulseDB.")


def _emulation(section, _):
    section.ratios("Speed of a whole compaction against the host's", "mib_per_s", [(WHOLE, STOCK)])
    section.figures([("MiB/s", "mib_per_s", 1), ("seconds", "wall_s", 1),
                     ("host CPU, s per GiB", "host_cpu_s_per_gib", 1),
                     ("agent CPU, s per GiB", "agent_cpu_s_per_gib", 1)])
    return ("Speed of the virtual DPU against its profile: one manual compaction of a frozen level 0 "
            "in values of 1 KiB, by stock RocksDB on the host and whole by an agent with one "
            "compaction at a time, by profile.")


_CONTENT = {"fillrandom": _fillrandom, "overwrite": _overwrite, "tails": _tails, "ycsb": _ycsb,
            "ablation": _ablation, "engines": _engines, "queue": _queue, "footprint": _footprint,
            "shift": _shift, "emulation": _emulation, "dcomp": _dcomp}


def _content_of(name):
    if name.startswith("overwrite-"):
        return _dcomp
    return _CONTENT.get(name) or _CONTENT.get(name.split("-")[0])


def _note_order(section):
    """Whether the paper's order holds over all pairs, row by row."""
    above = Target("above", 1)
    for row in section.rows:
        first, second = Quantity("ops_per_s", PULSE, DCOMP), Quantity("ops_per_s", DCOMP, STOCK)
        one, two = row.get(first), row.get(second)
        if not one or not two or lacks_whole(row, first):
            continue
        outcomes = (above.judge(one), above.judge(two))
        both = (MISSED if MISSED in outcomes else HELD if outcomes == (HELD, HELD) else NOT_CLEAR)
        section.page.notes.append(
            f"{row.label}: the paper's order, PulseDB before DComp before stock: {both} (PulseDB ÷ "
            f"DComp {format_spread(one)}, DComp ÷ stock {format_spread(two)}).")


def _note_whole(section):
    """Placements that were not what their name says."""
    for row in section.rows:
        for name in row.variants:
            runs, without = len(row.runs[name]), row.runs_without_whole(name)
            whole = is_whole_by_name(name)
            if without == 0 or not (whole or name == ADAPTIVE):
                continue
            section.page.notes.append(
                f"{row.label}, {name}: {'not measured: ' if whole else ''}no compaction ran whole in "
                f"{without} of {runs} runs"
                + ("; more data or smaller memtables would make some wait for it." if whole
                   else ", so that what it shows is another placement."))


def fill(entry, page):
    """Fills `page` with an experiment that has run."""
    settings = object_in(entry.result, "settings")
    section = Section(rows_of(entry.result), entry.paper, page)
    content = _content_of(entry.name)
    if content:
        what = content(section, settings)
    else:
        _throughput(section)
        section.figures(FILL_COLUMNS)
        what = f"{entry.title}."
    section.paper_table()
    if entry.name.startswith("dcomp-b") and not flag_in(settings, "tiny"):
        _note_order(section)
    _note_whole(section)
    if not section.rows:
        page.notes.append("The result has no rows.")
    page.statement = f"{what} {_scaling(settings)}"


USUAL = {"scale": 0.025, "threads": 10, "pairs": 5, "memtable_bytes": 0}
QUICK = {"scale": 0.005, "threads": 1, "pairs": 2, "memtable_bytes": 4 << 20}


def command_for(out, settings):
    """The command that makes results with these settings into `out`."""
    quick, tiny = flag_in(settings, "quick"), flag_in(settings, "tiny")
    usual = QUICK if quick else USUAL
    command = f"pulse bench paper --out {out}{' --tiny' if tiny else ''}{' --quick' if quick else ''}"
    for key in ("scale", "threads", "pairs", "memtable_bytes"):
        value = number_in(settings, key, usual[key])
        if value != usual[key] and not (tiny and key == "pairs"):
            option = key.removesuffix("_bytes")
            command += f" --{option} {value:.0f}" if value >= 1000 else f" --{option} {value:g}"
    values = [str(v) for v in list_in(settings, "value_sizes") if isinstance(v, int)]
    command += f" --value-sizes {','.join(values)}" if values else ""
    if number_in(settings, "seed", 1) != 1:
        command += f" --seed {number_in(settings, 'seed'):.0f}"
    for key, option, default in (("load", "--load", "own"), ("host_cpus", "--host-cpus", "0"),
                                 ("agent_cpus", "--agent-cpus", "1"), ("uri_options", "--uri", "")):
        value = text_in(settings, key, default)
        command += f" {option} '{value}'" if value != default else ""
    return command
