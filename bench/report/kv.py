"""The page of `pulse bench kv`. Of its model: the DPU-KV paper's designs on 8 host and 8 agent cores,
Figures 11 to 13, with the values that the paper's text states; of its other parts kv_designs.py."""
import statistics

import kv_designs
import other_pages
from charts import colour_of
from figures import (flag_in, format_figure, list_in, number_in, object_in, summarize,
                     text_in)
from model import Chart, Point, Series, Spread, Table

# The figures of the paper with peaks, latency against throughput, and cores.
CARDS = {"bf2": ("Figure 11", "Figure 12(a) to (c)", "Figure 12(d)"),
         "bf3": ("Figure 13", "Figure 12(f) to (h)", "Figure 12(i)")}
NO_FIGURES = ("As Figure 11", "As Figure 12(a) to (c)", "As Figure 12(d)")
STAGES = [("receive", "cpu", "receive_ns"), ("parse", "cpu", "parse_ns"),
          ("get, set", "cpu", "process_ns"), ("respond", "cpu", "respond_ns"),
          ("receive, parse, queue pair", "lat", "receive_ns"), ("prepare", "lat", "prepare_ns"),
          ("host's half", "lat", "host_ns"), ("send", "lat", "respond_ns")]
# The paper's Table 1: per cent of the host's CPU, with BF-2 and BF-3 as NICs. YCSB A, B and C of uniform
# keys; what is left to 100 are others.
TABLE_1 = {"receive": ((18.2, 25.4), (16.4, 23.7), (14.4, 17.2)),
           "parse": ((17.1, 20.7), (21.9, 20.6), (23.9, 23.4)),
           "respond": ((27.5, 23.2), (28.9, 25.3), (29.8, 28.1)),
           "get, set": ((19.5, 13.4), (15.9, 10.2), (13.1, 9.5))}
INPUTS = {"measured": 1, "paper": 4}
NO_CURVES = (
    "The paper's text gives no points of the curves of Figure 12, and of the bars of Figures 11 and 13 "
    "only ratios and a few values: what it states is in the table, and nothing was read off a drawing.")
WHAT = (
    "A discrete-event model of the DPU-KV paper's six designs on 8 host and 8 agent cores. Inputs "
    "measured: the stages' costs as measured on this machine, cores and DMA as the profiles have them. "
    "Inputs paper: get, set and the host's half of lat as measured here, communication in the proportion "
    "of the paper's Table 1, all as much slower as its host is, cores as in its section 3.2. No input is "
    "fitted to Figures 11 to 13.")


def _rows(model, name):
    return [row for row in list_in(model, name) if isinstance(row, dict)]


def _of(rows, **wanted):
    return [row for row in rows if all(row.get(key) == value for key, value in wanted.items())]


def _values(rows, key):
    return list(dict.fromkeys(text_in(row, key) for row in rows))


def _exact(value):
    return Spread(value, value, value)


def _settings(model):
    """(card, inputs) of all runs."""
    return list(dict.fromkeys((text_in(row, "card"), text_in(row, "inputs"))
                              for row in _rows(model, "peaks")))


def _to_dpu(model, card, figure, metric, title):
    """Each design by dpu, over the workloads: how Figures 11 and 13 show them."""
    peaks = _of(_rows(model, "peaks"), card=card)
    designs = [design for design in _values(peaks, "design") if design != "dpu"]
    chart = Chart("dots", f"{figure}: {title}, ÷ dpu, on {card}", "over six workloads; 1 = dpu",
                  groups=designs, reference=1.0)
    paper = {text_in(row, "of"): number_in(row, "low") for row in _rows(model, "paper")
             if text_in(row, "card") == card and text_in(row, "over") == "dpu"
             and text_in(row, "kind") == "mean"
             and text_in(row, "metric") == ("rate" if metric == "per_second" else "latency")}
    for inputs in _values(peaks, "inputs"):
        points = []
        for design in designs:
            ratios = []
            for row in _of(peaks, inputs=inputs, design=design):
                base = _of(peaks, inputs=inputs, design="dpu", workload=row.get("workload"))
                if base and number_in(base[0], metric) > 0:
                    ratios.append(number_in(row, metric) / number_in(base[0], metric))
            points.append(Point(summarize(ratios), paper.get(design)))
        chart.series.append(Series(f"inputs {inputs}", INPUTS.get(inputs, 3), points))
    return chart


