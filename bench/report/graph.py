"""The page of `pulse bench graph`: GTPC, and the DSA paper's Figures 3 to 8."""
from figures import flag_in, format_figure, list_in, number_in, object_in, text_in
from model import Chart, Point, Series, Spread, Table

WHAT = ("A graph store whose relationships are in sorted runs, and whose sorting, flushing and "
        "compaction are copy plans. In DRAM, on the CPUs of this machine; what the paper does by Intel "
        "DSA and in HBM is not here, and listed below.")
CPU = "CPU of the caller, s/GiB"
ALL_CPU = "of all threads"
STRUCTURES = (("adjacency", "adjacency list (layer 0)"), ("runs", "sorted runs, a tenth in layer 0"))


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


def _charts(result):
    copies = _rows(object_in(result, "copy"), "rows")
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
            ("copies, inline", lambda row: number_in(object_in(row, "copies_s"), "inline")),
            ("copies, one thread", lambda row: number_in(object_in(row, "copies_s"), "threads-1")),
            ("encoding", lambda row: number_in(row, "encode_s")))):
        chart.series.append(Series(name, colour, [Point(_exact(of(row) * 1e3)) for row in flushes]))
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


def _gtpc_tables(result):
    for graph in _rows(result, "gtpc"):
        variant = "repaired" if text_in(graph, "variant") == "repaired" else "as published"
        table = Table(f"GTPC, {number_in(graph, 'warehouses'):g} warehouses, {variant}: "
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


def _tables(result):
    yield Table("The paper's text beside what stands for it here",
                ["", "figure", "the paper", "here", "which is"],
                [[text_in(row, "what"), text_in(row, "figure"), text_in(row, "says"),
                  format_figure(number_in(row, "value")) if "value" in row else "–", text_in(row, "means")]
                 for row in _rows(result, "paper")])
    yield from _gtpc_tables(result)
    yield Table("Figure 6: GTPC's transactions by structure, one client, without sync, µs",
                ["", *(f"{title}{what}" for _, title in STRUCTURES
                       for what in ("", ", p99", ", CPU")), "runs ÷ adjacency"],
                [[text_in(row, "transaction") +
                  (", after updates" if flag_in(row, "after_updates") else ""),
                  *(format_figure(1e6 * number_in(object_in(row, key), figure))
                    for key, _ in STRUCTURES for figure in ("median_s", "p99_s", "cpu_s")),
                  format_figure(number_in(row, "ratio"))]
                 for row in _rows(object_in(result, "oltp"), "rows")])
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
    yield _copy_table("Figure 3: copies", _rows(object_in(result, "copy"), "rows"),
                      lambda row: _size(number_in(row, "piece")))
    yield Table("Figure 4: flushes, CPU of all for each GiB of records", ["records", "CPU s/GiB"],
                [[f"{number_in(row, 'records'):.0f}", format_figure(number_in(row, "cpu_s_per_gib"))]
                 for row in _rows(result, "flush")])
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
