#!/usr/bin/env python3
"""Checks that the metrics of `pulse graph serve` move as they should: graph_metrics_check.py URL PAGE BOLT

URL is that of the metrics, PAGE of the page, by which statements are run, BOLT the port. The server has run
nothing yet, and has --timeout.
"""
import json
import re
import socket
import sys
import urllib.request

from metrics_check import check_monotone, scrape, value


def ask(page, query):
    request = urllib.request.Request(page + "query", json.dumps({"query": query}).encode(),
                                     {"Content-Type": "application/json"})
    try:
        with urllib.request.urlopen(request, timeout=60) as response:
            return json.load(response)
    except urllib.error.HTTPError as error:
        return json.load(error)


def quantile(series, q):
    """As histogram_quantile() has it, to the end of its bucket."""
    buckets = sorted((float(dict(labels)["le"]), v) for (name, labels), v in series.items()
                     if name == "pulse_graph_statement_duration_seconds_bucket")
    return next(le for le, v in buckets if v >= q * buckets[-1][1])


def main():
    url, page, port = sys.argv[1:]
    before, _ = scrape(url)
    assert value(before, "pulse_graph_statements_total") == 0
    assert value(before, "pulse_graph_connections_total") == 0
    for i in range(3):
        assert "error" not in ask(page, "CREATE (:Metric {i: %d})" % i)
    assert ask(page, "MATCH (n:Metric) RETURN n.i")["rows"] != []
    assert ask(page, "MATCH (n:Metric) RETURN n.i")["rows"] != []
    assert "error" not in ask(page, "CREATE INDEX metrics FOR (n:Metric) ON (n.i)")
    assert "error" in ask(page, "MATCH (n RETURN n")
    assert "error" in ask(page, "RETURN 1 / 0")
    assert "error" in ask(page, "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(b)")
    client = socket.create_connection(("127.0.0.1", int(port)), timeout=60)
    client.sendall(bytes.fromhex("6060b017" "00000405" + "00000000" * 3))
    assert client.recv(4) == bytes.fromhex("00000405")
    after, types = scrape(url)
    check_monotone(before, after, types)
    expected = {
        ("pulse_graph_statements_total", "kind", "write"): 3,
        ("pulse_graph_statements_total", "kind", "read"): 4,
        ("pulse_graph_statements_total", "kind", "schema"): 1,
        ("pulse_graph_statements_failed_total", "reason", "compile"): 1,
        ("pulse_graph_statements_failed_total", "reason", "time"): 1,
        ("pulse_graph_statements_failed_total", "reason", "other"): 1,
        ("pulse_graph_statements_failed_total", "reason", "conflict"): 0,
    }
    for (name, label, text), count in expected.items():
        found = value(after, name, **{label: text})
        assert found == count, f"{name} of {text}: {found}, expected {count}"
    plain = {"pulse_graph_statement_duration_seconds_count": 8, "pulse_graph_rows_total": 6,
             "pulse_graph_plans_found_total": 1, "pulse_graph_transactions_open": 0,
             "pulse_graph_connections": 1, "pulse_graph_connections_total": 1, "pulse_graph_maintenance_failed": 0}
    for name, count in plain.items():
        assert value(after, name) == count, f"{name}: {value(after, name)}, expected {count}"
    assert quantile(after, 0.5) <= quantile(after, 0.99)
    # The one that was ended by its limit.
    assert quantile(after, 0.99) > 0.016, quantile(after, 0.99)
    assert value(after, "pulse_graph_memory_bytes", of="nodes") > value(before, "pulse_graph_memory_bytes", of="nodes")
    assert value(after, "pulse_graph_process_memory_bytes") > 1 << 20
    assert value(after, "pulse_graph_process_cpu_seconds_total") > 0
    assert value(after, "pulse_graph_sequence") > value(before, "pulse_graph_sequence")
    names = {n for n in types if re.match("pulse_graph_", n)}
    print(f"{len(names)} metrics of a graph are as its statements")


if __name__ == "__main__":
    main()
