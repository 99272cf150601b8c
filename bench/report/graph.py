"""The page of `pulse bench graph`: GTPC, and the DSA paper's Figures 3 to 8."""
from figures import flag_in, format_figure, list_in, number_in, object_in, text_in
from model import Chart, Point, Series, Spread, Table

WHAT = ("A graph store whose relationships are in sorted runs, and whose sorting, flushing and "
        "compaction are copy plans. In DRAM, on the CPUs of this machine; what the paper does by Intel "
        "DSA and in HBM is not here, and listed below: \"sim\", \"tier\" and \"hybrid\" are stand-ins.")
CPU = "CPU of the caller, s/GiB"
ALL_CPU = "of all threads"
STRUCTURES = (("adjacency", "adjacency list (layer 0)"), ("runs", "sorted runs, a tenth in layer 0"),
              ("hybrid", "the same, half of the runs in the tier (stand-in)"),
              ("half", "the same, half of the runs on the device"))
IN_DRAM = "DRAM to DRAM"


def _rows(result, name):
    return [row for row in list_in(result, name) if isinstance(row, dict)]


def _exact(value):
    return Spread(value, value, value) if value > 0 else None


def _size(count):
    count = int(count)
    for unit, factor in (("GiB", 1 << 30), ("MiB", 1 << 20), ("KiB", 1 << 10)):
        if count >= factor:
            return f"{count / factor:g} {unit}"
    return f"{count} B"


def _rates(row):
    """Of a row of copies: the median with the least and the most."""
    rate = number_in(row, "gib_per_s")
    least, most = number_in(row, "gib_per_s_least"), number_in(row, "gib_per_s_most")
    return Spread(rate, least, most) if rate else None


def _by_engine(title, rows, group, unit):
    """A line for each engine over the groups, in the order of the rows."""
    groups = list(dict.fromkeys(group(row) for row in rows))
    chart = Chart("line", title, unit, groups=groups, logarithmic=True)
    for colour, engine in enumerate(dict.fromkeys(text_in(row, "engine") for row in rows)):
        found = {group(row): row for row in rows if text_in(row, "engine") == engine}
        chart.series.append(Series(engine, colour % 6,
                                   [Point(_rates(found[g]) if g in found else None) for g in groups]))
    return chart


def _engines(flushes, place):
    return list(dict.fromkeys(name for row in flushes for name in object_in(row, place)))


def _charts(result):
    copies = [row for row in _rows(object_in(result, "copy"), "rows")
              if text_in(row, "direction", IN_DRAM) == IN_DRAM]
    yield _by_engine("Figure 3: copies by size of pieces", copies,
                     lambda row: _size(number_in(row, "piece")), "GiB/s, logarithmic, more is better")
    merges = [row for row in _rows(object_in(result, "merge"), "rows")
              if text_in(row, "input").startswith("blocks")]
    yield _by_engine("Figure 5: compaction of blocks of 1 to 512 KiB, by bytes", merges,
                     lambda row: _size(number_in(row, "bytes")), "GiB/s, logarithmic, more is better")
    flushes = _rows(result, "flush")
    chart = Chart("line", "Figure 4: from chunks to a sorted list, by records",
                  "milliseconds, logarithmic, less is better",
                  groups=[f"{number_in(row, 'records'):g}" for row in flushes], logarithmic=True)
    for colour, (name, of) in enumerate((
            ("order", lambda row: number_in(row, "order_s")),
            *((f"copies, {name}", lambda row, n=name: number_in(object_in(row, "copies_s"), n))
              for name in _engines(flushes, "copies_s")),
            ("encoding", lambda row: number_in(row, "encode_s")))):
        chart.series.append(Series(name, colour % 6, [Point(_exact(of(row) * 1e3)) for row in flushes]))
    yield chart
    updates = _rows(result, "updates")
    chart = Chart("line", "Figure 8: one transaction of so many relationships at ten nodes",
                  "milliseconds, logarithmic, less is better",
                  groups=[f"{number_in(row, 'relationships'):g}" for row in updates], logarithmic=True)
    names = list(dict.fromkeys(name for row in updates for name in object_in(row, "seconds")))
    for colour, name in enumerate(names):
        chart.series.append(Series(name, colour % 6, [
            Point(_exact(number_in(object_in(row, "seconds"), name) * 1e3)) for row in updates]))
    yield chart


def _variant(graph):
    return "repaired" if text_in(graph, "variant") == "repaired" else "as published"


