"""The page of `pulse bench soak`: what a database did while its agent was killed, stopped, slowed and
restarted; and the chart that the benchmark leaves beside its JSON file."""
from figures import flag_in, format_figure, is_number, list_in, number_in, object_in, text_in
from model import Chart, Mark, Panel, Table

MIB = 1 << 20
GONE = {"kill", "terminate", "stop-and-kill"}
COUNTS = [("operations", "operations"), ("failed operations", "failed_operations"),
          ("wrong reads under load", "wrong_reads"), ("keys checked at the end", "keys_checked"),
          ("wrong keys at the end", "keys_wrong"), ("failovers", "failovers"),
          ("reconnects", "reconnects"), ("seconds without an agent", "agentless_s"),
          ("operations/s, agent undisturbed", "ops_per_s_agent"),
          ("operations/s, agent disturbed", "ops_per_s_disturbed"),
          ("operations/s, no agent", "ops_per_s_no_agent"), ("longest write, ms", "worst_write_ms")]


def chart_of(result):
    samples = [s for s in list_in(result, "samples") if isinstance(s, dict)]
    times = [number_in(sample, "at_s") for sample in samples]

    def line(name, value):
        return (name, times, [value(sample) for sample in samples])

    def rate(key):
        return lambda s: number_in(s, key) / MIB / max(number_in(s, "seconds", 1.0), 1e-9)

    def use(who, key, unit):  # a process that is not there has no figures: a gap in the line
        return lambda s: number_in(object_in(s, who), key) / unit or None

    panels = [
        Panel("thousand operations per second",
              [line("operations", lambda s: number_in(s, "ops_per_s") / 1e3)]),
        Panel("longest write, ms", [line("write", lambda s: number_in(s, "worst_write_ms"))]),
        Panel("written, MiB/s", [line("by the agent", rate("bytes_persisted")),
                                 line("by the host", rate("bytes_inline"))]),
        Panel("resident memory, MiB", [line("host", use("host", "rss_bytes", MIB)),
                                       line("agent", use("agent", "rss_bytes", MIB))]),
        Panel("open descriptors", [line("host", use("host", "descriptors", 1)),
                                   line("agent", use("agent", "descriptors", 1))]),
        Panel("payload in queues, MiB",
              [line("payload", lambda s: number_in(s, "queued_bytes") / MIB)]),
        Panel("requests in rings", [line("requests", lambda s: number_in(s, "queued_requests"))])]
    most = max(times, default=1.0)
    marks = []
    for event in list_in(result, "events"):
        kind, begin = text_in(event, "kind"), number_in(event, "begin_s")
        marks.append(Mark(begin, min(number_in(event, "end_s", most), most), kind, kind in GONE))
    seed = number_in(object_in(result, "settings"), "seed")
    length = f"{most:.3g} s" if most < 180 else f"{most / 60:.3g} minutes"
    return Chart("panels", f"pulse bench soak: {length}, seed {seed:g}", "over time",
                 panels=panels, marks=marks)


def fill(entry, page):
    result, found = entry.result, object_in(entry.result, "result")
    settings = object_in(result, "settings")
    page.title = "Soak: a load on an agent that is killed, stopped, slowed and restarted"
    done = ", ".join(f"{count:g} {name}" for name, count in object_in(found, "mischief").items()
                     if is_number(count) and count)
    page.statement = (
        f"{number_in(found, 'seconds') / 60:.3g} minutes of reads and writes by "
        f"{number_in(settings, 'threads'):g} threads on {format_figure(number_in(settings, 'keys'))} "
        f"keys, each read checked; to the agent: {done or 'nothing'}. Then every key and checksum was "
        f"read without the plug-in. The soak {'passed' if flag_in(found, 'passed') else 'FAILED'}.")
    if list_in(result, "samples"):
        page.charts.append(chart_of(result))
    page.tables.append(Table("What the soak counted", ["", "count"],
                             [[name, format_figure(number_in(found, key))] for name, key in COUNTS
                              if is_number(found.get(key))]))
    trends = [[name, *(format_figure(number_in(trend, key)) for key in (
        "first_quarter", "third_quarter", "last_quarter", "tolerance")), text_in(trend, "verdict")]
        for name, trend in object_in(found, "trends").items()]
    if trends:
        page.tables.append(Table("Memory, descriptors and queues: medians of quarters of the run",
                                 ["", "first", "third", "last", "tolerance", "verdict"], trends))
    page.notes += [text for text in list_in(found, "problems") if isinstance(text, str)]
