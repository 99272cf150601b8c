"""redis-py's cluster client and a memcached client against `pulse kv --cluster`; with the port of
a redis-server in cluster mode, also the form of CLUSTER's replies beside its.
usage: kv_cluster_clients.py PORT [PORT_OF_REDIS_SERVER]"""

import re
import socket
import sys
import time

import redis
from redis.cluster import RedisCluster

from client_checks import refused

PORT = int(sys.argv[1])


def keys_of_all_nodes(r):
    everywhere = RedisCluster.ALL_NODES
    assert r.flushall(target_nodes=everywhere)
    assert len(r.get_nodes()) == 3
    with r.pipeline() as p:
        for i in range(3000):
            p.set(f"k:{i}", i)
            p.incr(f"k:{i}")
        assert p.execute()[1::2] == list(range(1, 3001))
    names = {f"k:{i}" for i in range(3000)}
    assert set(r.keys("*", target_nodes=everywhere)) == names
    assert set(r.scan_iter("k:*", count=50)) == names
    sizes = [r.dbsize(target_nodes=node) for node in r.get_nodes()]
    assert sum(sizes) == 3000 and min(sizes) > 500, sizes
    slots = {}
    for name in names:
        slots.setdefault(r.keyslot(name), set()).add(name)
    for slot in list(slots)[:200]:
        assert r.cluster_countkeysinslot(slot) == len(slots[slot])
        assert set(r.cluster_get_keys_in_slot(slot, 100)) == slots[slot]
    assert r.mget_nonatomic("k:1", "k:2", "k:3") == ["2", "3", "4"]
    assert r.mset({"{t}1": 1, "{t}2": 2}) and r.mget("{t}1", "{t}2") == ["1", "2"]
    refused(lambda: redis.Redis(port=PORT).mget("a", "b"), "don't hash to the same slot")
    assert len(r.randomkey(target_nodes=r.get_random_node())) > 0
    one = r.get_nodes()[0]
    assert r.flushall(target_nodes=one) and r.dbsize(target_nodes=one) == 0
    assert sum(r.dbsize(target_nodes=node) for node in r.get_nodes()) > 1000


def transactions(r):
    """On the node of a slot, as the library's cluster client has none."""
    node = r.get_node_from_key("{t}")
    one = redis.Redis(host=node.host, port=node.port, decode_responses=True)
    one.delete("{t}n")
    with one.pipeline() as p:
        assert p.incr("{t}n").incr("{t}n").get("{t}n").execute() == [1, 2, "2"]
    with one.pipeline() as p:
        p.watch("{t}n")
        r.incr("{t}n")
        p.multi()
        p.set("{t}n", "lost")
        refused(p.execute, "Watched variable changed")
    assert r.get("{t}n") == "3"


def talk(port, request, last):
    with socket.create_connection(("127.0.0.1", port), timeout=20) as s:
        s.sendall(request)
        said = b""
        while not said.endswith(last):
            part = s.recv(65536)
            assert part, said
            said += part
        return said


def memcached(r):
    said = talk(PORT, b"config get cluster\r\n", b"END\r\n")
    head, version, nodes, *rest = said.split(b"\n")
    assert rest == [b"\r", b"END\r", b""], said
    assert int(head.split()[-1]) == len(version) + len(nodes) + 2, said
    ports = [int(node.split(b"|")[2]) for node in nodes.split()]
    assert sorted(ports) == sorted(node.port for node in r.get_nodes()), said
    for port in ports:
        for key in ("a", "b", "c", "d"):
            assert talk(port, b"set %s 0 0 1\r\nx\r\n" % key.encode(), b"\r\n") == b"STORED\r\n"
            assert r.get(key) == "x"


class Server:
    def __init__(self, port):
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=20)
        self.file = self.socket.makefile("rb")

    def ask(self, line):
        self.socket.sendall(line.encode() + b"\r\n")
        return self.receive()

    def receive(self):
        """A reply's form: types and names, without what differs from server to server."""
        line = self.file.readline()
        kind, rest = line[:1].decode(), line[1:].strip().decode()
        if kind in "$=":
            text = self.file.read(int(rest) + 2)[:-2].decode()
            text = re.sub(r"[0-9a-f]{40}", "ID", text)
            text = re.sub(r"(127\.0\.0\.1)?:?\b\d+@\d+", "ADDRESS", text)
            text = re.sub(r"\b\d+\b", "N", text)
            return kind + ("HOST" if text in ("", "N.N.N.N") else text)
        if kind in "*%~":
            count = int(rest) * (2 if kind == "%" else 1)
            return kind + rest, [self.receive() for _ in range(count)]
        return kind if kind == ":" else kind + rest


def forms(reference):
    """A cluster of one node, which has all slots, beside redis-server's."""
    ours, theirs = Server(PORT), Server(reference)
    assert theirs.ask("CLUSTER ADDSLOTSRANGE 0 16383") == "+OK"
    while "cluster_state:ok" not in theirs.ask("CLUSTER INFO"):  # it takes its time
        time.sleep(0.1)
    # What redis-server says of one node, our first node says of itself.
    lists = ("CLUSTER SLOTS", "CLUSTER SHARDS")
    same = (
        "CLUSTER INFO", "CLUSTER MYID", "CLUSTER LINKS", "CLUSTER KEYSLOT a", "CLUSTER REPLICAS x",
        "CLUSTER COUNTKEYSINSLOT 1", "CLUSTER COUNTKEYSINSLOT x", "CLUSTER COUNTKEYSINSLOT 16384",
        "CLUSTER GETKEYSINSLOT 1 5", "CLUSTER GETKEYSINSLOT 1 -1", "CLUSTER GETKEYSINSLOT 1 x",
        "CLUSTER NOSUCH", "CLUSTER MYID x", "CLUSTER KEYSLOT", "READONLY", "READWRITE", "ASKING",
        "SELECT 0", "SELECT 1", "MGET a b", "INFO cluster",
    )
    for version in (2, 3):
        for server in (ours, theirs):
            server.ask(f"HELLO {version}")
        for command in same:
            a, b = ours.ask(command), theirs.ask(command)
            assert a == b, f"RESP{version} {command}: {a!r}, and redis-server {b!r}"
        for command in lists:
            a, b = ours.ask(command), theirs.ask(command)
            assert a[1][0] == b[1][0], f"RESP{version} {command}: {a!r}, and redis-server {b!r}"
        a, b = ours.ask("CLUSTER NODES"), theirs.ask("CLUSTER NODES")
        a = next(line for line in a.split("\n") if "myself" in line)
        a, b = a.lstrip("$=").removeprefix("txt:"), b.strip().lstrip("$=").removeprefix("txt:")
        assert a == b, f"RESP{version} CLUSTER NODES: {a!r}, and redis-server {b!r}"


def main():
    if len(sys.argv) > 2:
        forms(int(sys.argv[2]))
    r = RedisCluster(host="127.0.0.1", port=PORT, decode_responses=True)
    keys_of_all_nodes(r)
    transactions(r)
    memcached(r)
    r.flushall(target_nodes=RedisCluster.ALL_NODES)
    print("ok")


main()