def _gtpc_tables(result):
    graphs = _rows(result, "gtpc")
    yield Table("GTPC, all analytical queries: as published beside repaired",
                ["", "ran", "timeouts", "failed", "relationships that dangled", "load, s", "sum, ms",
                 "CPU ms"],
                [[f"{number_in(graph, 'warehouses'):g} warehouses, {_variant(graph)}",
                  *(f"{number_in(graph, key):.0f}" for key in ("done", "timeouts", "failures", "dangling")),
                  format_figure(number_in(graph, "load_s")),
                  *(format_figure(1e3 * number_in(graph, key)) for key in ("sum_s", "sum_cpu_s"))]
                 for graph in graphs])
    for graph in graphs:
        table = Table(f"GTPC, {number_in(graph, 'warehouses'):g} warehouses, {_variant(graph)}: "
                      f"{number_in(graph, 'nodes'):.0f} nodes, {number_in(graph, 'relationships'):.0f} "
                      f"relationships; {number_in(graph, 'timeouts'):g} timeouts",
                      ["", "rows", "ms", "least", "most", "CPU ms"])
        for row in _rows(graph, "queries"):
            seconds = object_in(row, "seconds")
            cells = ([f"{number_in(row, 'rows'):.0f}"] +
                     [format_figure(1e3 * number_in(seconds, key)) for key in ("median", "min", "max")] +
                     [format_figure(1e3 * number_in(row, "cpu_s"))]) if seconds else [
                         "–", "timeout" if flag_in(row, "timeout") else "failed", "–", "–", "–"]
            table.rows.append([text_in(row, "query"), *cells])
        table.rows.append(["all that ran", "", format_figure(1e3 * number_in(graph, "sum_s")), "", "",
                           format_figure(1e3 * number_in(graph, "sum_cpu_s"))])
        yield table


def _copy_table(caption, rows, label, more=()):
    """Rates with the CPU for each GiB."""
    return Table(caption, ["", "GiB/s", CPU, ALL_CPU, *(title for title, _ in more)],
                 [[f"{label(row)}, {text_in(row, 'engine')}",
                   *(format_figure(number_in(row, key))
                     for key in ("gib_per_s", "caller_cpu_s_per_gib", "all_cpu_s_per_gib")),
                   *(format_figure(of(row)) for _, of in more)] for row in rows])


def _directions(rows):
    """A line for each size of pieces and engine, with a rate for each direction."""
    directions = list(dict.fromkeys(text_in(row, "direction", IN_DRAM) for row in rows))
    lines = {}
    for row in rows:
        key = f"{_size(number_in(row, 'piece'))}, {text_in(row, 'engine')}"
        lines.setdefault(key, {})[text_in(row, "direction", IN_DRAM)] = row
    return Table("Figure 3: copies by engine and direction, GiB/s; CPU from DRAM to DRAM. The tier is other "
                 "memory of the same DRAM, a stand-in", ["", *directions, CPU, ALL_CPU],
                 [[key, *(format_figure(number_in(found.get(d, {}), "gib_per_s")) for d in directions),
                   *(format_figure(number_in(found.get(IN_DRAM, {}), metric))
                     for metric in ("caller_cpu_s_per_gib", "all_cpu_s_per_gib"))]
                  for key, found in lines.items()])


def _core_tables(result):
    yield Table("In C++, all of it on one CPU: relationships inserted in commits of 5,000, neighbours of all "
                "nodes", ["", "M/s", "least", "most", "CPU s for a million"],
                [[text_in(row, "what"),
                  *(format_figure(1e-6 * number_in(row, key)) for key in ("per_s", "per_s_least", "per_s_most")),
                  format_figure(number_in(row, "cpu_s_per_million"))] for row in _rows(result, "core")])
    mib = 1 << 20
    yield Table("Opening after a kill",
                ["", "logged, MiB", "s", "least", "most", "CPU s", "most resident, MiB", "limit, MiB"],
                [[text_in(row, "what"), f"{number_in(row, 'logged_bytes') / mib:.0f}",
                  *(format_figure(number_in(row, key))
                    for key in ("seconds", "seconds_least", "seconds_most", "cpu_s")),
                  *(f"{number_in(row, key) / mib:.0f}" for key in ("resident_bytes_most", "limit_bytes"))]
                 for row in _rows(result, "reopen")])


