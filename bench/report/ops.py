"""The page of `pulse bench ops`: the co-processing paper's figures, and `auto` against fixed splits."""
from figures import flag_in, format_figure, list_in, number_in, object_in, text_in
from model import Chart, Point, Series, Spread, Table

WHAT = (
    "Operators on pieces in memory, shared by host and agent through the queue. Rows without a card: two "
    "cores of this machine. Rows of a card: no card is here; its results were computed before, and are "
    "replayed at the price of its profile, whose figures are the paper's.")
ASKED = 0.97
ABOVE = 1.0
SAME = "static, agent's cores in place of the host"


def _rows(result, name):
    return [row for row in list_in(result, name) if isinstance(row, dict)]


def _exact(value):
    return Spread(value, value, value)


def _placements(rows):
    """The paper's names, as " (fCPU at 0 %, cCOMP between, cDPU at 100 %)"; of older results none."""
    names = {}
    for row in rows:
        for split in _rows(row, "splits"):
            percent = number_in(split, "percent")
            place = "at 0 %" if percent == 0 else "at 100 %" if percent == 100 else "between"
            if text_in(split, "placement"):
                names.setdefault(place, text_in(split, "placement"))
    found = [f"{names[place]} {place}" for place in ("at 0 %", "between", "at 100 %") if place in names]
    return f" ({', '.join(found)})" if found else ""


def _offload_charts(result):
    """One chart for each card and operation: its settings and hosts, over the percentage."""
    rows = _rows(result, "offload")
    groups = dict.fromkeys((text_in(row, "card"), text_in(row, "operation")) for row in rows)
    for card, operation in groups:
        own = [row for row in rows
               if (text_in(row, "card"), text_in(row, "operation")) == (card, operation)]
        percents = list(dict.fromkeys(
            int(number_in(split, "percent")) for row in own for split in _rows(row, "splits")))
        chart = Chart("line", f"Figure 14: {operation}, {card}{_placements(own)}",
                      "MiB/s by percent to the agent's side, logarithmic, more is better",
                      groups=[str(percent) for percent in percents] + ["auto"],
                      group_title="percent to the agent's side", logarithmic=True)
        for colour, row in enumerate(own):
            found = {int(number_in(s, "percent")): number_in(s, "mib_per_s")
                     for s in _rows(row, "splits")}
            points = [Point(_exact(found[p]) if found.get(p, 0) > 0 else None) for p in percents]
            automatic = number_in(row, "auto_mib_per_s")
            points.append(Point(_exact(automatic) if automatic > 0 else None))
            chart.series.append(
                Series(f"{text_in(row, 'host')}, {text_in(row, 'setting')}", colour % 6, points))
        yield chart


def _auto_table(result):
    table = Table(f"auto against the best fixed split (asked: at least {ASKED})",
                  ["", "TT, 0 %", "TT, 100 %", "OT, best split", "at %", "OT, auto", "auto ÷ best", "least", "most",
                   "until lanes ended", "loss, chunks", "host CPU saved, %", "of replay's limit, %"])
    for row in _rows(result, "offload"):
        splits = {int(number_in(s, "percent")): number_in(s, "mib_per_s") for s in _rows(row, "splits")}
        best = int(number_in(row, "best_percent"))
        saved = text_in(row, "setting") != SAME
        table.rows.append([
            text_in(row, "title"), format_figure(splits.get(0, 0.0)),
            format_figure(splits.get(100, 0.0)), format_figure(splits.get(best, 0.0)), str(best),
            format_figure(number_in(row, "auto_mib_per_s")),
            format_figure(number_in(row, "auto_by_best")),
            format_figure(number_in(row, "auto_by_best_least")),
            format_figure(number_in(row, "auto_by_best_most")),
            format_figure(number_in(row, "auto_by_best_until_lanes_ended")),
            f"{number_in(row, 'loss_chunks'):.1f}",
            f"{100 * number_in(row, 'host_cpu_saved'):.0f}" if saved else "–",
            f"{100 * number_in(row, 'of_replay_limit'):.0f}" if flag_in(row, "replayed") else "–"])
    return table


