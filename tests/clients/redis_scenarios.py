#!/usr/bin/env python3
"""redis_scenarios.py PULSE [--server kv|serve|agent] [--users N] [--seed N]

Plays fixed scenarios of several connections to `pulse kv` (or `pulse serve`, or an agent in front
of `pulse kv`) and to Debian's redis-server, and compares all that each connection is told, byte for
byte, but for the numbers of clients. Then makes users of random rules, and compares what they may do
(ACL DRYRUN). Prints its seed.
"""
import argparse
import os
import random
import re
import shutil
import socket
import subprocess
import sys
import tempfile
import time

from redis_differential import Client

# What each connection sends, in this order; None: it is to be told of something. {a} is the number
# of the client a.
INVALIDATE = "__redis__:invalidate"
SCENARIOS = {
    "redirection to a client of RESP2 that has subscribed": [
        ("a", "CLIENT GETREDIR"), ("b", "SUBSCRIBE " + INVALIDATE),
        ("a", "CLIENT TRACKING ON REDIRECT {b}"), ("a", "CLIENT GETREDIR"),
        ("a", "CLIENT TRACKINGINFO"), ("a", "GET k"), ("c", "SET k 1"), ("b", None),
        ("c", "SET k 2"), ("b", "PING"), ("b", "PING text"), ("a", "MGET k l"), ("c", "DEL l"),
        ("c", "SET l 1"), ("b", None), ("a", "GET l"), ("a", "SET l 2"), ("b", None),
        ("a", "GET k"), ("c", "FLUSHALL"), ("b", None), ("b", "GET k"), ("b", "SET k 1"),
        ("b", "ECHO x"), ("b", "NOSUCH"), ("b", "MULTI"), ("b", "UNSUBSCRIBE"), ("b", "GET k"),
        ("a", "GET k"), ("c", "SET k 3"), ("b", "ECHO quiet"), ("a", "ECHO quiet")],
    "redirection to a client of RESP3": [
        ("b", "HELLO 3"), ("a", "CLIENT TRACKING ON REDIRECT {b} NOLOOP"), ("a", "GET k"),
        ("a", "SET k 1"), ("b", "ECHO quiet"), ("a", "GET k"), ("c", "SET k 2"), ("b", None),
        ("a", "CLIENT TRACKING ON BCAST PREFIX p: REDIRECT {b}"),
        ("a", "CLIENT TRACKING OFF"), ("a", "CLIENT TRACKING ON BCAST PREFIX p: REDIRECT {b}"),
        ("c", "SET p:1 1"), ("b", None), ("c", "SET q 1"), ("b", "ECHO quiet"),
        ("a", "CLIENT TRACKINGINFO"), ("b", "SUBSCRIBE " + INVALIDATE), ("b", "GET k"),
        ("c", "SET p:2 2"), ("b", None), ("b", "UNSUBSCRIBE " + INVALIDATE), ("c", "SET p:3 2"),
        ("b", None)],
    "several keys at once": [
        ("a", "HELLO 3"), ("a", "CLIENT TRACKING ON BCAST PREFIX b: PREFIX a:"), ("c", "MULTI"),
        ("c", "INCR a:2"), ("c", "INCR b:1"), ("c", "INCR a:1"), ("c", "INCR c:1"), ("c", "INCR a:2"),
        ("c", "EXEC"), ("a", None), ("a", None), ("a", "ECHO quiet"), ("b", "HELLO 3"),
        ("b", "CLIENT TRACKING ON"), ("b", "MGET x y z"), ("c", "MSET y 1 z 1 x 1"), ("b", None),
        ("b", None), ("b", None), ("b", "ECHO quiet")],
    "redirection to itself": [
        ("a", "CLIENT TRACKING ON REDIRECT {a} BCAST"), ("a", "SUBSCRIBE " + INVALIDATE),
        ("b", "SET k 1"), ("a", None), ("a", "RESET"), ("a", "GET k"), ("b", "SET k 2"),
        ("a", "ECHO quiet")],
    "redirection to a client that has gone": [
        ("a", "HELLO 3"), ("a", "CLIENT TRACKING ON REDIRECT {b}"), ("a", "GET k"), ("c", "CLIENT KILL ID {b}"), ("c", "SET k 1"), ("a", None), ("a", "CLIENT TRACKINGINFO"),
        ("a", "CLIENT GETREDIR"), ("a", "GET k"), ("c", "SET k 2"), ("a", None),
        ("a", "CLIENT TRACKING OFF"), ("a", "CLIENT TRACKINGINFO"), ("c", "SET k 3"),
        ("a", "ECHO quiet")],
    "a client of RESP2 whose redirection is broken": [
        ("a", "CLIENT TRACKING ON REDIRECT {b}"), ("a", "GET k"), ("c", "CLIENT KILL ID {b}"), ("c", "SET k 1"), ("a", "ECHO quiet"),
        ("a", "CLIENT TRACKINGINFO")],
    "refused redirections": [
        ("a", "CLIENT TRACKING ON REDIRECT 999999"), ("a", "CLIENT TRACKING ON REDIRECT 0"),
        ("a", "CLIENT TRACKING ON REDIRECT x"), ("a", "CLIENT TRACKING ON REDIRECT"),
        ("a", "CLIENT TRACKING ON REDIRECT -1"), ("a", "CLIENT TRACKING OFF REDIRECT 999999"),
        ("a", "CLIENT TRACKING ON REDIRECT {b} REDIRECT {c}"), ("a", "CLIENT TRACKINGINFO")],
    "subscriptions": [
        ("a", "UNSUBSCRIBE"), ("a", "UNSUBSCRIBE x y"), ("a", "SUBSCRIBE"),
        ("a", f"SUBSCRIBE {INVALIDATE}"), ("a", f"SUBSCRIBE {INVALIDATE}"), ("a", "UNSUBSCRIBE x"),
        ("b", "CLIENT KILL TYPE pubsub"), ("b", "CLIENT KILL TYPE pubsub"),
        ("c", "MULTI"), ("c", f"SUBSCRIBE {INVALIDATE}"), ("c", "GET k"), ("c", "EXEC"),
        ("c", "GET k"), ("c", "RESET"), ("c", "GET k")],
    "tracking by messages on the same connection": [
        ("a", "HELLO 3"), ("a", "CLIENT TRACKING ON"), ("a", "GET k"), ("c", "SET k 1"),
        ("a", None), ("a", "GET k"), ("a", "SET k 2"), ("a", None), ("c", "SET k 3"),
        ("a", "ECHO quiet"), ("a", "GET k"), ("c", "FLUSHALL"), ("a", None), ("a", "MULTI"),
        ("a", "GET k"), ("a", "SET k 1"), ("a", "EXEC"), ("a", None), ("a", "RESET"),
        ("a", "GET k"), ("c", "SET k 1"), ("a", "ECHO quiet")],
    "keys that expire": [
        ("a", "HELLO 3"), ("a", "CLIENT TRACKING ON BCAST PREFIX k NOLOOP"), ("a", "SET k 1 PX 60"),
        ("a", None), ("a", "GET k"), ("b", "HELLO 3"), ("b", "CLIENT TRACKING ON"),
        ("c", "SET k 1 PX 60"), ("a", None), ("a", None), ("c", "SET other 1 PX 60"),
        ("b", "GET other"), ("b", None), ("b", "GET other"), ("a", "ECHO quiet"),
        ("b", "ECHO quiet")],
    "latencies": [
        ("a", "CONFIG RESETSTAT"), ("a", "LATENCY HISTOGRAM get"), ("a", "GET k"),
        ("a", "LATENCY HISTOGRAM get nosuch set"), ("a", "HELLO 3"), ("a", "GET k"),
        ("a", "CONFIG SET latency-tracking no"), ("a", "GET k"),
        ("a", "CONFIG GET latency-tracking"), ("a", "SET k 1"),
        ("a", "CONFIG GET latency-tracking-info-percentiles"),
        ("a", "CONFIG SET latency-tracking yes"), ("a", "LATENCY HISTOGRAM set"),
        ("a", "SETNX k 1"), ("a", "LATENCY HISTOGRAM setnx"), ("a", "LATENCY RESET"),
        ("a", "LATENCY LATEST"), ("a", "LATENCY HISTORY command"),
        ("a", "CONFIG SET latency-tracking maybe")],
    "users": [
        ("a", "ACL SETUSER x on nopass ~a* %R~r* %W~w* +get +set +getdel +client|id +watch +exists "
              "+append +mget"),
        ("b", "AUTH x y"), ("b", "GET b"), ("b", "GET a"), ("b", "GET w"), ("b", "SET w 1"),
        ("b", "SET w 1 GET"), ("b", "SET r 1"), ("b", "GETDEL w"), ("b", "APPEND w x"),
        ("b", "EXISTS w"), ("b", "EXISTS z"), ("b", "MGET a r z"), ("b", "CLIENT LIST"),
        ("b", "CLIENT ID"), ("b", "PING"), ("b", "ACL WHOAMI"), ("b", "WATCH w"), ("b", "WATCH z"),
        ("a", "ACL SETUSER x -get"), ("b", "GET a"), ("a", "ACL SETUSER x +@all"), ("b", "GET a"),
        ("b", "ACL WHOAMI"), ("b", f"SUBSCRIBE {INVALIDATE}"), ("a", "ACL SETUSER x &__red*"),
        ("b", f"SUBSCRIBE {INVALIDATE}"), ("a", "ACL DELUSER nobody x"), ("c", "AUTH x y"),
        ("c", "PING"), ("a", "ACL USERS")],
    "rules that change within a transaction": [
        ("a", "ACL SETUSER x on nopass ~a* ~b* +@all"), ("b", "AUTH x y"), ("b", "MULTI"),
        ("b", "GET a"), ("b", "SET a 1"), ("b", "GET b"), ("a", "ACL SETUSER x -get"),
        ("b", "SET a 2"), ("b", "EXEC"), ("b", "MULTI"), ("b", "SET a 3"),
        ("a", "ACL SETUSER x -set"), ("b", "SET a 4"), ("b", "EXEC"),
        ("a", "ACL SETUSER x +@all"), ("b", "MULTI"), ("b", "GET b"), ("b", "MGET a b"),
        ("b", "SET a 5"), ("a", "ACL SETUSER x resetkeys ~a*"), ("b", "EXEC"), ("b", "MULTI"),
        ("b", "ACL SETUSER x -get"), ("b", "GET a"), ("b", "SET a 6"),
        ("b", "ACL SETUSER x +get"), ("b", "GET a"), ("b", "EXEC"), ("b", "GET a"),
        ("b", "MULTI"), ("b", "PING"), ("a", "ACL SETUSER x -exec"), ("b", "EXEC"),
        ("a", "ACL SETUSER x +exec"), ("b", "EXEC"), ("b", "GET a"), ("b", "MULTI"),
        ("b", "EXEC x"), ("b", "EXEC"), ("b", "EXEC x"), ("a", "ACL DELUSER x")],
    "a user that is made again": [
        ("a", "ACL SETUSER x on nopass ~* +@all"), ("b", "AUTH x y"), ("b", "PING"), ("a", "MULTI"),
        ("a", "ACL DELUSER x"), ("a", "ACL SETUSER x on nopass ~* +@all"), ("a", "EXEC"),
        ("b", None), ("c", "AUTH x y"), ("c", "PING"), ("a", "ACL DELUSER x")],
    "rules of users": [
        ("a", "ACL SETUSER x on >p ~a* %R~b +get"), ("a", "ACL GETUSER x"), ("a", "ACL LIST"),
        ("a", "ACL SETUSER x foo"), ("a", "ACL SETUSER x +nosuch"), ("a", "ACL SETUSER x +@nosuch"),
        ("a", "ACL SETUSER x <nopw"), ("a", "ACL SETUSER x #12"), ("a", "ACL SETUSER x !12"),
        ("a", "ACL SETUSER x +client|nosuch"), ("a", "ACL SETUSER x %Z~a"), ("a", "ACL SETUSER x %~a"),
        ("a", "ACL SETUSER x (+get"), ("a", "ACL SETUSER x +get|"), ("a", "ACL LIST"),
        ("a", "ACL SETUSER x (+get ~q*) (-@all +set ~s*)"), ("a", "ACL GETUSER x"), ("a", "ACL LIST"),
        ("a", "ACL SETUSER x clearselectors skip-sanitize-payload &foo &bar"), ("a", "ACL LIST"),
        ("a", "ACL SETUSER x allchannels &foo"), ("a", "ACL SETUSER x resetchannels &foo"),
        ("a", "ACL GETUSER x"), ("a", "ACL SETUSER x allkeys ~x"), ("a", "ACL SETUSER x reset"),
        ("a", "ACL GETUSER x"), ("a", "ACL LIST"), ("a", "ACL SETUSER x on off nopass resetpass"),
        ("a", "ACL GETUSER x"), ("a", "ACL GETUSER nosuch"), ("a", "ACL SETUSER x +@all -@dangerous"),
        ("a", "ACL LIST"), ("a", "ACL SETUSER x +@all -get +@read"), ("a", "ACL LIST"),
        ("a", "ACL SETUSER x >p >q >p"), ("a", "ACL LIST"), ("a", "ACL SETUSER x <q"),
        ("a", "ACL LIST"), ("a", "HELLO 3"), ("a", "ACL GETUSER x"), ("a", "ACL DELUSER x"),
        ("a", "ACL DELUSER x"), ("a", "ACL DELUSER default"), ("a", "ACL SAVE"), ("a", "ACL LOAD"),
        ("a", "ACL SETUSER"), ("a", "ACL GETUSER"), ("a", "ACL WHOAMI x"), ("a", "ACL CAT"),
        ("a", "ACL CAT nosuch"), ("a", "ACL GENPASS 0"), ("a", "ACL DRYRUN nobody get"),
        ("a", "ACL DRYRUN default nosuch"), ("a", "ACL DRYRUN default get"), ("a", "ACL WHOAMI")],
    "the default user": [
        ("a", "ACL SETUSER default off"), ("a", "PING"), ("a", "ACL SETUSER default >foo on"),
        ("a", "ACL LIST"), ("b", "AUTH foo"), ("b", "AUTH bar"), ("b", "PING"),
        ("b", "ACL SETUSER default nopass"), ("b", "ACL LIST"), ("c", "AUTH foo")],
    "without replies": [
        ("a", "CLIENT REPLY SKIP", "SET k 1", "GET k"),
        ("a", "CLIENT REPLY OFF", "SET k 2", "CLIENT REPLY ON"), ("a", "GET k"),
        ("b", "CLIENT KILL ID {a} SKIPME no"), ("b", "CLIENT KILL ID {b} SKIPME no")],
}
# What a server is known to do differently (docs/services/kv.md).
NOT_AS_REDIS = {"keys that expire": ["serve"]}
RULES = ["~a*", "~b", "%R~c*", "%W~c*", "%W~d", "%RW~e", "allkeys", "resetkeys", "&x", "+@all",
         "-@all", "+@read", "+@write", "-@write", "-@dangerous", "+@string", "-@fast", "+@slow",
         "+@keyspace", "+@connection", "+@transaction", "+@pubsub", "+@admin", "-@admin", "+get",
         "-get", "+set", "+mget", "+client", "-client|kill", "+client|id", "+config|get", "-client",
         "(~f +get)", "(%R~* +@all -set)", "clearselectors", "reset", "+cluster|info", "+object"]
