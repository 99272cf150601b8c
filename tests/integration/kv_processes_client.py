"""redis-py's cluster client on three `pulse kv` processes, one client through all that happens to
them. usage: kv_processes_client.py FIFO PORT PORT; the FIFO has one step a line."""

import sys

import redis
from redis.cluster import RedisCluster
from redis.exceptions import RedisClusterException

FIFO, PORT, OTHER_PORT = sys.argv[1:]
NAMES = [f"k:{i}" for i in range(600)]
THIRDS = [range(0, 5462), range(5462, 10923), range(10923, 16384)]


def third_of(r, name):
    return next(i for i, slots in enumerate(THIRDS) if r.keyslot(name) in slots)


def read(r, names):
    """What each name has, or that it cannot be told."""
    found = {}
    for name in names:
        try:
            found[name] = r.get(name)
        except (redis.RedisError, RedisClusterException) as error:
            found[name] = error
    return found


def hear_of_change(r, name):
    """The library reports one failure before it asks for the nodes again."""
    for _ in range(5):
        if not isinstance(read(r, [name])[name], Exception):
            return


def connect(port):
    return RedisCluster(host="127.0.0.1", port=int(port), decode_responses=True, socket_timeout=20)


def main():
    r = connect(PORT)
    thirds = [[name for name in NAMES if third_of(r, name) == i] for i in range(3)]
    assert min(map(len, thirds)) > 100, [len(names) for names in thirds]
    rest = thirds[0] + thirds[2]

    def fill():
        assert len(r.get_nodes()) == 4, r.get_nodes()
        with r.pipeline() as p:
            for name in NAMES:
                p.set(name, name + "!")
            assert all(p.execute())
        sizes = sorted(r.dbsize(target_nodes=node) for node in r.get_nodes())
        assert sum(sizes) == len(NAMES) and sizes[0] > 50, sizes

    def lost():
        found = read(r, thirds[1][:1])  # which the client tries for some seconds
        assert all(isinstance(v, Exception) for v in found.values()), found
        assert read(r, rest) == {name: name + "!" for name in rest}
        for name in rest[:50]:
            assert r.incr(name + "{" + name + "}") == 1
            assert r.delete(name + "{" + name + "}") == 1

    def back():
        hear_of_change(r, thirds[1][0])
        assert read(r, NAMES) == {name: name + "!" for name in NAMES}

    def replaced():
        hear_of_change(r, thirds[1][0])
        assert read(r, thirds[1]) == dict.fromkeys(thirds[1])  # empty
        assert read(r, rest) == {name: name + "!" for name in rest}
        assert all(r.set(name, name + "!") for name in thirds[1])

    def taken_over():
        # Version 4.3.4 cannot connect again when the first of the nodes that it knows has died: it
        # fails at copying its own settings. So this is another client.
        other = connect(OTHER_PORT)
        assert read(other, thirds[0]) == dict.fromkeys(thirds[0])
        others = thirds[1] + thirds[2]
        assert read(other, others) == {name: name + "!" for name in others}

    steps = {"fill": fill, "lost": lost, "back": back, "replaced": replaced, "etcd-away": back,
             "taken-over": taken_over}
    with open(FIFO, encoding="utf-8") as fifo:
        for line in fifo:
            if line.strip() == "end":  # the servers have the other end of it, too
                return
            steps[line.strip()]()
            print("done", line.strip(), flush=True)


main()
