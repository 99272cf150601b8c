"""How the report begins: for each paper that has results, one figure and one sentence. A new service
adds its paper to PAPERS."""
from charts import colour_of
from figures import (ADAPTIVE, BOTH, PULSE, STOCK, FigureRow, Quantity, flag_in, format_figure, list_in,
                     number_in, object_in, rows_of, summarize, text_in)
from model import Chart, Highlight, Point, Series
from remote import part_rows
from sections import LESS, MORE
from service_ratios import (AGENT, THREAD_OTHER, THREADS_SAME, agent_fell_back, auto_by_best, beside_row,
                            is_replayed, rows_in)


def _bars(title, unit, row, metric, factor=1.0):
    names = [name for name in row.variants if row.figure(metric, name)]
    return Chart("bars", title, unit, groups=names, colours=[colour_of(name) for name in names],
                 series=[Series("", 1, [Point(row.figure(metric, name).times(factor))
                                        for name in names])])


def _between(ratio):
    low, high = format_figure(ratio.low), format_figure(ratio.high)
    pairs = f"{ratio.count} pair{'' if ratio.count == 1 else 's'}"
    return pairs if low == high else f"{low} to {high} over {pairs}"


def _pulsedb(results):
    """Random writes; else whole compactions."""
    for name in ("fillrandom", "overwrite", "tails", "dcomp-none"):
        rows = rows_of(results.of(name))
        row = next((row for row in rows if row.label == "1024 B"), rows[-1] if rows else None)
        for who in (ADAPTIVE, PULSE):
            ratio = row and row.get(Quantity("ops_per_s", who, STOCK))
            if not ratio:
                continue
            chart = _bars(f"Random writes with values of {row.label}",
                          f"operations per second, {MORE}", row, "ops_per_s")
            how = "With adaptive placement, PulseDB" if who == ADAPTIVE else "PulseDB"
            sentence = (f"{how} makes {format_figure(ratio.median)} times the random writes of stock "
                        f"RocksDB on the host's CPU ({_between(ratio)})")
            both = row.get(Quantity("ops_per_s", who, BOTH))
            if both:
                sentence += (f", and {format_figure(both.median)} times those of stock RocksDB on the "
                             "host's and the agent's CPU together")
            return chart, sentence
    return _whole_compaction(results.of("compaction"))


def _whole_compaction(result):
    """Of `pulse bench compaction`."""
    sizes = [size for size in list_in(result, "value_sizes") if isinstance(size, dict)]
    if not sizes:
        return None
    size = next((s for s in sizes if s.get("value_bytes") == 1024), sizes[-1])
    row = FigureRow({"label": f"{size.get('value_bytes')} B", "runs": size.get("runs")})
    ratio = row.get(Quantity("wall_s", STOCK, PULSE))
    if not ratio:
        return None
    return (_bars(f"Compaction of level 0, values of {row.label}", f"seconds, {LESS}", row, "wall_s"),
            f"Stock RocksDB takes {format_figure(ratio.median)} times as long as PulseDB for one "
            f"compaction ({_between(ratio)})")


def _dds(results):
    """Host CPU of remote reads: of blocks, else of Redis GETs."""
    for benchmark, part, title, rivals, what in (
            ("blocks", "reads", "Remote reads of a file", ("os-io_uring", "os-threads"), "read"),
            ("serve", "get", "Redis GETs", ("off",), "GET")):
        rows = part_rows(results.of(f"remote-{benchmark}"), benchmark)
        row = next((row for row in rows if row.label == part), None)
        if row is None:
            continue
        ours = "offloaded" if benchmark == "blocks" else "on"
        rival = next((name for name in rivals if row.figure("host_us", name)), "")
        cpu = row.figure("host_us", ours)
        if not rival or not cpu:
            continue
        sentence = (f"The agent answers reads without the host: a {what} costs the host "
                    f"{format_figure(cpu.median)} µs of CPU, against "
                    f"{format_figure(row.figure('host_us', rival).median)} µs by {rival}")
        ratio = row.get(Quantity("ops_per_s", ours, rival))
        if ratio:
            sentence += (f", at {format_figure(ratio.median)} times its rate ({_between(ratio)})")
        return _bars(f"{title}: host CPU", f"µs for each {what}, {LESS}", row, "host_us"), sentence
    return None


