#!/usr/bin/env python3
"""Checks an agent's metrics: metrics_check.py URL DOCS DATABASE... [--also URL] |
URL --no-sessions

Parses the text format strictly, waits until every database has written something through the agent,
then scrapes some more times: series are unique, counters and histograms never go back, and every metric
that the dashboard's queries name is there; and DOCS/metrics.md names every metric. --also: of another
process, whose metrics the dashboard may name, too. --no-sessions: one scrape, which must have no series
of a session.
"""
import json
import math
import re
import sys
import time
import urllib.request

NAME = r"[a-zA-Z_:][a-zA-Z0-9_:]*"
LABEL = re.compile(r'([a-zA-Z_][a-zA-Z0-9_]*)="((?:[^"\\\n]|\\["\\n])*)"')
SAMPLE = re.compile(rf"({NAME})(\{{.*\}})? ([^ ]+)")
TYPES = {"counter", "gauge", "histogram", "summary", "untyped"}


def labels_of(text):
    found, at = [], 1
    while text[at] != "}":
        match = LABEL.match(text, at)
        assert match, f"bad labels: {text}"
        found.append(match.groups())
        at = match.end()
        assert text[at] in ",}", f"bad labels: {text}"
        at += text[at] == ","
    assert at == len(text) - 1, f"bad labels: {text}"
    names = [name for name, _ in found]
    assert len(set(names)) == len(names), f"a label twice: {text}"
    return tuple(sorted(found))


def parse(text):
    """{(name, labels): value}, {family: type}"""
    assert text.endswith("\n"), "the last line has no end"
    series, types, helps, family = {}, {}, set(), None
    for line in text[:-1].split("\n"):
        if line.startswith("# HELP "):
            name = line.split(" ")[2]
            assert re.fullmatch(NAME, name) and len(line.split(" ", 3)) == 4, line
            assert name not in helps, f"{name} has two HELP lines"
            helps.add(name)
            continue
        if line.startswith("# TYPE "):
            _, _, family, kind = line.split(" ")
            assert kind in TYPES and family in helps and family not in types, line
            types[family] = kind
            continue
        match = SAMPLE.fullmatch(line)
        assert match, f"not a sample: {line!r}"
        name, labels, value = match.group(1), match.group(2), float(match.group(3))
        suffixes = {"histogram": ("_bucket", "_sum", "_count"), "summary": ("", "_sum", "_count")}
        allowed = [family + s for s in suffixes.get(types[family], ("",))]
        assert name in allowed, f"{name} is not of the family {family} before it"
        key = (name, labels_of(labels) if labels else ())
        assert key not in series, f"{key} is there twice"
        series[key] = value
        if family.startswith("pulse_"):
            assert not math.isnan(value) and value >= 0, line
    for name, kind in types.items():
        if name.startswith("pulse_"):
            assert kind != "counter" or name.endswith("_total"), f"{name} is a counter"
            assert kind != "gauge" or not name.endswith("_total") or name == "pulse_agent", name
    return series, types


def check_histograms(series, types):
    for name in [n for n, kind in types.items() if kind == "histogram"]:
        by_rest = {}
        for (sample, labels), value in series.items():
            if sample == name + "_bucket":
                rest = tuple(l for l in labels if l[0] != "le")
                by_rest.setdefault(rest, []).append((float(dict(labels)["le"]), value))
        for rest, buckets in by_rest.items():
            buckets.sort()
            values = [v for _, v in buckets]
            assert values == sorted(values), f"{name}{rest} is not cumulative"
            assert buckets[-1][0] == math.inf
            assert buckets[-1][1] == series[(name + "_count", rest)]
            assert (name + "_sum", rest) in series


def scrape(url):
    with urllib.request.urlopen(url, timeout=30) as response:
        assert response.status == 200
        assert response.headers["Content-Type"].startswith("text/plain"), response.headers
        text = response.read().decode("utf-8")
    series, types = parse(text)
    check_histograms(series, types)
    return series, types


def value(series, name, **labels):
    return sum(v for (n, l), v in series.items() if n == name and labels.items() <= dict(l).items())


def session_series(series):
    return [key for key in series if "session" in dict(key[1])]


def check_monotone(before, after, types):
    counters = {n for n, kind in types.items() if kind in ("counter", "histogram")}
    for (name, labels), old in before.items():
        family = re.sub(r"_(bucket|sum|count)$", "", name)
        if (name in counters or family in counters) and (name, labels) in after:
            assert after[(name, labels)] >= old, f"{name}{labels} went back"


