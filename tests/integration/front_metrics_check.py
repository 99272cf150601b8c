#!/usr/bin/env python3
"""Checks that the numbers of a network front move as they should.

  front_metrics_check.py redis URL PORT            a fresh `pulse serve --offload on`, which this drives
  front_metrics_check.py blocks URL LOAD           `pulse agent --offload`, blocks' program, after LOAD,
                                                   what `pulse-blocks load --json` has printed
"""
import json
import socket
import sys
import time

from metrics_check import check_monotone, scrape, value


class Client:
    """A Redis client that knows lines and bulk strings."""

    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=60)
        self.file = self.socket.makefile("rb")

    def ask(self, *words):
        self.socket.sendall((" ".join(words) + "\r\n").encode())
        line = self.file.readline()
        if line[:1] != b"$" or line == b"$-1\r\n":
            return line.strip().decode()
        return self.file.read(int(line[1:]) + 2)[:-2].decode()

    def close(self):
        self.file.close()
        self.socket.close()


def eventually(what, condition):
    limit = time.monotonic() + 60
    while not condition():
        assert time.monotonic() < limit, f"{what}: not after a minute"
        time.sleep(0.05)


class Watch:
    """Scrapes, none of whose counters goes back."""

    def __init__(self, url, front):
        self.url, self.front, self.series = url, front, {}

    def look(self):
        series, types = scrape(self.url)
        check_monotone(self.series, series, types)
        self.series = series
        return self

    def __call__(self, name, **labels):
        assert any(n == name for n, _ in self.series), f"{name} is not exported"
        return value(self.series, name, **labels)

    def offload(self, name, **labels):
        return self("pulse_offload_" + name, front=self.front, **labels)

    def to_host(self, reason=None):
        return self.offload("to_host_total", **({"reason": reason} if reason else {}))


def check_redis(url, port):
    m = Watch(url, "redis").look()
    assert m("pulse_front_connections") == 0 and m("pulse_front_connections_total") == 0
    assert m.offload("answered_total") == 0 and m.to_host() == 0 and m("pulse_front_requests_total") == 0

    clients = [Client(port) for _ in range(3)]
    assert [c.ask("PING") for c in clients] == ["+PONG"] * 3  # the agent has accepted all of them
    m.look()
    assert m("pulse_front_connections") == 3 and m("pulse_front_connections_total") == 3
    assert m.to_host("not_offloadable") == m.to_host() == 3

    # Writes are the host's, and nothing that a client of a fresh server sends is anything else.
    for i in range(20):
        assert clients[0].ask("SET", f"key{i}", f"value{i}") == "+OK"
    m.look()
    assert m.to_host("not_offloadable") == m.to_host() == 23, m.to_host()
    assert m("pulse_front_forwarded_total") == m("pulse_front_requests_total") == 23
    assert m.offload("answered_total") == 0
    # The server has carried out what the agent gave it, on connections that the agent has made.
    assert m("pulse_server_commands_total") >= 23
    assert m("pulse_server_connections") >= 1
    assert m("pulse_front_host_connections_total") >= 3

    # Read until the agent has all keys: each command is counted once, as its answer or by a reason.
    reads = 0

    def all_answered():
        nonlocal reads
        before = m.offload("answered_total")
        for i in range(20):
            assert clients[1].ask("GET", f"key{i}") == f"value{i}"
        reads += 20
        m.look()
        return m.offload("answered_total") - before == 20

    eventually("reads answered by the agent", all_answered)
    forwarded = m.to_host() - 23
    assert m.offload("answered_total") + forwarded == reads, (forwarded, reads)
    assert m.to_host("not_offloadable") == 23, "a read counts as what can't be offloaded"
    assert m("pulse_front_forwarded_total") == 23 + forwarded
    assert m("pulse_front_requests_total") == 23 + reads
    assert m.offload("view_valid") == 1 and m.offload("catch_ups_total") > 0
    # A write is not readable at once; of a key that was read before it might be known, though.
    for i in range(200):
        assert clients[2].ask("SET", f"dirty{i}", str(i)) == "+OK"
        assert clients[2].ask("GET", f"dirty{i}") == str(i)
    m.look()
    assert m.to_host("not_offloadable") == 223
    dirty = m.to_host("dirty") + m.to_host("changed")
    assert m.offload("answered_total") + m.to_host() == 23 + reads + 400
    assert dirty > 0, "no read has met a key that was just written"
    assert m("pulse_front_cpu_seconds_total") > 0 and m("pulse_server_loop_cpu_seconds_total") > 0
    assert m.offload("max_lag_seconds") >= m.offload("lag_seconds") >= 0

    for c in clients:
        c.close()
    eventually("connections at 0", lambda: m.look()("pulse_front_connections") == 0)
    eventually("connections to the server at 0", lambda: m.look()("pulse_server_connections") == 0)
    eventually("held bytes at 0", lambda: m.look()("pulse_front_held_bytes") == 0)
    assert m("pulse_front_connections_total") == 3 and m("pulse_front_lost_total") == 0
    print(f"redis: {int(m.offload('answered_total'))} answered, {int(m.to_host())} to the host, "
          f"{int(dirty)} of them dirty")


def check_blocks(url, load):
    load = json.loads(load)
    m = Watch(url, "blocks").look()
    part = load["ops"] / load["ops_per_s"]
    reads, writes = round(load["reads_per_s"] * part), round(load["writes_per_s"] * part)
    assert reads > 0 and writes > 0 and load["errors"] == 0, load
    answered = m.offload("answered_total")
    reasons = {dict(l)["reason"]: v for (n, l), v in m.series.items() if n == "pulse_offload_to_host_total"}
    assert answered > 0, f"no read was offloaded: {reasons}"
    # The load looks for the file first; what it sent and did not wait for counts, too.
    assert answered + m.to_host() >= reads + writes, (answered, m.to_host(), load)
    assert m.to_host("not_offloadable") >= writes
    assert m("pulse_front_requests_total") >= reads + writes
    assert m("pulse_front_forwarded_total") == m.to_host()
    assert m.offload("read_bytes_total") >= 1024 * answered / 2
    assert m.offload("off") == 0 and m("pulse_front_cut_total") == 0
    assert m.offload("cache_items") <= m.offload("cache_inserts_total")
    eventually("connections at 0", lambda: m.look()("pulse_front_connections") == 0)
    assert m("pulse_front_connections_total") >= 1
    print(f"blocks: {int(answered)} answered, {int(m.to_host())} to the host")


if __name__ == "__main__":
    if sys.argv[1] == "redis":
        check_redis(sys.argv[2], int(sys.argv[3]))
    else:
        check_blocks(sys.argv[2], sys.argv[3])
