"""What was asked of the in-memory store, the operators and the graph store, and what their results say
about it. What a benchmark has judged itself, as `pulse bench blocks` does, is in its ratios."""
from figures import FigureRow, Quantity, flag_in, list_in, number_in, object_in, text_in
from model import Spread, TargetRow
from remote import target_rows
from service_ratios import (AGENT, THREAD_OTHER, THREADS_SAME, agent_fell_back, auto_by_best, beside_row,
                            is_replayed, pairs_of, rows_in, spread_in, widest)
from targets import HELD, MISSED, NOT_CLEAR, NOT_MEASURED, NOT_SHOWN, Target

AUTO = Target("at least", 0.97)
AUTO_WITH_CHANGES = Target("above", 1)
# From this share of the replay's own limit on, a row shows the machine and not the card.
REPLAY_LIMIT = 0.9


def _least(value):
    return Target("at least", value)


def _most(value):
    return Target("at most", value)


# What, the part, the quantity, the factor to its unit, and the target. The host's time for a request and
# the p50, lat / cpu, are judged by the benchmark, and come with its ratios.
KV = [
    ("engine, 8 B + 8 B, GET, uniform: million calls/s", "engine-get", Quantity("ops_per_s", "batch"), 1e-6,
     _least(20)),
    ("engine, 8 B + 8 B, GET, zipf 0.99: million calls/s", "engine-get-zipf",
     Quantity("ops_per_s", "batch"), 1e-6, _least(28)),
    ("engine, 8 B + 8 B, half SET: million calls/s", "engine-mixed", Quantity("ops_per_s", "batch"), 1e-6,
     _least(15)),
    ("engine, 16 B + 100 B, GET: million calls/s", "engine-get-100", Quantity("ops_per_s", "batch"), 1e-6,
     _least(10)),
    ("engine, 16 B + 100 B, SET: million calls/s", "engine-set-100", Quantity("ops_per_s", "batch"), 1e-6,
     _least(6)),
    ("engine, 8 B + 8 B: bytes of memory beside key and value, an item", "engine-get",
     Quantity("overhead_bytes", "batch"), 1, _most(24)),
    ("shared-memory client, pipelined: million calls/s", "shm-get", Quantity("ops_per_s", "shm"), 1e-6,
     _least(10)),
    ("shared-memory client, one at a time: p50, µs", "shm-get", Quantity("p50_us", "shm-one"), 1, _most(3)),
] + [
    (f"YCSB {mix}, {keys}: requests/s, lat / {other}", f"network-{mix}-{keys}",
     Quantity("ops_per_s", "lat", other), 1, _least(asked))
    for mix in "ABC" for keys, other, asked in (("uniform", "cpu", 1.75), ("zipf", "cpu", 1.3),
                                                ("uniform", "cpu-2", 0.85), ("zipf", "cpu-2", 0.65))]


def _row(entry, what, target, got):
    if flag_in(object_in(entry.result, "settings"), "tiny"):
        return TargetRow(what, str(target), got, NOT_MEASURED, "a tiny run shows nothing", entry.name,
                         got.count)
    verdict = target.judge(got)
    why = ""
    if verdict == NOT_CLEAR:
        why = "one pair has no spread" if got.count < 2 else "the pairs differ"
    return TargetRow(what, str(target), got, verdict, why, entry.name, got.count)


def _kv(entry):
    parts = object_in(entry.result, "parts")
    for what, part, quantity, factor, target in KV:
        got = FigureRow({"runs": list_in(object_in(parts, part), "runs")}).get(quantity)
        if got:
            yield _row(entry, what, target, got.times(factor))


def _ops(entry):
    yield from _auto(entry, "offload", "auto ÷ best fixed split", AUTO)
    yield from _auto(entry, "changes", "auto ÷ best fixed split, speeds or sizes change", AUTO_WITH_CHANGES)


def _auto(entry, part, what, target):
    """A line for each card and operation: the row that is furthest from what is asked of every one."""
    groups, limited = {}, {}
    for row in rows_in(entry.result, part):
        got = auto_by_best(entry.result, row)
        if got:
            title = text_in(row, "title") + (" (replayed)" if is_replayed(row) else "")
            into = limited if number_in(row, "of_replay_limit") >= REPLAY_LIMIT else groups
            into.setdefault((text_in(row, "card"), text_in(row, "operation")), []).append((title, got))
    order = {MISSED: 0, NOT_CLEAR: 1, HELD: 2}

    def worst(own):
        title, got = min(own, key=lambda each: (order[target.judge(each[1])], each[1].median))
        return f"{what}, the worst of {len(own)}: {title}", got
    for own in groups.values():
        name, got = worst(own)
        yield _row(entry, name, target, got)
    for own in limited.values():
        name, got = worst(own)
        yield TargetRow(name, str(target), got, NOT_SHOWN,
                        f"the best split has {REPLAY_LIMIT:.0%} or more of what this machine can replay",
                        entry.name, got.count)