def _kv(results):
    """Requests to the designs cpu and lat; else the engine alone."""
    parts = object_in(results.of("kv"), "parts")
    for part, what in (("network-C-uniform", "reads, uniform keys"),
                       ("network-B-uniform", "YCSB B, uniform keys"),
                       ("network-A-uniform", "YCSB A, uniform keys")):
        row = FigureRow({"label": part, "runs": list_in(object_in(parts, part), "runs")})
        ratio = row.get(Quantity("ops_per_s", "lat", "cpu"))
        if not ratio:
            continue
        sentence = (f"With its communication on the agent (lat), the in-memory store serves "
                    f"{format_figure(ratio.median)} times the requests of one CPU ({_between(ratio)})")
        both = row.get(Quantity("ops_per_s", "lat", "cpu-2"))
        if both:
            sentence += f", and {format_figure(both.median)} times those of both CPUs (cpu-2)"
        return (_bars(f"In-memory store: {what}", f"million requests/s, {MORE}", row, "ops_per_s", 1e-6),
                sentence)
    row = FigureRow({"label": "", "runs": list_in(object_in(parts, "engine-get"), "runs")})
    ratio = row.get(Quantity("ops_per_s", "batch", "hash-map"))
    if not ratio:
        return None
    return (_bars("In-memory store: GET in the process", f"million calls/s, {MORE}", row, "ops_per_s", 1e-6),
            f"In batches, the in-memory store's engine answers {format_figure(ratio.median)} times the "
            f"GETs of a hash map ({_between(ratio)})")


def _over_rows(medians):
    every = summarize(medians)
    return (f"{format_figure(every.median)} times the throughput of the best fixed one "
            f"({format_figure(every.low)} to {format_figure(every.high)} over {every.count} rows)")


def _ops(results):
    """auto against the best fixed split, over the rows of each operation."""
    result = results.of("ops")
    groups, measured, replayed = {}, [], []
    for row in rows_in(result, "offload"):
        got = auto_by_best(result, row)
        if got:
            kind = ", replayed" if is_replayed(row) else ""
            groups.setdefault(f"{text_in(row, 'operation')}, card {text_in(row, 'card')}{kind}",
                              []).append(got.median)
            (replayed if kind else measured).append(got.median)
    if not groups:
        return None
    sentence = (f"Operators that choose their split themselves reach {_over_rows(measured or replayed)}")
    if not measured:
        sentence += ", on cards that are replayed"
    elif replayed:
        sentence += f"; on cards that are replayed, {_over_rows(replayed)}"
    chart = Chart("dots", "Operators: auto ÷ the best fixed split",
                  "over hosts and settings; 1 = the best split", groups=list(groups), reference=1.0,
                  series=[Series("", 1, [Point(summarize(medians)) for medians in groups.values()])])
    return chart, sentence


def _graph(results):
    """p99 of transactions beside compactions."""
    result = results.of("graph")
    row = beside_row(result)
    ratio = row.get(Quantity("p99_us", AGENT, THREADS_SAME))
    if not ratio or agent_fell_back(result):
        return None
    names = {text_in(each, "key"): text_in(each, "compactions_by")
             for each in rows_in(object_in(result, "beside"), "rows")}
    sentence = (f"Beside compactions on the agent, the p99 of a graph's transactions is "
                f"{format_figure(ratio.median)} times that beside threads on the same CPU "
                f"({_between(ratio)})")
    other = row.get(Quantity("p99_us", AGENT, THREAD_OTHER))
    if other:
        sentence += (f", and {format_figure(other.median)} times that beside a thread on the agent's "
                     "CPU")
    chart = Chart("bars", "Graph: p99 of transactions, by who compacts", f"µs, {LESS}",
                  groups=[names.get(key, key) for key in row.variants],
                  colours=[colour_of(key) for key in row.variants],
                  series=[Series("", 1, [Point(row.figure("p99_us", key)) for key in row.variants])])
    return chart, sentence


