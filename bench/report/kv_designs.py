"""What `pulse bench kv --part designs`, `--part queue` and `--part redis` show: the DPU-KV paper's designs
on two CPUs, its queue pair by itself, and its store beside Redis."""
from charts import colour_of
from figures import FigureRow, Quantity, format_spread, list_in, object_in, summarize, text_in
from model import Chart, Point, Series, Table

LOADS = (20, 35, 50, 65, 80, 90, 95)
CONNECTIONS = (1, 2, 4, 8, 16, 64, 256)
SIZES = (2, 64, 256, 1024, 2049, 8193, 65536)
# What the paper's text says of peaks (sections 3.2, 6.2, 6.3): least and most.
PAPER = {
    "bf2": [("cpu", "dpu", 1.73, 1.76), ("lat", "dpu", 1.2, 1.2), ("sav", "cpu", 0.59, 0.68),
            ("dual", "cpu", 1.01, 1.07), ("shrd", "cpu", 1.21, 1.45)],
    "bf3": [("cpu", "dpu", 0.8, 1.0), ("lat", "cpu", 1.0, 1.357), ("lat", "dpu", 1.0, 1.1)]}
FIGURES = {"bf2": ("Figure 11", "Figure 12(a) to (c)", "Figure 5(a), (b)"),
           "bf3": ("Figure 13", "Figure 12(f) to (h)", "Figure 5(c), (d)")}
NO_FIGURES = ("As Figure 11", "As Figure 12(a) to (c)", "As Figure 5(a), (b)")
# Section 4.2.1: bytes over PCIe that the queue pair saves of a packet's, per cent.
SAVED = {("get", "request"): 63.67, ("get", "response"): 83.3, ("set", "request"): 66.67,
         ("set", "response"): 81.81}
MOVERS = [("the engine of profile bf2", ("bf2-polling", "bf2-event", "bf2-nonblocking")),
          ("the engine of profile bf3", ("bf3-polling", "bf3-event", "bf3-nonblocking")),
          ("movers of this machine", ("copy-polling", "copy-nonblocking", "vmread-agent-polling",
                                      "vmread-host-polling"))]
WHAT_DESIGNS = (
    "The DPU-KV paper's designs on two CPUs: one core of the host, one of the agent, packets that are "
    "replayed from memory. The paper has 8 and 8 cores and a network; what these make of it is the model's "
    "page (pulse bench kv --part model). Loads are shares of each design's own peak, in an open loop; latency "
    "runs from the time stamp that the client has put into its request.")
WHAT_QUEUE = (
    "The queue pair by itself, without a store: bytes and time by batch size, and how long what moves a "
    "transfer takes. An engine of a profile has the latency that the profile has, whoever begins a "
    "transfer; what copies by the caller's CPU is done when it returns, so it has neither events nor "
    "anything to overlap with. The paper's text has no figures of Figure 9's curves.")

WHAT_REDIS = (
    "The paper's store beside servers of Redis's protocol: 8 server threads and a network there, one server "
    "thread here. redis-server and pulse kv are processes on the host's core, asked by TCP over loopback from "
    "the agent's, in a closed loop, one request on each connection at a time. The paper's store gets packets "
    "that are replayed from memory, in an open loop: what it has no part of is the kernel's network, which "
    "is most of what the other two do.")


def rows_of(result, prefix):
    """FigureRow by the rest of the part's name, of parts that begin so."""
    return {name[len(prefix):]: FigureRow({"label": name, "runs": list_in(part, "runs")})
            for name, part in object_in(result, "parts").items() if name.startswith(prefix)}


def _designs(rows):
    return list(dict.fromkeys(design for row in rows.values() for design in row.variants))


def _curve(row, variant, steps):
    """A point for each step: latency, across the rate."""
    points = []
    for step in steps:
        p50 = row.figure(f"p50_us_{step}", variant)
        rate = row.figure(f"per_s_{step}", variant)
        points.append(Point(p50, across=rate.times(1e-6)) if p50 and rate else Point())
    return Series(variant, colour_of(variant), points)


def _latency(workload, row, figure):
    chart = Chart("against", f"{figure}: latency and throughput, {workload}",
                  "p50, µs, from bottom to top, logarithmic, less is better", logarithmic=True,
                  groups=[f"{load} % of its peak" for load in LOADS],
                  group_title="million requests a second, more is better")
    chart.series += [_curve(row, design, LOADS) for design in row.variants]
    return chart