def _graph(entry):
    row = beside_row(entry.result)
    fell_back = agent_fell_back(entry.result)
    for what, over, asked in (("threads on the same CPU", THREADS_SAME, 0.6),
                              ("a thread on the agent's CPU", THREAD_OTHER, 1.05)):
        got = row.get(Quantity("p99_us", AGENT, over))
        name = f"p99 of transactions beside compactions, the agent's ÷ {what}"
        if got and fell_back:
            yield TargetRow(name, str(_most(asked)), got, NOT_MEASURED,
                            f"{fell_back} compactions of the agent's fell back to the host", entry.name,
                            got.count)
        elif got:
            yield _row(entry, name, _most(asked), got)
    merge = object_in(entry.result, "merge")
    blocks = [r for r in rows_in(merge, "rows") if text_in(r, "input").startswith("blocks")]
    largest = max((number_in(r, "bytes") for r in blocks), default=0)
    by_engine = {text_in(r, "engine"): r for r in blocks if number_in(r, "bytes") == largest}
    agent, inline = by_engine.get("agent", {}), by_engine.get("inline", {})
    size = text_in(agent, "input")
    cpu = widest(spread_in(agent, "caller_cpu_s_per_gib", 1), spread_in(inline, "caller_cpu_s_per_gib", 1))
    if cpu:
        yield _row(entry, f"host CPU of a compaction, agent ÷ inline, {size}", _most(0.3), cpu)
    rate = spread_in(agent, "gib_per_s", pairs_of(entry.result))
    copies = number_in(merge, "memcpy_gib_per_s")
    if rate and copies > 0:
        yield _row(entry, f"throughput of a compaction by the agent ÷ memcpy, {size}", _least(0.8),
                   rate.times(1 / copies))


def _counted(row, metric):
    return spread_in(row, metric, int(number_in(row, "count", 1)))


def _graph_alone(entry):
    """In C++ on one CPU, and after a kill."""
    for row in rows_in(entry.result, "core"):
        got = _counted(row, "per_s")
        asked = 300 if text_in(row, "key").startswith("scan") else 2
        if got:
            yield _row(entry, f"C++ on one CPU, {text_in(row, 'what')}: M relationships/s", _least(asked),
                       got.times(1e-6))
    for row in rows_in(entry.result, "reopen"):
        what = f"reopen after a kill, {number_in(row, 'logged_bytes') / 1e9:.1f} GB logged, {text_in(row, 'what')}"
        seconds, resident = _counted(row, "seconds"), _counted(row, "resident_bytes")
        asked = {"on": 3, "off": 10}.get(text_in(row, "key"))
        if asked and seconds:
            yield _row(entry, f"{what}: s", _most(asked), seconds)
        # Without flushes there is no limit.
        limit = number_in(row, "limit_bytes")
        if text_in(row, "key") != "off" and resident and limit > 0:
            yield _row(entry, f"{what}: the most resident ÷ memory limit", _most(1.05),
                       resident.times(1 / limit))


# Against the better of the rivals in the same run.
RIVALS = [("load", "bulk load of CSV", 1.7), ("sum", "sum of a property of all relationships", 2),
          ("two_hops", "two hops, 2 M paths", 2), ("one_hop", "one hop by key, in Python", 12),
          ("durable_8", "durable transactions of one relationship, 8 writers against the rival's one", 10),
          ("statements", "5,000 relationships in one durable transaction", 20)]


def _graph_rivals(entry):
    figures = object_in(entry.result, "figures")
    count = len(list_in(entry.result, "rounds"))

    def spread(name, of):
        found = object_in(object_in(figures, name), of)
        median = number_in(found, "median")
        return Spread(median, number_in(found, "least"), number_in(found, "most"), count) if median > 0 else None
    for name, what, asked in RIVALS:
        got = spread(name, "ratio")
        if got:
            yield _row(entry, f"{what}: times the better rival", _least(asked), got)
    # Either will do.
    durable = [_row(entry, f"durable transactions of one relationship, one writer: {what}", _least(asked), got)
               for of, what, asked in (("ratio", "times the better rival (or 0.8 of a bare append)", 3),
                                       ("of_bare", "÷ bare append and fdatasync (or 3 times the rival)", 0.8))
               for got in [spread("durable", of)] if got]
    yield from sorted(durable, key=lambda row: row.verdict != HELD)[:1]
    for name, what, asked in (("bytes_small", "0 to 99", 12), ("bytes_random", "64 random bits", 16)):
        got = spread(name, "pulsedb")
        if got:
            yield _row(entry, f"bytes on disk for a relationship, property {what}", _most(asked), got)


def rows(entry):
    """All of a result that has run."""
    own = {"kv": _kv, "ops": _ops, "graph": lambda e: [*_graph(e), *_graph_alone(e)],
           "graph-rivals": _graph_rivals}.get(text_in(entry.result, "benchmark"))
    return target_rows(entry) + (list(own(entry)) if own else [])