# Name and what finds its chart and sentence; None where there is no result.
PAPERS = [("The PulseDB paper: compactions", _pulsedb), ("The DDS paper: remote storage", _dds),
          ("The DPU-KV paper: the in-memory store", _kv),
          ("The co-processing paper: operators", _ops), ("The DSA paper: graphs", _graph)]


def highlights(results):
    found = []
    for paper, find in PAPERS:
        answer = find(results)
        if answer:
            chart, sentence = answer
            found.append(Highlight(paper, sentence + ".", chart))
    return found


def _differing(entries, property_of):
    """"0.1 (tails, queue); 0.2 (ycsb)"; empty when all are the same."""
    groups = {}
    for entry in entries:
        groups.setdefault(property_of(entry.result), []).append(entry.name)
    if len(groups) < 2:
        return ""
    return "; ".join(f"{value} ({', '.join(names)})" for value, names in groups.items())


def revision_of(result):
    """"0.1.0 (9a6bd33)"."""
    revision = text_in(result, "revision", "unknown")
    changed = revision.endswith("-dirty")
    return (f"{text_in(result, 'pulse_version', 'unknown')} "
            f"({revision.removesuffix('-dirty')}{' with local changes' if changed else ''})")


def machine_of(result):
    machine = object_in(result, "machine")
    return [("processor", f"{text_in(machine, 'cpu', 'unknown')}, "
             f"{number_in(machine, 'cpus'):g} CPUs"),
            ("memory", f"{number_in(machine, 'memory_bytes') / (1 << 30):.3g} GiB"),
            ("kernel", text_in(machine, "kernel", "unknown")),
            ("file system", text_in(machine, "file_system", "unknown")),
            ("RocksDB", text_in(machine, "rocksdb", "unknown"))]


def date_of(result):
    return text_in(result, "finished")[:10]


def facts(results):
    """The machine, the revision and the dates of the results."""
    done = results.done
    if not done:
        return []
    dates = sorted({date_of(entry.result) for entry in done} - {""})
    revisions = dict.fromkeys(revision_of(entry.result) for entry in done)
    return machine_of(done[0].result) + [
        ("PulseDB", ", ".join(revisions)),
        ("measured", " to ".join(dict.fromkeys((dates[0], dates[-1]))) if dates else "unknown")]


SETTINGS = ("scale", "quick", "threads", "memtable_bytes", "pairs", "warm_ups", "seed", "host_cpus",
            "agent_cpus", "uri_options", "environment_options")


def warnings(results):
    """What a reader must know before comparing figures."""
    done = results.done
    found = []
    if any(flag_in(object_in(entry.result, "settings"), "tiny") for entry in done):
        found.append("Results of tiny runs are among these. They show that everything works; their "
                     "figures mean nothing.")
    machines = _differing(done, lambda r: ", ".join(value for _, value in machine_of(r)))
    if machines:
        found.append(f"The results come from more than one machine: {machines}.")
    versions = _differing(done, revision_of)
    if versions:
        found.append(f"The results come from more than one version of the program: {versions}.")
    # Other benchmarks have settings of their own.
    experiments = [entry for entry in done if text_in(entry.result, "experiment")]
    for key in SETTINGS:
        which = _differing(experiments,
                           lambda r, k=key: str(object_in(r, "settings").get(k, "none")))
        if which:
            found.append(f"The experiments differ in {key}: {which}.")
    if len(done) < len(results.entries):
        found.append(f"{len(done)} of {len(results.entries)} experiments have run; the others are "
                     "named with the command that runs them.")
    return found