def _marks(row):
    marks = [text_in(row, "placement")] + ["replayed"] * flag_in(row, "replayed")
    marks = [mark for mark in marks if mark]
    return f" ({', '.join(marks)})" if marks else ""


def _card_tables(result):
    rows = _rows(result, "cards")
    for number, title in ((2, "Table 2: the cards; an empty field has no key in the profile"),
                          (3, "Table 3: their accelerators")):
        own = [row for row in rows if int(number_in(row, "table")) == number]
        cards = list(dict.fromkeys(text_in(row, "card") for row in own))
        table = Table(title, ["", *(f"{card}, {of}" for card in cards for of in ("profile", "the paper"))])
        for what in dict.fromkeys(text_in(row, "what") for row in own):
            found = {text_in(row, "card"): row for row in own if text_in(row, "what") == what}
            table.rows.append([what, *(text_in(found.get(card, {}), of) or "–"
                                       for card in cards for of in ("profile", "paper"))])
        yield table


def _changes_table(result):
    return Table(
        "auto against the best fixed split where speeds or sizes change on the way (asked: above it)",
        ["", "host alone", "agent alone", "best split", "at %", "auto", "auto ÷ best", "least", "most"],
        [[text_in(row, "title"),
          *(format_figure(number_in(row, f"{name}_mib_per_s")) for name in ("host", "agent", "best")),
          str(int(number_in(row, "best_percent"))), format_figure(number_in(row, "auto_mib_per_s")),
          *(format_figure(number_in(row, f"auto_by_best{name}")) for name in ("", "_least", "_most"))]
         for row in _rows(result, "changes")])


def _batch_table(result):
    rows = [row for row in _rows(result, "regex") if "tasks" in row]
    column = lambda row: (text_in(row, "by") + _marks(row), int(number_in(row, "tasks")))
    line = lambda row: (text_in(row, "query"), int(number_in(row, "buffer")))
    columns, lines = dict.fromkeys(map(column, rows)), dict.fromkeys(map(line, rows))
    found = {(line(row), column(row)): format_figure(number_in(row, "mib_per_s")) for row in rows}
    return Table("Figure 13b: queries by batches, through the queue, MiB/s",
                 ["", *(f"{by}, {tasks}" for by, tasks in columns)],
                 [[f"{query}, {size} B", *(found.get(((query, size), c), "–") for c in columns)]
                  for query, size in lines])


def _codec_tables(result):
    rows = _rows(result, "codecs")
    for operation in dict.fromkeys(text_in(row, "operation") for row in rows):
        own = [row for row in rows if text_in(row, "operation") == operation]
        names = list(dict.fromkeys(text_in(row, "by") + _marks(row) for row in own))
        table = Table(f"Figures 7 and 9 to 12: {operation}, MiB/s on one core, by file", ["", *names])
        for file in dict.fromkeys(text_in(row, "file") for row in own):
            table.rows.append([file, *(format_figure(number_in(row, "mib_per_s"))
                                       for row in own if text_in(row, "file") == file)])
        yield table


def _ratio(spread):
    median, least, most = (number_in(spread, name) for name in ("median", "min", "max"))
    return f"{median:.2f} ({least:.2f} – {most:.2f})"


def _dma_tables(result):
    rows = _rows(result, "dma")
    for direction in dict.fromkeys(text_in(row, "direction") for row in rows):
        own = [row for row in rows if text_in(row, "direction") == direction]
        columns = list(dict.fromkeys(
            (text_in(row, "by"), int(number_in(row, "cores"))) for row in own))
        table = Table(f"Figure 8: moving buffers, {direction}, GiB/s by buffer and batch; the rows of a "
                      "card are the model of its engine",
                      ["", *(f"{by}, {cores} core{'s' if cores > 1 else ''}" for by, cores in columns)])
        for buffer, batch in dict.fromkeys(
                (int(number_in(row, "buffer")), int(number_in(row, "batch"))) for row in own):
            found = {(text_in(row, "by"), int(number_in(row, "cores"))): number_in(row, "gib_per_s")
                     for row in own
                     if (int(number_in(row, "buffer")), int(number_in(row, "batch"))) == (buffer, batch)}
            table.rows.append([f"{buffer >> 10} KiB, {batch}",
                               *(format_figure(found[c]) if c in found else "–" for c in columns)])
        yield table


