"""Pages of results that have none of their own: any JSON file of a benchmark is listed, with all ratios
and all runs that it has. `pulse bench ring` has a chart beside that."""
from figures import FigureRow, list_in, number_in, object_in, text_in
from model import Chart, Panel
from remote import ratio_table, ratios_in
from sections import MORE, Section

LABELS = ("label", "workload", "name", "value_bytes")
SHOWN = 12  # columns; the file has the others
NO_METRICS = {"variant", "pair", "turn", "round", "num", "value_bytes", "producers"}


def ring_chart(result):
    """Rate and latency of each ring, by the number of producers, with the first mover."""
    movers = object_in(result, "figures")
    mover = next(iter(movers), "")
    panels, counts = [], []
    for load, by_count in object_in(movers, mover).items():
        by_count = by_count if isinstance(by_count, dict) else {}
        counts = sorted((c for c in by_count if c.isdigit()), key=int)
        rings = list(dict.fromkeys(ring for c in counts for ring in object_in(by_count, c)))
        for metric, title, factor in (("messages_per_s", "million messages/s", 1e-6),
                                      ("p50_us", "p50 latency, µs", 1)):
            lines = []
            for ring in rings:
                medians = [number_in(object_in(object_in(object_in(by_count, c), ring), metric),
                                     "median") * factor for c in counts]
                lines.append((ring, list(range(len(counts))), [m or None for m in medians]))
            panels.append(Panel(f"{title}, {load}", lines))
    return Chart("panels", f"Messages of 8 bytes through the rings, mover {mover}",
                 "logarithmic, by the number of producers", panels=panels, categories=counts,
                 group_title="producers", logarithmic=True)


def lists_of_runs(value, label="", depth=0):
    """(label, runs) of each list of runs in a result, wherever it is."""
    if depth > 6:
        return
    if isinstance(value, list):
        for i, item in enumerate(value):
            yield from lists_of_runs(item, label or str(i + 1), depth + 1)
    elif isinstance(value, dict):
        own = next((str(value[key]) for key in LABELS if isinstance(value.get(key), (str, int))), "")
        if isinstance(value.get("value_bytes"), int) and own == str(value["value_bytes"]):
            own += " B"
        label = own or label
        if any(isinstance(run, dict) and "variant" in run for run in list_in(value, "runs")):
            yield label, value["runs"]
        for key, item in value.items():
            if key != "runs":
                yield from lists_of_runs(item, label if key in (
                    "rows", "value_sizes", "workloads", "parts") else key, depth + 1)


def fill(entry, page):
    result = entry.result
    ratios = ratios_in(result)
    for group in object_in(result, "ratios").values():
        ratios += ratios_in({"ratios": group})
    if ratios:
        page.tables.append(ratio_table(ratios))
    rows = [FigureRow({"label": label or "all", "runs": runs})
            for label, runs in lists_of_runs(result)]
    section = Section(rows, {}, page)
    if object_in(result, "figures") and text_in(result, "benchmark") == "ring":
        chart = ring_chart(result)
        if chart.panels:
            page.charts.append(chart)
    else:
        section.absolute("Throughput", f"operations per second, {MORE}", "ops_per_s")
    metrics = dict.fromkeys(metric for row in rows for runs in row.runs.values()
                            for figures in runs.values() for metric in figures)
    section.figures([(metric, metric, 1) for metric in metrics if metric not in NO_METRICS][:SHOWN])
    if not page.tables and not page.charts:
        page.notes.append("The file has no runs and no ratios that this report knows how to show.")
    benchmark = text_in(result, "benchmark")
    page.statement = (f"What pulse bench {benchmark} has left in this directory." if benchmark
                      else "A file in this directory whose benchmark this report does not know.")