def _latency(model, card, inputs, workload, figure):
    rows = _of(_rows(model, "latency"), card=card, inputs=inputs, workload=workload)
    loads = list(dict.fromkeys(number_in(row, "load") for row in rows))
    chart = Chart("against", f"{figure}: latency and throughput, {workload} on {card}, inputs {inputs}",
                  "p50, µs, from bottom to top, less is better",
                  groups=[f"{100 * load:.0f} % of its peak" for load in loads],
                  group_title="million requests a second, more is better")
    for design in _values(rows, "design"):
        found = {number_in(row, "load"): row for row in _of(rows, design=design)}
        chart.series.append(Series(design, colour_of(design), [
            Point(_exact(number_in(found[load], "p50_us")),
                  across=_exact(number_in(found[load], "per_second") / 1e6))
            if load in found else Point() for load in loads]))
    return chart


def _by_cores(model, card, inputs, figure):
    rows = _of(_rows(model, "by_cores"), card=card, inputs=inputs, workload="B-uniform")
    most = int(max((number_in(row, "cores") for row in rows), default=0))
    chart = Chart("line", f"{figure}: cores, B-uniform on {card}, inputs {inputs}",
                  "million requests a second, more is better",
                  groups=[str(cores) for cores in range(1, most + 1)],
                  group_title="cores: of the host for cpu, of the card for the others")
    for design in _values(rows, "design"):
        figures = {int(number_in(row, "cores")): number_in(row, "per_second") / 1e6
                   for row in _of(rows, design=design)}
        chart.series.append(Series(design, colour_of(design), [
            Point(_exact(figures[cores]) if cores in figures else None)
            for cores in range(1, most + 1)]))
    return chart


def _range(row, low, high):
    values = [number_in(row, low), number_in(row, high)]
    return " – ".join(dict.fromkeys(format_figure(value) for value in values))


def _paper_table(model):
    table = Table("The paper's text beside the model, at the peak; a miss is more than 25 % off",
                  ["", "inputs", "paper", "model", "model ÷ paper", "verdict", "from"])
    for row in _rows(model, "paper"):
        table.rows.append([
            f"{text_in(row, 'card')}: {text_in(row, 'what')}", text_in(row, "inputs"),
            _range(row, "low", "high"), _range(row, "ours_low", "ours_high"),
            _range(row, "ratio_low", "ratio_high"),
            "an input" if flag_in(row, "input") else text_in(row, "verdict"),
            f"section {text_in(row, 'where')}"])
    return table


def _peak_table(model, card, inputs):
    peaks = _of(_rows(model, "peaks"), card=card, inputs=inputs)
    workloads = _values(peaks, "workload")
    table = Table(f"{card}, inputs {inputs}: million requests a second with full receive queues",
                  ["", *workloads, "host cores", "of them busy", "a transfer, µs"])
    for design in _values(peaks, "design"):
        rows = _of(peaks, design=design)
        by = {text_in(row, "workload"): number_in(row, "per_second") / 1e6 for row in rows}
        transfer = statistics.median(number_in(row, "transfer_us") for row in rows)
        table.rows.append([design, *(format_figure(by[w]) if w in by else "–" for w in workloads),
                           format_figure(number_in(rows[0], "host_cores")),
                           format_figure(statistics.median(number_in(r, "host_busy") for r in rows)),
                           format_figure(transfer) if transfer else "–"])
    return table


def _shares(costs):
    """Table 1 beside the stages of cpu as they are measured here."""
    table = Table("Table 1: shares of the host's CPU in cpu, %. The paper's have others, 17 to 22 %, beside "
                  "them, and a NIC; ours are of these four alone, on packets in memory",
                  ["", "paper, BF-2", "paper, BF-3", "here"])
    metrics = {name: metric for name, run, metric in STAGES if run == "cpu"}
    for i, mix in enumerate("ABC"):
        cpu = object_in(object_in(costs, f"{mix}-uniform"), "cpu")
        whole = sum(number_in(cpu, metric) for metric in metrics.values())
        for name, paper in TABLE_1.items() if whole > 0 else ():
            table.rows.append([f"YCSB {mix}: {name}", *(f"{share:.1f}" for share in paper[i]),
                               f"{100 * number_in(cpu, metrics[name]) / whole:.1f}"])
    return table