REQUESTS = ["get a1", "get c1", "set b 1", "set c 1", "set c 1 get", "getdel e", "del a d", "mget a b",
            "client id", "client kill id 1", "client list", "config get x", "config set x y", "ping",
            "flushall", "get f", "rename a d", "copy a d", "bitop and d a b", "bitop not a b",
            "exists a d", "bitfield c get u8 0", "bitfield c set u8 0 1", "subscribe x", "acl whoami",
            "acl list", "strlen c", "append d x", "multi", "exec", "watch d", "info", "keys *", "scan 0",
            "dbsize", "object freq d", "memory usage d", "latency latest", "slowlog get", "role",
            "cluster info", "cluster slots", "command count", "auth x", "hello 3", "quit", "reset",
            "select 0", "time", "wait 0 0", "debug x", "getex c", "persist d", "lcs a b",
            "restore d 0 x", "dump c", "type d", "randomkey", "msetnx d 1", "setrange d 0 x"]


def users_like_redis(ports, draw, users):
    """How many requests some user may make of one server alone."""
    failed = 0
    us, them = (Client(port) for port in ports)
    for _ in range(users):
        words = [draw.choice(RULES) for _ in range(draw.randint(1, 7))]
        steps = [["ACL", "DELUSER", "u"]] + [["ACL", "SETUSER", "u"] + word.split() for word in words]
        steps += [["ACL", "DRYRUN", "u"] + request.split() for request in REQUESTS]
        for step in steps:
            us.send(step)
            them.send(step)
        for step in steps:
            mine, other = us.receive(), them.receive()
            if mine != other:
                failed += 1
                print(f"{' '.join(words)}: {step} gives {mine!r}, and redis-server gives {other!r}")
    return failed