def metrics_of(query):
    """The metrics that a PromQL expression names: what stands before { or [, or alone."""
    bare = re.sub(r'"[^"]*"', "", query)
    bare = re.sub(r"\b(by|without)\s*\([^)]*\)", "", bare)
    bare = re.sub(r"\{[^}]*\}|\[[^\]]*\]", "", bare)
    words = re.findall(rf"{NAME}", bare)
    return {w for w in words if w.startswith("pulse_")}


def check_dashboard(path, names):
    dashboard = json.load(open(path, encoding="utf-8"))
    assert dashboard["title"] and dashboard["uid"] and dashboard["schemaVersion"] >= 36
    ids = [panel["id"] for panel in dashboard["panels"]]
    assert len(set(ids)) == len(ids), "panels share an id"
    variables = {v["name"] for v in dashboard["templating"]["list"]}
    used = set()
    for variable in dashboard["templating"]["list"]:
        if variable["type"] == "query":
            used |= metrics_of(variable["definition"].replace("label_values", ""))
    queries = 0
    places = []
    for panel in dashboard["panels"]:
        g = panel["gridPos"]
        assert g["x"] + g["w"] <= 24, panel["title"]
        for x, y, w, h, title in places:
            apart = (g["x"] >= x + w or x >= g["x"] + g["w"] or g["y"] >= y + h or y >= g["y"] + g["h"])
            assert apart, f'{panel["title"]} lies on {title}'
        places.append((g["x"], g["y"], g["w"], g["h"], panel["title"]))
        for target in panel.get("targets", []):
            queries += 1
            expression = target["expr"]
            assert target["datasource"]["uid"] == "${datasource}"
            for variable in re.findall(r"\$(\w+)", expression):
                assert variable in variables | {"__rate_interval"}, f"no variable ${variable}"
            assert expression.count("(") == expression.count(")"), expression
            found = metrics_of(expression)
            assert found, f"no metric in {expression}"
            used |= found
    missing = used - names
    assert not missing, f"the dashboard queries what is not exported: {sorted(missing)}"
    assert queries > 20
    return queries


def main():
    url = sys.argv[1]
    if sys.argv[2:] == ["--no-sessions"]:
        left = session_series(scrape(url)[0])
        assert not left, f"{len(left)} series are left, such as {left[0]}"
        return
    docs, databases, also = sys.argv[2], sys.argv[3:], []
    if "--also" in databases:
        at = databases.index("--also")
        databases, also = databases[:at], databases[at + 1:]
    limit = time.monotonic() + 60
    while True:
        series, types = scrape(url)
        busy = [d for d in databases
                if value(series, "pulse_written_bytes_total", database=d) > 0
                and value(series, "pulse_host_persisted_bytes_total", database=d) > 0
                and value(series, "pulse_sync_duration_seconds_count", database=d) > 0]
        if len(busy) == len(databases):
            break
        assert time.monotonic() < limit, f"only {busy} of {databases} are seen to work"
        time.sleep(0.2)
    for database in databases:
        assert value(series, "pulse_database_info", database=database) == 1
    assert value(series, "pulse_agent_task_slots") > 0, "an agent that runs whole compactions"
    first = series
    begun = written = sum(value(first, "pulse_written_bytes_total", database=d) for d in databases)
    limit = time.monotonic() + 60
    scrapes = 0
    while scrapes < 8 or written <= begun:
        assert scrapes < 8 or time.monotonic() < limit, "nothing was written between the scrapes"
        time.sleep(0.3)
        after, types = scrape(url)
        check_monotone(series, after, types)
        assert len(session_series(after)) <= len(session_series(first)) + 2 * len(databases)
        series = after
        scrapes += 1
        written = sum(value(series, "pulse_written_bytes_total", database=d) for d in databases)
    for other in also:
        others, more = scrape(other)
        series, types = {**others, **series}, {**more, **types}
    queries = check_dashboard(f"{docs}/grafana-pulse.json", {name for name, _ in series})
    text = open(f"{docs}/metrics.md", encoding="utf-8").read()
    silent = [n for n in types if n.startswith("pulse_") and not re.search(rf"`{n}[`{{]", text)]
    assert not silent, f"docs/reference/metrics.md does not name {silent}"
    print(f"{len(series)} series of {len(types)} metrics are well-formed; "
          f"the dashboard's {queries} queries name what is there")


if __name__ == "__main__":
    main()