def _ratios(rows, of, over):
    """Medians over pairs, one for each workload."""
    found = [row.get(Quantity("ops_per_s", of, over)) for row in rows.values()]
    return [spread.median for spread in found if spread]


def _peaks(rows, card, figure):
    designs = [design for design in _designs(rows) if design != "dpu"]
    paper = {of: low for of, over, low, high in PAPER.get(card, []) if over == "dpu" and low == high}
    return Chart("dots", f"{figure}: throughput, ÷ dpu", "over six workloads; 1 = dpu",
                 groups=designs, reference=1.0, series=[Series("one core each", 1, [
                     Point(summarize(_ratios(rows, design, "dpu")), paper.get(design))
                     for design in designs])])


def _receive_queues(row, workload, figure):
    chart = Chart("bars", f"{figure}: latency at the peak by receive queue, {workload}",
                  "p50, µs, less is better", groups=row.variants)
    for colour, queue in ((1, 128), (2, 256)):
        chart.series.append(Series(f"receive queue of {queue}", colour, [
            Point(row.figure(f"full_p50_us_{queue}", design)) for design in row.variants]))
    return chart


def _cell(row, metric, design, factor=1.0):
    spread = row.figure(metric, design)
    return format_spread(spread.times(factor)) if spread else "–"


def _design_tables(rows, card):
    for workload, row in rows.items():
        yield Table(f"{workload}: million requests a second at the peak, the host's time for each, and latency "
                    "at shares of the peak, µs",
                    ["", "million/s", "host, ns", *(f"p50 {load} %" for load in LOADS), "p99 50 %",
                     "p99 95 %", "requests a batch, 50 %"],
                    [[design, _cell(row, "ops_per_s", design, 1e-6), _cell(row, "host_ns", design),
                      *(_cell(row, f"p50_us_{load}", design) for load in LOADS),
                      _cell(row, "p99_us_50", design), _cell(row, "p99_us_95", design),
                      _cell(row, "batch_50", design)] for design in row.variants])
    table = Table("The paper's text on 8 and 8 cores, beside one and one here: peaks",
                  ["", "paper", "here, over the workloads"])
    for of, over, low, high in PAPER.get(card, []):
        ours = summarize(_ratios(rows, of, over))
        if ours:
            table.rows.append([f"{of} / {over}", f"{low:g} – {high:g}" if low != high else f"{low:g}",
                               format_spread(ours)])
    yield table


def fill_designs(result, page):
    rows = rows_of(result, "designs-")
    card = text_in(object_in(result, "settings"), "profile")
    engine = text_in(object_in(result, "settings"), "engine") or "pulse"
    bars, curves, queues = FIGURES.get(card, NO_FIGURES)
    page.title, page.figures = "Designs of the in-memory store", "DPU-KV Fig. 5, 11, 12, 13"
    agent = f"The agent is as slow as a core of {card}, and transfers take its engine's time. " if (
        card) else "Both cores are as fast. "
    page.statement += WHAT_DESIGNS + " " + agent + f"Engine: {engine}."
    for workload, row in rows.items():
        page.charts.append(_latency(workload, row, curves))
    page.charts.append(_peaks(rows, card, bars))
    if "C-uniform" in rows:
        page.charts.append(_receive_queues(rows["C-uniform"], "C-uniform", queues))
        page.notes.append(
            "The paper finds 41 % less latency with receive queues of 256 instead of 128, by congestion in "
            "its NIC (section 3.2). A replay has no NIC: here a longer queue only adds to the wait.")
    page.tables += list(_design_tables(rows, card))


def _saved(rows):
    chart = Chart("bars", "Figure 8(d): bytes that the queue pair saves of a packet's",
                  "%, batches of 64, keys and values of 8 B",
                  groups=[f"{op.upper()}, {way}" for op, way in SAVED])
    chart.series.append(Series("here, of its own packets", 1, [
        Point(rows[op].figure(f"saved_{way}_percent", "batch-64") if op in rows else None, paper)
        for (op, way), paper in SAVED.items()]))
    return chart