def _tables(model):
    costs = object_in(model, "costs")
    yield _shares(costs)
    yield Table("Measured costs, ns a request in batches of 128: of cpu, and of lat's two cores",
                ["", *(f"{run}: {name}" for name, run, _ in STAGES)],
                [[workload, *(format_figure(number_in(object_in(runs, run), metric))
                              for _, run, metric in STAGES)]
                 for workload, runs in costs.items() if isinstance(runs, dict)])
    yield Table("The model beside what two CPUs measure", ["", "measured", "model", "error, %"],
                [[f"{text_in(row, 'what')}, {text_in(row, 'workload')}",
                  format_figure(number_in(row, "measured")), format_figure(number_in(row, "model")),
                  f"{number_in(row, 'error_percent'):+.0f}"] for row in _rows(model, "validation")])
    for card, inputs in _settings(model):
        yield _peak_table(model, card, inputs)
    yield Table("Orderings of throughput that the paper has (~: within 25 %)",
                ["", "inputs", "workloads in which it holds", "ratio"],
                [[f"{text_in(row, 'card')}: {text_in(row, 'relation')}", text_in(row, "inputs"),
                  f"{number_in(row, 'holds'):g} of {number_in(row, 'of'):g}",
                  _range(row, "ratio_low", "ratio_high")] for row in _rows(model, "orderings")])
    yield _paper_table(model)
    yield Table("Figure 10(c) and (d): dual, C-uniform. The paper's text: a transfer takes 3.1 times as "
                "long with all spare cores, and the card's throughput falls by 36.6 %",
                ["", "million requests/s", "of them by the card", "a transfer, µs", "PCIe in use, %"],
                [[f"{number_in(row, 'value'):g} {text_in(row, 'what')}, {text_in(row, 'card')}, inputs "
                  f"{text_in(row, 'inputs')}", format_figure(number_in(row, "per_second") / 1e6),
                  format_figure(number_in(row, "agent_per_second") / 1e6),
                  format_figure(number_in(row, "transfer_us")),
                  format_figure(100 * number_in(row, "pcie_share"))]
                 for row in _rows(model, "congestion")])
    yield Table("Where each input is from", ["", "value", "source"],
                [row for row in list_in(model, "parameters") if isinstance(row, list)
                 and len(row) == 3 and all(isinstance(cell, str) for cell in row)])


def _misses(model):
    rows = [row for row in _rows(model, "paper") if not flag_in(row, "input")]
    for inputs in _values(rows, "inputs"):
        own = _of(rows, inputs=inputs)
        missed = [f"{text_in(row, 'card')}: {text_in(row, 'what')}"
                  for row in own if text_in(row, "verdict") == "missed"]
        if missed:
            yield (f"Misses, inputs {inputs}: {len(missed)} of {len(own)} values of the paper: "
                   + "; ".join(missed) + ".")


def fill(entry, page):
    model = object_in(entry.result, "model")
    tiny = flag_in(object_in(entry.result, "settings"), "tiny")
    page.statement = "A tiny run: its figures mean nothing. " if tiny else ""
    if not model:
        if not kv_designs.fill(entry.result, page):
            other_pages.fill(entry, page)
        return
    page.title, page.figures = "Model of the in-memory store's designs", "DPU-KV Fig. 11, 12, 13"
    page.statement += WHAT
    charts = []
    for card in _values(_rows(model, "peaks"), "card"):
        bars, curves, scaling = CARDS.get(card, NO_FIGURES)
        charts += [_to_dpu(model, card, bars, "per_second", "throughput"),
                   _to_dpu(model, card, bars, "latency_us", "latency at the peak")]
        for inputs in _values(_of(_rows(model, "peaks"), card=card), "inputs"):
            charts += [_latency(model, card, inputs, workload, curves)
                       for workload in ("A-uniform", "B-uniform", "C-uniform")]
            charts.append(_by_cores(model, card, inputs, scaling))
    page.charts += [chart for chart in charts if any(p.ours for s in chart.series for p in s.points)]
    page.tables += [table for table in _tables(model) if table.rows]
    page.notes += [NO_CURVES, *_misses(model)]