def _tables(result):
    yield _auto_table(result)
    yield _changes_table(result)
    yield from _card_tables(result)
    yield Table("The paper's text beside what stands for it here, MiB/s unless it says otherwise",
                ["", "figure", "the paper", "here"],
                [[text_in(row, "what"), text_in(row, "figure"), text_in(row, "says"),
                  format_figure(number_in(row, "value")) if "value" in row else "–"]
                 for row in _rows(result, "paper")])
    yield from _codec_tables(result)
    yield Table("Figure 6: what a task consists of, %; memory's share and the queue's are measured here, "
                "the rest is the profile's",
                ["", "context init", "mem. init", "ASIC", "context end", "queue"],
                [[f"{text_in(row, 'card')}, {text_in(row, 'operation')}",
                  *(format_figure(100 * number_in(row, f"{part}_share"))
                    for part in ("init", "memory", "asic", "end", "queue"))] for row in _rows(result, "tasks")])
    yield from _dma_tables(result)
    yield Table("Figure 15: a director that forwards, beside what runs on the agent's CPU; ratios to "
                "nothing beside it, least and most",
                ["", "Gbit/s", "of alone", "p50, µs", "of alone", "p99, µs", "of alone"],
                [[text_in(row, "beside"),
                  *(cell for name in ("gbit_per_s", "p50_us", "p99_us")
                    for cell in (format_figure(number_in(row, name)),
                                 _ratio(object_in(row, f"{name}_of_alone"))))]
                 for row in _rows(result, "routing")])
    queries = [row for row in _rows(result, "regex") if "query" in row and "tasks" not in row]
    yield Table("Figure 13a, c: queries by size of buffers, MiB/s on one core", ["", "pulse", "re2"],
                [[f"{query}, {size} B", *(format_figure(next(
                    (number_in(row, "mib_per_s") for row in queries
                     if (text_in(row, "query"), int(number_in(row, "buffer")), text_in(row, "by"))
                     == (query, size, name)), 0.0)) for name in ("pulse", "re2"))]
                 for query, size in dict.fromkeys(
                     (text_in(row, "query"), int(number_in(row, "buffer"))) for row in queries)])
    yield _batch_table(result)


def fill(entry, page):
    result = entry.result
    settings = object_in(result, "settings")
    page.title, page.figures = "Operators", "Co-processing Fig. 6 to 15, Tables 2 and 3"
    tiny = flag_in(settings, "tiny")
    page.statement = ("A tiny run: its figures mean nothing. " if tiny else "") + WHAT
    page.charts += [chart for chart in _offload_charts(result)
                    if any(p.ours for s in chart.series for p in s.points)]
    page.tables += [table for table in _tables(result) if table.rows]
    missed = [text_in(row, "title") for row in _rows(result, "offload")
              if 0 < number_in(row, "auto_by_best") < ASKED]
    if missed:
        page.notes.append(f"auto is below {ASKED} of the best split in {len(missed)} of "
                          f"{len(_rows(result, 'offload'))} rows: " + "; ".join(missed) + ".")
    missed = [text_in(row, "title") for row in _rows(result, "changes")
              if 0 < number_in(row, "auto_by_best") <= ABOVE]
    if missed:
        page.notes.append(f"auto is not above the best split in {len(missed)} of "
                          f"{len(_rows(result, 'changes'))} rows where something changes: "
                          + "; ".join(missed) + ".")
    if not _rows(result, "routing"):
        page.notes.append("Not run here: routing (Figure 15), which needs two CPUs, or --part all.")
