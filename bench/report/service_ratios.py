"""Ratios in results that have no list of runs: those of `pulse bench ops`, `graph` and `vdpu`. Each is
(label, quantity, spread). Where a file has medians with the least and the most but not the pairs, the
spread of a ratio is the widest that these allow."""
from figures import (FigureRow, Quantity, flag_in, is_number, list_in, number_in, object_in,
                     summarize, text_in)
from model import Spread

AGENT, THREADS_SAME, THREAD_OTHER = "agent_other", "threads_same", "thread_other"


def rows_in(result, name):
    return [row for row in list_in(result, name) if isinstance(row, dict)]


def pairs_of(result):
    return max(1, int(number_in(object_in(result, "settings"), "pairs", 1)))


def widest(of, over):
    """Of two spreads; None where there is nothing to divide by."""
    if not of or not over or over.low <= 0:
        return None
    return Spread(of.median / over.median, of.low / over.high, of.high / over.low,
                  min(of.count, over.count))


def spread_in(row, metric, count):
    """`metric`, with METRIC_least and METRIC_most; without those it counts as one pair."""
    median = number_in(row, metric)
    if median <= 0:
        return None
    low, high = number_in(row, f"{metric}_least", -1), number_in(row, f"{metric}_most", -1)
    return Spread(median, low, high, count) if low > 0 and high > 0 else Spread(median, median, median)


def beside_row(result):
    """Of a graph's transactions beside compactions: p99_us by who compacts, with all pairs."""
    return FigureRow({"label": "beside compactions", "runs": [
        {"variant": text_in(row, "key"), "pair": pair, "p99_us": 1e6 * seconds}
        for row in rows_in(object_in(result, "beside"), "rows")
        for pair, seconds in enumerate(list_in(row, "p99_s_all"), 1) if is_number(seconds)]})


def agent_fell_back(result):
    """How many of the compactions that the agent was to do beside transactions the host did."""
    return sum(int(number_in(row, "fell_back")) for row in rows_in(object_in(result, "beside"), "rows")
               if text_in(row, "key") == AGENT)


def _against_first(rows, label, name, metrics, count):
    """Rows of one label: each against the first."""
    by_label = {}
    for row in rows:
        by_label.setdefault(label(row), []).append(row)
    for what, own in by_label.items():
        for row in own[1:]:
            for metric in metrics:
                ratio = widest(spread_in(row, metric, count), spread_in(own[0], metric, count))
                if ratio and name(row) != name(own[0]):
                    yield what, Quantity(metric, name(row), name(own[0])), ratio


def _graph(result):
    count = pairs_of(result)
    row = beside_row(result)
    for of in row.variants[1:]:
        quantity = Quantity("p99_us", of, row.variants[0])
        if row.get(quantity):
            yield row.label, quantity, row.get(quantity)
    metrics = ("gib_per_s", "caller_cpu_s_per_gib", "all_cpu_s_per_gib")
    for part, label in (("copy", lambda r: f"copies of {number_in(r, 'piece'):g} B" + (
                             f", {text_in(r, 'direction')}" if "direction" in r else "")),
                        ("merge", lambda r: f"compaction, {text_in(r, 'input')}")):
        yield from _against_first(rows_in(object_in(result, part), "rows"), label,
                                  lambda r: text_in(r, "engine"), metrics, count)
    yield from _against_first(rows_in(object_in(result, "sum"), "rows"), lambda r: "sum of a column",
                              lambda r: f"{number_in(r, 'threads'):g} threads", ("edges_per_s",), count)
    for row in rows_in(object_in(result, "oltp"), "rows"):
        after = ", after updates" if flag_in(row, "after_updates") else ""
        runs, lists = object_in(row, "runs"), object_in(row, "adjacency")
        for metric in ("median_s", "p99_s", "cpu_s"):
            ratio = widest(spread_in(runs, metric, 1), spread_in(lists, metric, 1))
            if ratio:
                yield (f"{text_in(row, 'transaction')}{after}", Quantity(metric, "runs", "adjacency"),
                       ratio)


def is_replayed(row):
    """Of a row of `pulse bench ops`: a card that is not here, at its profile's price."""
    return flag_in(row, "replayed") or text_in(row, "card") not in ("", "none")


def auto_by_best(result, row):
    """Of a row of `offload` or `changes`: what auto reaches of the best fixed split."""
    median = number_in(row, "auto_by_best")
    if median <= 0:
        return None
    return Spread(median, number_in(row, "auto_by_best_least", median),
                  number_in(row, "auto_by_best_most", median), pairs_of(result))


def _query_label(row):
    label = f"{text_in(row, 'query')}, {number_in(row, 'buffer'):g} B"
    return f"{label}, batches of {number_in(row, 'tasks'):g}" if "tasks" in row else label


def _ops(result):
    for part in ("offload", "changes"):
        for row in rows_in(result, part):
            ratio = auto_by_best(result, row)
            if ratio:
                yield text_in(row, "title"), Quantity("mib_per_s", "auto", "best split"), ratio
    own = [row for row in rows_in(result, "codecs") if not is_replayed(row)]
    yield from _against_first(own, lambda r: f"{text_in(r, 'operation')}, {text_in(r, 'file')}",
                              lambda r: text_in(r, "by"), ("mib_per_s", "output_share"), 1)
    queries = [row for row in rows_in(result, "regex") if "query" in row and not is_replayed(row)]
    yield from _against_first(queries, _query_label, lambda r: text_in(r, "by"), ("mib_per_s",), 1)
    for row in rows_in(result, "routing"):
        for metric in ("gbit_per_s", "p50_us", "p99_us"):
            found = object_in(row, f"{metric}_of_alone")
            median = number_in(found, "median")
            if median > 0 and text_in(row, "beside") != "nothing":
                yield ("a director", Quantity(metric, f"beside {text_in(row, 'beside')}", "alone"),
                       Spread(median, number_in(found, "min", median), number_in(found, "max", median),
                              int(number_in(found, "count", 1))))


def _error(got, asked):
    return abs(got / asked - 1) if got > 0 and asked > 0 else None


def _vdpu(result):
    """How far the virtual DPU is from its profile: a share of what is asked."""
    speed = object_in(result, "speed")
    asked = number_in(speed, "asked")
    plain, slowed = list_in(speed, "plain_seconds"), list_in(speed, "slowed_seconds")
    errors = summarize([_error(fast / slow, asked) for fast, slow in zip(plain, slowed)
                        if is_number(fast) and is_number(slow) and fast > 0 and slow > 0 and asked > 0])
    if errors:
        yield "speed of a core", Quantity("error", "virtual DPU", "profile"), errors
    for row in rows_in(result, "dma"):
        for mover in ("shared", "vmread"):
            error = _error(number_in(row, f"{mover}_us"), number_in(row, "asked_us"))
            if error is not None:
                yield (f"transfer of {number_in(row, 'bytes'):g} B", Quantity("error", mover, "profile"),
                       Spread(error, error, error))


def ratios(result):
    found = {"graph": _graph, "ops": _ops}.get(text_in(result, "benchmark"))
    if found is None:
        found = _vdpu if "profile" in result and "dma" in result else None
    return list(found(result)) if found else []