# What a call has taken at most, in microseconds, as both count it.
BOUNDS = [((1 << n) + (1 << (n - 7)) - 1) // 1000 for n in range(10, 31)]
LATENCY = re.compile(rb"(histogram_usec\r\n(?:\*2|%1)\r\n):(\d+)\r\n")


def free_port():
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return probe.getsockname()[1]


class Servers:
    """redis-server and ours, until closed."""

    def __init__(self, pulse, kind, extra=()):
        redis = shutil.which("redis-server")
        if redis is None:
            sys.exit("redis_scenarios: redis-server is not installed: apt-get install redis-server "
                     "(Debian then starts one of its own on port 6379)")
        self.work = tempfile.mkdtemp()
        self.children = []
        their_port = free_port()
        self.start([redis, "--port", str(their_port), "--bind", "127.0.0.1", "--save", "",
                    "--dir", self.work, *extra], stdout=subprocess.DEVNULL)
        socket_path = os.path.join(self.work, "agent.sock")
        command = [pulse, "kv", "--port", "0", "--threads", "2"]
        if kind == "serve":
            command = [pulse, "serve", "--port", "0", "--db", os.path.join(self.work, "db"),
                       "--offload", "off"]
        elif kind == "agent":
            command += ["--agent-socket", socket_path]
        server = self.start(command, stderr=subprocess.PIPE, text=True)
        our_port = int(re.search(r":(\d+) ", server.stderr.readline()).group(1))
        if kind == "agent":
            our_port = free_port()
            self.start([pulse, "agent", "--socket", os.path.join(self.work, "pulse.sock"),
                        "--serve-kv", socket_path, "--serve", str(our_port)],
                       stderr=subprocess.DEVNULL)
            while b"LOADING" in self.ask(our_port, ["GET", "k"]):
                time.sleep(0.1)
        self.ports = [our_port, their_port]

    @staticmethod
    def ask(port, words):
        client = Client(port)
        client.send(words)
        return client.receive()

    def start(self, command, **how):
        self.children.append(subprocess.Popen(command, **how))
        return self.children[-1]

    def close(self):
        for child in reversed(self.children):
            child.kill()
            child.wait()
        shutil.rmtree(self.work, ignore_errors=True)


def play(port, steps):
    """What each step was answered."""
    Servers.ask(port, ["FLUSHALL"])
    clients, numbers = {}, {}
    for name in sorted({step[0] for step in steps} | {"a", "b", "c"}):
        clients[name] = Client(port)
        clients[name].send(["CLIENT", "ID"])
        numbers[name] = int(clients[name].receive()[1:])
    told = []
    for name, *lines in steps:
        client = clients[name]
        for line in lines:
            if line is not None:
                client.send(line.format(**numbers).split())
        try:
            reply = client.receive()
        except TimeoutError:
            told.append(b"nothing")
            break
        for other, number in numbers.items():
            reply = reply.replace(b":%d\r\n" % number, b":<%s>\r\n" % other.encode())
        told.append(LATENCY.sub(
            lambda m: m[1] + (b"<bound>" if int(m[2]) in BOUNDS else m[2]), reply))
    for client in clients.values():
        client.file.close()
        client.socket.close()
    return told


def main():
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("pulse")
    parser.add_argument("--server", choices=["kv", "serve", "agent"], default="kv")
    parser.add_argument("--users", type=int, default=300, help="of random rules")
    parser.add_argument("--seed", type=int, default=None)
    args = parser.parse_args()
    seed = args.seed if args.seed is not None else random.SystemRandom().randrange(1 << 32)
    print(f"seed {seed} (repeat with --seed {seed})", flush=True)
    servers = Servers(args.pulse, args.server)
    failed = played = 0
    try:
        for scenario, steps in SCENARIOS.items():
            if args.server in NOT_AS_REDIS.get(scenario, []):
                print(f"left out, as pulse {args.server} is known to differ: {scenario}")
                continue
            played += 1
            ours, theirs = (play(port, steps) for port in servers.ports)
            for step, mine, other in zip(steps, ours, theirs):
                if mine == other:
                    continue
                failed += 1
                print(f"{scenario}: {step} gives {mine!r}, and redis-server gives {other!r}")
        failed += users_like_redis(servers.ports, random.Random(seed), args.users)
    finally:
        servers.close()
    if failed:
        sys.exit(f"redis_scenarios: {failed} replies differ")
    print(f"{played} scenarios, {args.users} users: the same replies as redis-server's")


if __name__ == "__main__":
    main()