def _moves(rows, way, title, movers):
    row = rows.get(way)
    chart = Chart("line", f"Figure 9: a {way}, {title}", "ns, less is better", logarithmic=True,
                  groups=[str(size) for size in SIZES], group_title="bytes")
    for i, mover in enumerate(movers):
        if row and mover in row.variants:
            chart.series.append(Series(mover, i + 1, [Point(row.figure(f"ns_{size}", mover))
                                                      for size in SIZES]))
    return chart


def _batches(rows):
    for op in ("get", "set"):
        if op not in rows:
            continue
        yield Table(f"The queue pair by batch size, {op.upper()} of 8 B + 8 B",
                    ["", "million/s", "one batch, p50 µs", "request, B", "response, B",
                     "a packet of each, B", "saved of a request, %", "of a response, %"],
                    [[name, _cell(rows[op], "ops_per_s", name, 1e-6),
                      _cell(rows[op], "round_us", name), _cell(rows[op], "request_bytes", name),
                      _cell(rows[op], "response_bytes", name),
                      f"{_cell(rows[op], 'packet_request_bytes', name)}, "
                      f"{_cell(rows[op], 'packet_response_bytes', name)}",
                      _cell(rows[op], "saved_request_percent", name),
                      _cell(rows[op], "saved_response_percent", name)]
                     for name in rows[op].variants])


def fill_queue(result, page):
    rows = rows_of(result, "queue-")
    page.title, page.figures = "Queue pair of the in-memory store", "DPU-KV Fig. 8(d), 9"
    page.statement += WHAT_QUEUE
    page.charts.append(_saved(rows))
    page.charts += [_moves(rows, way, title, movers) for way in ("write", "read")
                    for title, movers in MOVERS]
    page.tables += list(_batches(rows))
    for way in ("write", "read"):
        if way in rows:
            page.tables.append(Table(f"A {way} by size, ns", ["", *(f"{size} B" for size in SIZES)], [
                [name, *(_cell(rows[way], f"ns_{size}", name) for size in SIZES)]
                for name in rows[way].variants]))


def _redis_latency(workload, row):
    chart = Chart("against", f"Figure 2: latency and throughput, {workload}",
                  "p50, µs, from bottom to top, logarithmic, less is better", logarithmic=True,
                  groups=[f"{n} connections, or {load} % of the peak" for n, load in zip(CONNECTIONS, LOADS)],
                  group_title="million requests a second, more is better")
    for variant in row.variants:
        steps = [f"c{n}" for n in CONNECTIONS] if row.figure("per_s_c1", variant) else LOADS
        chart.series.append(_curve(row, variant, steps))
    return chart


def _redis_table(rows):
    table = Table("Thousand requests a second, at most and within 50 µs (p50). The paper: within 50 µs its "
                  "store takes 28,000, 127 times Redis's 220",
                  ["", "", "at most", "within 50 µs", "÷ redis-server's", "host, ns", "in the kernel, %"])
    for workload, row in rows.items():
        for variant in row.variants:
            over = row.get(Quantity("within_50us_per_s", variant, "redis-server"))
            table.rows.append([workload, variant, _cell(row, "ops_per_s", variant, 1e-3),
                               _cell(row, "within_50us_per_s", variant, 1e-3),
                               format_spread(over) if over else "–", _cell(row, "host_ns", variant),
                               _cell(row, "kernel_percent", variant)])
    return table


def fill_redis(result, page):
    rows = rows_of(result, "redis-")
    page.title, page.figures = "Redis beside the paper's store", "DPU-KV Fig. 2"
    page.statement += WHAT_REDIS
    page.charts += [_redis_latency(workload, row) for workload, row in rows.items()]
    page.tables.append(_redis_table(rows))


def fill(result, page):
    """False: the result has none of them."""
    parts = object_in(result, "parts")
    if any(name.startswith("designs-") for name in parts):
        fill_designs(result, page)
    elif any(name.startswith("queue-") for name in parts):
        fill_queue(result, page)
    elif any(name.startswith("redis-") for name in parts):
        fill_redis(result, page)
    else:
        return False
    page.charts = [chart for chart in page.charts
                   if any(point.ours for series in chart.series for point in series.points)]
    page.tables = [table for table in page.tables if table.rows]
    return True
