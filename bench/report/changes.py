"""What has changed against an earlier directory of results: ratios of a variant to the first one of
its row, which mean the same on another day, and on another machine of the same kind. One that differs
is one whose spread over pairs lies wholly on one side of the earlier one."""
from figures import FigureRow, Quantity, flag_in, format_spread, object_in
from model import Page, Table
from other_pages import lists_of_runs
from service_ratios import ratios as service_ratios

WORSE, BETTER = "worse", "better"
LESS_IS_BETTER = ("wall_s", "host_us", "host_ns", "host_cpu_s", "cpu_s", "stall_share", "median_s",
                  "caller_cpu_s_per_gib", "all_cpu_s_per_gib", "output_share", "error")


def direction(metric):
    """1: more is better; -1: less is; 0: neither is known."""
    if metric.endswith("_per_s"):
        return 1
    if metric in LESS_IS_BETTER or metric.startswith("p") and metric[1:2].isdigit():
        return -1
    return 0


def _rows(result):
    """By label; of several of one label, the first."""
    rows = {}
    for label, runs in lists_of_runs(result):
        rows.setdefault(label or "all", FigureRow({"label": label or "all", "runs": runs}))
    return rows


def _quantities(row):
    names = row.variants
    metrics = dict.fromkeys(metric for runs in row.runs.values() for figures in runs.values()
                            for metric in figures)
    return [Quantity(metric, name, names[0]) for name in names[1:] for metric in metrics
            if direction(metric)]


def verdict(before, now, way):
    """Of two spreads; empty when they meet, or when one of them is of a single pair."""
    if before.count < 2 or now.count < 2:
        return ""
    if now.low > before.high:
        return BETTER if way > 0 else WORSE
    if now.high < before.low:
        return WORSE if way > 0 else BETTER
    return ""


def _ratios(result):
    """(label, quantity) and the spread of each ratio in a result."""
    found = {(label, quantity): row.get(quantity) for label, row in _rows(result).items()
             for quantity in _quantities(row)}
    found.update({(label, quantity): spread for label, quantity, spread in service_ratios(result)
                  if direction(quantity.metric)})
    return {key: spread for key, spread in found.items() if spread}


def compare(earlier, results):
    """(page name, row, quantity, before, now, verdict) of all that both have."""
    found = []
    for entry in results.done:
        old = earlier.of(entry.name)
        if old is None:
            continue
        were = _ratios(old)
        for (label, quantity), now in _ratios(entry.result).items():
            before = were.get((label, quantity))
            if before:
                found.append((entry.name, label, quantity, before, now,
                              verdict(before, now, direction(quantity.metric))))
    return found


def _only_in_one(earlier, results):
    """What is measured in one of both only: results, and rows of those that both have."""
    notes = []
    for where, one, other in (("there", earlier, results), ("here", results, earlier)):
        names = []
        for entry in one.done:
            counterpart = other.of(entry.name)
            if counterpart is None:
                names.append(entry.name)
                continue
            rows = {label for label, _ in _ratios(counterpart)}
            names += dict.fromkeys(f"{entry.name} ({label})" for label, _ in _ratios(entry.result)
                                   if label not in rows)
        if names:
            notes.append(f"Only {where}: {', '.join(names)}.")
    return notes


def page(earlier, results):
    made = Page("changes", f"Against the results in {earlier.folder}")
    compared = compare(earlier, results)
    for word in (WORSE, BETTER):
        rows = [[f"{name}, {label}: {q.metric}, {q.of} ÷ {q.over}", format_spread(before),
                 format_spread(now), word] for name, label, q, before, now, said in compared
                if said == word]
        if rows:
            made.tables.append(Table(f"{word.capitalize()}, beyond both spreads",
                                     ["", "before", "now", ""], rows))
    counts = {word: sum(said == word for *_, said in compared) for word in (WORSE, BETTER)}
    single = sum(min(before.count, now.count) < 2 for _, _, _, before, now, _ in compared)
    made.statement = (
        f"{len(compared)} ratios are in both: {counts[WORSE]} have become worse, {counts[BETTER]} "
        f"better, beyond their spreads; {single} are of a single pair in one of them, which says "
        "nothing.")
    if not compared:
        made.notes.append("Nothing that was measured here was measured there.")
    tiny = [e.name for r in (earlier, results) for e in r.done
            if flag_in(object_in(e.result, "settings"), "tiny")]
    made.notes += _only_in_one(earlier, results)
    made.notes += [f"{entry.problem}." for entry in earlier.entries if entry.problem]
    if tiny:
        made.notes.append("Results of tiny runs are among these; their figures mean nothing.")
    return made
