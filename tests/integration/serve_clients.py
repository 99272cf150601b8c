"""Redis's Python client against `pulse serve`: pipelines, transactions, scans, expiry, errors, and
requests that no client would send. usage: serve_clients.py PORT"""

import socket
import sys
import threading
import time

import redis

from client_checks import refused

PORT = int(sys.argv[1])


def client(**options):
    return redis.Redis(host="127.0.0.1", port=PORT, decode_responses=True, **options)


def pipelines(r):
    with r.pipeline(transaction=False) as p:
        for i in range(3000):
            p.set(f"p:{i}", i)
            p.get(f"p:{i}")
            p.incr("p:sum", i)
        replies = p.execute()
    assert replies[1::3] == [str(i) for i in range(3000)]
    assert replies[-1] == sum(range(3000))
    with r.pipeline() as p:  # MULTI
        p.set("t", 1).incr("t").get("t").delete("t").exists("t").ping()
        assert p.execute() == [True, 2, "2", 1, 0, True]
    with r.pipeline() as p:
        p.set("t", "text").incr("t").set("u", 1)
        refused(p.execute, "not an integer")
    assert r.mget("t", "u") == ["text", "1"]


def optimistic_counters():
    def count():
        r = client()
        for _ in range(50):
            r.transaction(lambda p: (v := int(p.get("c") or 0), p.multi(), p.set("c", v + 1)), "c")

    threads = [threading.Thread(target=count) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert client().get("c") == "200"


def scans(r):
    names = {f"scan:{i}" for i in range(1000)}
    r.mset({name: "x" for name in names})
    assert set(r.scan_iter("scan:*", count=17)) == names
    assert set(r.keys("scan:99*")) == {n for n in names if n.startswith("scan:99")}
    assert r.dbsize() >= len(names)
    assert r.randomkey() is not None
    refused(lambda: r.scan(12345), "invalid cursor")


def expiry(r):
    r.set("e", "v", px=60000)
    assert 0 < r.pttl("e") <= 60000
    assert r.pexpire("e", 60)
    while r.get("e") is not None:
        time.sleep(0.01)
    assert r.ttl("e") == -2
    r.setex("e", 100, "v")
    assert r.persist("e") and r.ttl("e") == -1


def errors(r):
    refused(lambda: r.execute_command("LPUSH", "l", "x"), "unknown command 'LPUSH'")
    refused(lambda: r.execute_command("GET"), "wrong number of arguments for 'get'")
    refused(lambda: r.execute_command("DEBUG", "SLEEP", "1"), "not allowed")
    refused(lambda: r.execute_command("CLIENT", "NO-SUCH"), "unknown subcommand")
    refused(lambda: r.execute_command("SELECT", 1), "DB index is out of range")
    refused(lambda: r.execute_command("PULSE.FENCE", "x"), "unknown command")
    refused(lambda: r.set("k", "v", ex=-1), "invalid expire time")
    assert r.set("after", 1)


def talk(request, last=None):
    """Everything that the server says to `request`, until it closes or says `last`."""
    with socket.create_connection(("127.0.0.1", PORT), timeout=20) as s:
        s.sendall(request)
        said = b""
        while last is None or not said.endswith(last):
            part = s.recv(65536)
            if not part:
                break
            said += part
        return said


def bad_requests(r):
    bystander = client()
    bystander.set("bystander", "well")
    cases = {
        b"*1\r\n$-5\r\n": b"invalid bulk length",
        b"*x\r\n": b"invalid multibulk length",
        b"*1\r\n:1\r\n": b"expected '$', got ':'",
        b"*2\r\n$3\r\nGET\r\n$99999999999\r\n": b"invalid bulk length",
        b"a" * 70000: b"too big inline request",
        b'set "x\r\n': b"unbalanced quotes",
    }
    for request, error in cases.items():
        said = talk(b"PING\r\n" + request)
        assert said.startswith(b"+PONG\r\n-ERR Protocol error: ") and error in said, said
        assert said.endswith(b"\r\n"), said
    # Truncated: closed in the middle; nothing is carried out.
    with socket.create_connection(("127.0.0.1", PORT)) as s:
        s.sendall(b"*3\r\n$3\r\nSET\r\n$9\r\ntruncated\r\n$5\r\nab")
    assert talk(b"\r\n*0\r\nPING\r\n*1\r\n$4\r\nQUIT\r\n") == b"+PONG\r\n+OK\r\n"
    assert r.get("truncated") is None
    assert bystander.get("bystander") == "well"


def versions():
    said = talk(b"HELLO 3\r\nGET none\r\nMULTI\r\nWATCH a\r\nEXEC\r\nCONFIG GET save\r\nQUIT\r\n")
    assert said.startswith(b"%7\r\n$6\r\nserver\r\n"), said
    tail = b"_\r\n+OK\r\n-ERR WATCH inside MULTI is not allowed\r\n*0\r\n%1\r\n$4\r\nsave\r\n$0\r\n\r\n+OK\r\n"
    assert said.endswith(tail), said


def large_values(r):
    value = "v" * (8 << 20)
    r.set("large", value)
    with r.pipeline(transaction=False) as p:
        for _ in range(8):
            p.get("large")
        assert all(reply == value for reply in p.execute())
    assert r.strlen("large") == len(value)
    assert r.getrange("large", 0, 3) == "vvvv"


def main():
    r = client()
    pipelines(r)
    optimistic_counters()
    scans(r)
    expiry(r)
    errors(r)
    bad_requests(r)
    versions()
    large_values(r)
    stats = r.info("stats")
    assert stats["total_commands_processed"] > 9000, stats
    assert stats["keyspace_hits"] > 3000, stats
    assert r.flushall() and r.dbsize() == 0 and r.get("large") is None
    r.set("kept", "yes")


main()
print("ok")