def _tables(result):
    shown = any("value" in row for row in _rows(result, "paper"))
    yield Table("The paper's text beside what stands for it here",
                ["", "figure", "the paper", "here", "which is"],
                [[text_in(row, "what"), text_in(row, "figure"), text_in(row, "says"),
                  format_figure(number_in(row, "value")) if "value" in row else "–", text_in(row, "means")]
                 for row in _rows(result, "paper") if shown])
    yield from _core_tables(result)
    yield from _gtpc_tables(result)
    yield Table("Figure 6: GTPC's transactions by structure, one client, without sync, µs",
                ["", "median", "p99", "CPU", "÷ adjacency"],
                [[text_in(row, "transaction") +
                  (", after updates" if flag_in(row, "after_updates") else "") + f": {title}",
                  *(format_figure(1e6 * number_in(object_in(row, key), figure))
                    for figure in ("median_s", "p99_s", "cpu_s")),
                  format_figure(number_in(object_in(row, key), "median_s") / list_s) if list_s else "–"]
                 for row in _rows(object_in(result, "oltp"), "rows")
                 for list_s in [number_in(object_in(row, "adjacency"), "median_s")]
                 for key, title in STRUCTURES if object_in(row, key)])
    beside = object_in(result, "beside")
    yield Table("GTPC's transactions on one CPU beside five compactions a second; p99 with the agent is "
                f"{format_figure(number_in(beside, 'p99_agent_by_threads_same'))} of that with threads on "
                f"the same CPU, {format_figure(number_in(beside, 'p99_agent_by_thread_other'))} of that "
                "with a thread on the other",
                ["compactions by", "p50, µs", "p99, µs", "transactions/s", "compactions/s"],
                [[text_in(row, "compactions_by"), format_figure(1e6 * number_in(row, "p50_s")),
                  format_figure(1e6 * number_in(row, "p99_s")),
                  format_figure(number_in(row, "transactions_per_s")),
                  format_figure(number_in(row, "compactions_per_s"))]
                 for row in _rows(beside, "rows")])
    yield Table("Figure 7: a column added up by threads",
                ["threads", "M edges/s", "speed-up", "CPU s/G edges"],
                [[f"{number_in(row, 'threads'):g}", format_figure(1e-6 * number_in(row, "edges_per_s")),
                  format_figure(number_in(row, "speed_up")),
                  format_figure(number_in(row, "cpu_s_per_g_edges"))]
                 for row in _rows(object_in(result, "sum"), "rows")])
    yield _directions(_rows(object_in(result, "copy"), "rows"))
    flushes = _rows(result, "flush")
    places = [(place, name) for place in ("copies_s", "copies_tier_s") for name in _engines(flushes, place)]
    yield Table("Figure 4: flushes, ms for all records, by who copies, and whereto (the tier is a stand-in); CPU "
                "of inline copies to DRAM",
                ["records", "order", *(name + ("" if place == "copies_s" else " to the tier")
                                       for place, name in places), "encoding", "CPU s/GiB"],
                [[f"{number_in(row, 'records'):.0f}", format_figure(1e3 * number_in(row, "order_s")),
                  *(format_figure(1e3 * number_in(object_in(row, place), name)) for place, name in places),
                  format_figure(1e3 * number_in(row, "encode_s")),
                  format_figure(number_in(row, "cpu_s_per_gib"))] for row in flushes])
    yield _copy_table("Figure 5: compaction", _rows(object_in(result, "merge"), "rows"),
                      lambda row: text_in(row, "input"),
                      (("copied as it is, %", lambda row: 100 * number_in(row, "share_copied")),
                       ("encoded anew, %", lambda row: 100 * number_in(row, "share_encoded"))))
    yield Table("Figure 8: layer 0 against the adjacency list that the paper has",
                ["relationships", "times as fast", "CPU s/GiB of a store's transaction"],
                [[f"{number_in(row, 'relationships'):.0f}", format_figure(number_in(row, "faster_by")),
                  format_figure(number_in(row, "cpu_s_per_gib"))] for row in _rows(result, "updates")])


def fill(entry, page):
    result = entry.result
    tiny = flag_in(object_in(result, "settings"), "tiny")
    page.title, page.figures = "Graphs", "DSA paper Fig. 3 to 8, GTPC"
    page.statement = ("A tiny run: its figures mean nothing. " if tiny else "") + WHAT
    page.charts += [chart for chart in _charts(result)
                    if any(p.ours for s in chart.series for p in s.points)]
    page.tables += [table for table in _tables(result) if table.rows]
    for part, what in (("copy", "memcpy into one buffer of 4 MiB"),
                       ("merge", "One thread's copies from memory to other memory")):
        found = object_in(result, part)
        if number_in(found, "memcpy_gib_per_s"):
            page.notes.append(f"{what}, beside {part}: "
                              f"{format_figure(number_in(found, 'memcpy_gib_per_s'))} GiB/s, "
                              f"{format_figure(number_in(found, 'memcpy_cpu_s_per_gib'))} CPU s/GiB.")
    page.notes += [f"Not measured: {what}." for what in list_in(result, "missing") if isinstance(what, str)]


def fill_rivals(entry, page):
    """Of bench/rivals/graph/figures.py."""
    page.title = "Graphs beside Ladybug and Kuzu"
    page.statement = ("The same files and statements within Python, in turns, each round a fresh process; medians "
                      "with the least and the most.")
    figures = object_in(entry.result, "figures")
    rounds = _rows(entry.result, "rounds")
    columns = [*dict.fromkeys(program for each in rounds for program in each), "ratio", "of_bare"]

    def cell(found):
        values = [number_in(found, key) for key in ("median", "least", "most")]
        return "{} ({} – {})".format(*map(format_figure, values)) if found else "–"
    page.tables.append(Table(
        "Ratios: against the better of the others; of a bare append and fdatasync",
        ["", *columns[:-2], "ratio", "of bare", "asked"],
        [[f"{name}, {text_in(object_in(figures, name), 'unit')}",
          *(cell(object_in(object_in(figures, name), column)) for column in columns),
          text_in(object_in(figures, name), "asked") or "–"] for name in figures]))
