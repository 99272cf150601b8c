#!/usr/bin/env python3
"""bolt_driver_test.py SERVER [unittest's arguments]: Neo4j's driver for Python against a Bolt server.

SERVER is a command that serves an empty graph, prints its port, and ends with its standard input. It
takes --users, --cert, --key, --aborts (commits that fail as if others had changed the same) and
--stalled (milliseconds); see src/services/graph/bolt/test_bolt_server.cc. The driver is the one that
`import neo4j` finds."""
import datetime
import math
import os
import random
import shlex
import subprocess
import sys
import tempfile
import threading
import time
import unittest
from concurrent.futures import ThreadPoolExecutor

import neo4j
import pytz
from neo4j import GraphDatabase
from neo4j.exceptions import (AuthError, ClientError, ConstraintError, CypherSyntaxError, DriverError,
                              Neo4jError, ServiceUnavailable, TransientError)
from neo4j.time import Date, DateTime, Duration, Time

SERVER = []
LONG = "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN count(b) AS n"


class Server:
    def __init__(self, *options):
        self.process = subprocess.Popen(SERVER + list(options), stdin=subprocess.PIPE,
                                        stdout=subprocess.PIPE, text=True)
        line = self.process.stdout.readline()
        if not line.strip().isdigit():
            raise RuntimeError(f"{SERVER}: no port, but {line!r}")
        self.port = int(line)

    def driver(self, scheme="bolt", auth=None, **options):
        return GraphDatabase.driver(f"{scheme}://127.0.0.1:{self.port}", auth=auth, **options)

    def stop(self):
        self.process.stdin.close()
        if self.process.wait(timeout=60) != 0:
            raise RuntimeError(f"the server ended with {self.process.returncode}")
        self.process.stdout.close()


class DriverTest(unittest.TestCase):
    @classmethod
    def setUpClass(cls):
        cls.server = Server()
        cls.driver = cls.server.driver()

    @classmethod
    def tearDownClass(cls):
        cls.driver.close()
        cls.server.stop()

    def setUp(self):
        self.driver.execute_query("MATCH (n) DETACH DELETE n")

    def value(self, query, **parameters):
        records, _, _ = self.driver.execute_query(query, parameters)
        self.assertEqual(len(records), 1)
        return records[0][0]

    def test_Connectivity_ServerInfo_NamesVersion(self):
        self.driver.verify_connectivity()
        info = self.driver.get_server_info()
        self.assertTrue(info.agent.startswith("Neo4j/5."))
        version = info.protocol_version
        version = tuple(version.version if hasattr(version, "version") else version)
        self.assertGreaterEqual(version, (5, 0))

    def test_Routing_NeoScheme_Serves(self):
        with self.server.driver("neo4j") as driver:
            records, _, _ = driver.execute_query("RETURN 1 AS one", database_="neo4j")
            self.assertEqual(records[0]["one"], 1)
            with self.assertRaises(ClientError) as caught:
                driver.execute_query("RETURN 1", database_="another")
            self.assertEqual(caught.exception.code, "Neo.ClientError.Database.DatabaseNotFound")

    def test_Values_Plain_ComeBackTheSame(self):
        long_text = "long " * 20000
        for value in (None, True, False, 0, 1, -1, -16, -17, 127, 128, -128, -129, 32767, 32768, -32768,
                      -32769, 2147483647, 2147483648, -2147483648, -2147483649, 2**63 - 1, -2**63, 0.0,
                      -0.5, 1e300, math.inf, "", "a", "x" * 15, "x" * 16, "x" * 255, "x" * 256,
                      "x" * 65536, "ünïcödé ☃ 𝄞", long_text, [], [1, "a", None], [[1], [[2]]],
                      list(range(15)), list(range(16)), list(range(300)), list(range(70000)),
                      {}, {"a": 1, "b": {"c": [None]}}, {str(i): i for i in range(300)}):
            self.assertEqual(self.value("RETURN $v", v=value), value)
        self.assertTrue(math.isnan(self.value("RETURN $v", v=math.nan)))

    def test_Values_Random_ComeBackTheSame(self):
        seed = int(os.environ.get("PULSE_TEST_SEED") or str(random.randrange(2**32)), 0)
        print(f"seed {seed} (repeat with PULSE_TEST_SEED={seed})", flush=True)
        chance = random.Random(seed)

        def make(depth):
            kind = chance.randrange(8 if depth < 5 else 6)
            if kind == 0:
                return chance.randrange(-2**63, 2**63) >> chance.randrange(64)
            if kind == 1:
                return chance.uniform(-1e9, 1e9)
            if kind == 2:
                return "".join(chr(chance.choice((97, 228, 9731, 119070))) for _ in range(chance.randrange(20)))
            if kind == 3:
                return Date.from_ordinal(chance.randrange(1, 3000000))
            if kind == 4:
                return Duration(months=chance.randrange(-99, 99), days=chance.randrange(-99, 99),
                                seconds=chance.randrange(-99999, 99999), nanoseconds=chance.randrange(10**9))
            if kind == 5:
                return chance.choice((None, True, False))
            size = chance.randrange(6)
            if kind == 6:
                return [make(depth + 1) for _ in range(size)]
            return {f"k{i}": make(depth + 1) for i in range(size)}

        values = [make(0) for _ in range(200)]
        self.assertEqual(self.value("RETURN $v", v=values), values)

    def test_Values_Temporal_ComeBackTheSame(self):
        zone = pytz.FixedOffset(330)
        berlin = pytz.timezone("Europe/Berlin")
        # pytz: datetime's own zones and the driver's types do not go together.
        for value in (Date(2024, 2, 29), Date(1, 1, 1), Date(9999, 12, 31), Time(23, 59, 59, 999999999),
                      Time(1, 2, 3, 4, zone), DateTime(2024, 5, 6, 7, 8, 9, 123456789),
                      DateTime(1969, 12, 31, 23, 59, 59, 1, zone),
                      Duration(months=-1, days=2, seconds=-3, nanoseconds=4)):
            self.assertEqual(self.value("RETURN $v", v=value), value)
        west = pytz.FixedOffset(-210).localize(datetime.datetime(1969, 7, 1, 12))
        self.assertEqual(self.value("RETURN $v", v=west).to_native(), west)
        back = self.value("RETURN $v", v=berlin.localize(datetime.datetime(2024, 7, 1, 12)))
        self.assertEqual(back.to_native(), datetime.datetime(2024, 7, 1, 10, 0, tzinfo=datetime.timezone.utc))
        self.assertEqual(back.utcoffset(), datetime.timedelta(hours=2))
        self.assertEqual(self.value("RETURN datetime('2024-01-01T12:00[Europe/Berlin]')").iso_format(),
                         "2024-01-01T12:00:00.000000000+01:00")
        self.assertEqual(self.value("RETURN date($d).year", d=Date(2024, 2, 29)), 2024)

    def test_Values_Bytes_ComeBackTheSame(self):
        for size in (0, 1, 255, 256, 65535, 65536, 200000):
            value = random.randbytes(size)
            self.assertEqual(self.value("RETURN $v", v=value), value)
        self.assertEqual(self.value("RETURN $v", v=[bytearray(b"a"), "a"]), [b"a", "a"])
        self.driver.execute_query("CREATE (:Raw {b: $v, l: [$v]})", v=b"\x00\xff")
        self.assertEqual(dict(self.value("MATCH (n:Raw {b: $v}) RETURN n", v=b"\x00\xff")),
                         {"b": b"\x00\xff", "l": [b"\x00\xff"]})
        self.assertEqual(self.value("RETURN size($v)", v=b"\x00\xff"), 2)

    def test_Values_Points_ComeBackTheSame(self):
        spatial = neo4j.spatial
        for value in (spatial.CartesianPoint((1, -2.5)), spatial.CartesianPoint((1, 2, 3)),
                      spatial.WGS84Point((13.4, 52.5)), spatial.WGS84Point((13.4, 52.5, 34))):
            back = self.value("RETURN $v", v=value)
            self.assertEqual((type(back), back.srid, back), (type(value), value.srid, value))
            self.assertEqual(self.value("RETURN $v", v=[value, {"a": value}]), [value, {"a": value}])
            self.driver.execute_query("CREATE (:At {p: $v, l: [$v]})", v=value)
            self.assertEqual(dict(self.value("MATCH (n:At {p: $v}) RETURN n", v=value)),
                             {"p": value, "l": [value]})
        made = self.value("RETURN point({longitude: 13.4, latitude: 52.5, height: 34})")
        self.assertEqual((made.longitude, made.latitude, made.height), (13.4, 52.5, 34.0))
        self.assertEqual(self.value("RETURN point.distance($a, $b)", a=spatial.CartesianPoint((0, 0)),
                                    b=spatial.CartesianPoint((3, 4))), 5.0)

    def test_Values_WithoutAType_AreRefused(self):
        with self.assertRaises(Neo4jError):
            self.driver.execute_query("RETURN $v", v=neo4j.spatial.WGS84Point((0, 91)))
        self.assertEqual(self.value("RETURN 1"), 1)

    def test_Graph_NodesRelationshipsPaths_HaveAll(self):
        self.driver.execute_query(
            "CREATE (a:A:B {name: 'a'})-[:R {w: 1}]->(b:B)<-[:S]-(c), (a)-[:LOOP]->(a)")
        node = self.value("MATCH (n:A) RETURN n")
        self.assertEqual(node.labels, frozenset({"A", "B"}))
        self.assertEqual(dict(node), {"name": "a"})
        self.assertEqual(self.value("MATCH (n:A) RETURN elementId(n)"), node.element_id)
        edge = self.value("MATCH (:A)-[r:R]->() RETURN r")
        self.assertEqual((edge.type, dict(edge)), ("R", {"w": 1}))
        self.assertEqual(edge.start_node.element_id, node.element_id)
        path = self.value("MATCH p = (:A)-[:R]->()<-[:S]-() RETURN p")
        self.assertEqual([r.type for r in path.relationships], ["R", "S"])
        self.assertEqual(len(path.nodes), 3)
        self.assertEqual(path.relationships[1].end_node, path.nodes[1])
        loop = self.value("MATCH p = (a:A)-[:LOOP]->(a)-[:R]->() RETURN p")
        self.assertEqual(len(loop.nodes), 3)
        self.assertEqual(loop.nodes[0], loop.nodes[1])
        single = self.value("MATCH p = (:A) RETURN p")
        self.assertEqual((len(single), len(single.nodes)), (0, 1))
        nested = self.value("MATCH (a:A)-[r:R]->(b) RETURN {list: [a, r], b: b}")
        self.assertEqual(nested["list"][0].element_id, node.element_id)
        self.assertEqual(nested["list"][1].end_node, nested["b"])

    def test_Summary_Counters_AndType(self):
        _, summary, keys = self.driver.execute_query("CREATE (a:A {x: 1})-[:R]->(b:B) RETURN a, 1 AS one")
        self.assertEqual(keys, ["a", "one"])
        counters = summary.counters
        self.assertEqual((counters.nodes_created, counters.relationships_created, counters.labels_added,
                          counters.properties_set), (2, 1, 2, 1))
        self.assertTrue(counters.contains_updates)
        self.assertEqual(summary.query_type, "rw")
        self.assertEqual(summary.database, "neo4j")
        with self.driver.session() as session:
            summary = session.run("EXPLAIN MATCH (n:A) RETURN n").consume()
        self.assertEqual(summary.plan["operatorType"], "Project")
        self.assertIn("Scan", summary.plan["args"]["string-representation"])
        with self.driver.session() as session:
            profile = session.run("PROFILE MATCH (n:A) RETURN n").consume().profile
        self.assertEqual(profile["rows"], 1)
        self.assertEqual(profile["children"][0]["operatorType"], "Scan")
        self.assertEqual(profile["children"][0]["dbHits"], profile["args"]["Total"].get("Hits", 0))

    def test_Streaming_LargeResult_IsWhole(self):
        query = "UNWIND range(1, 300) AS a UNWIND range(1, 500) AS b RETURN a * 1000 + b AS n, 'x' AS x"
        for size in (1, 100, 1000, -1):
            limit = 500 if size == 1 else 10000
            with self.driver.session(fetch_size=size) as session:
                result = session.run(f"{query} LIMIT {limit}")
                numbers = [record["n"] for record in result]
            self.assertEqual(len(numbers), limit)
            self.assertEqual(numbers[-1], (limit - 1) // 500 * 1000 + 1000 + (limit - 1) % 500 + 1)

    def test_Streaming_StoppedEarly_LeavesTheConnection(self):
        endless = "UNWIND range(1, 1000000) AS a UNWIND range(1, 1000000) AS b RETURN a, b"
        with self.driver.session(fetch_size=10) as session:
            result = session.run(endless)
            self.assertEqual(next(iter(result))["b"], 1)
            result.consume()
            self.assertEqual(session.run("RETURN 1 AS x").single()["x"], 1)
            next(iter(session.run(endless)))
        with self.driver.session(fetch_size=10) as session:
            transaction = session.begin_transaction()
            next(iter(transaction.run(endless)))
            transaction.rollback()
            self.assertEqual(session.run("RETURN 2 AS x").single()["x"], 2)

    def test_Transaction_SeveralResultsAtOnce(self):
        query = "UNWIND range(1, $n) AS x RETURN x"
        with self.driver.session(fetch_size=7) as session, session.begin_transaction() as transaction:
            first = transaction.run(query, n=5000)
            self.assertEqual(next(first)["x"], 1)
            transaction.run("CREATE (:T)")
            second = transaction.run("MATCH (t:T) UNWIND range(1, 100) AS x RETURN x, t")
            self.assertEqual(next(second)["x"], 1)
            self.assertEqual([r["x"] for r in first], list(range(2, 5001)))
            self.assertEqual(len(list(second)), 99)
            transaction.commit()
        self.assertEqual(self.value("MATCH (t:T) RETURN count(t)"), 1)

    def test_Transaction_RolledBack_LeavesNothing(self):
        with self.driver.session() as session:
            with session.begin_transaction() as transaction:
                transaction.run("CREATE (:T)")
                transaction.rollback()
            with self.assertRaises(ZeroDivisionError):
                session.execute_write(lambda tx: (tx.run("CREATE (:T)"), 1 // 0))
            transaction = session.begin_transaction()
            transaction.run("CREATE (:T)").consume()
            with self.assertRaises(ClientError):
                transaction.run("RETURN 1 / 0").consume()
            transaction.close()
        self.assertEqual(self.value("MATCH (t:T) RETURN count(t)"), 0)

    def test_Transaction_ReadOnly_RefusesWrites(self):
        with self.driver.session() as session:
            self.assertEqual(session.execute_read(lambda tx: tx.run("RETURN 1 AS x").single()["x"]), 1)
            with self.assertRaises(ClientError) as caught:
                session.execute_read(lambda tx: tx.run("CREATE (n)").consume())
            self.assertEqual(caught.exception.code, "Neo.ClientError.Statement.AccessMode")

    def test_Bookmarks_AreCausal(self):
        with self.driver.session() as session:
            session.run("CREATE (:Mark)").consume()
            marks = session.last_bookmarks()
        self.assertTrue(marks.raw_values)
        with self.driver.session(bookmarks=marks) as session:
            self.assertEqual(session.run("MATCH (m:Mark) RETURN count(m) AS n").single()["n"], 1)
        with self.driver.session(bookmarks=neo4j.Bookmarks.from_raw_values(["other:1"])) as session:
            with self.assertRaises(ClientError) as caught:
                session.run("RETURN 1").consume()
        self.assertEqual(caught.exception.code, "Neo.ClientError.Transaction.InvalidBookmark")

    def test_Errors_HaveNeo4jCodes(self):
        for query, code in (
                ("RETRUN 1", "Neo.ClientError.Statement.SyntaxError"),
                ("RETURN nobody", "Neo.ClientError.Statement.SyntaxError"),
                ("RETURN 1 / 0", "Neo.ClientError.Statement.ArithmeticError"),
                ("RETURN $missing", "Neo.ClientError.Statement.ParameterMissing"),
                ("CALL no.such()", "Neo.ClientError.Procedure.ProcedureNotFound"),
                ("CREATE TEXT INDEX FOR (n:A) ON (n.x)",
                 "Neo.ClientError.Statement.UnsupportedOperationError"),
                ("DROP INDEX nothing", "Neo.ClientError.Schema.IndexNotFound")):
            with self.driver.session() as session, self.assertRaises(Neo4jError) as caught:
                session.run(query).consume()
            self.assertEqual(caught.exception.code, code, query)
        with self.assertRaises(CypherSyntaxError) as caught:
            self.driver.execute_query("MATCH (n RETURN n")
        self.assertIn("line 1, column 10", caught.exception.message)

    def test_Schema_ConstraintsAreKept(self):
        self.driver.execute_query("CREATE CONSTRAINT c FOR (n:Key) REQUIRE n.id IS UNIQUE")
        try:
            _, summary, _ = self.driver.execute_query(
                "CREATE CONSTRAINT c IF NOT EXISTS FOR (n:Key) REQUIRE n.id IS UNIQUE")
            self.assertEqual(summary.counters.constraints_added, 0)
            self.driver.execute_query("CREATE (:Key {id: 1})")
            with self.assertRaises(ConstraintError) as caught:
                self.driver.execute_query("CREATE (:Key {id: 1})")
            self.assertEqual(caught.exception.code, "Neo.ClientError.Schema.ConstraintValidationFailed")
            records, _, _ = self.driver.execute_query("SHOW CONSTRAINTS YIELD name, properties")
            self.assertEqual([(r["name"], r["properties"]) for r in records], [("c", ["id"])])
        finally:
            self.driver.execute_query("DROP CONSTRAINT c")

    def test_Timeout_OfATransaction_EndsIt(self):
        with self.driver.session() as session:
            with self.assertRaises(ClientError) as caught:
                session.run(neo4j.Query(LONG, timeout=0.2)).consume()
            self.assertEqual(caught.exception.code, "Neo.ClientError.Transaction.TransactionTimedOut")
            # A client that is silent in its transaction does not keep it.
            transaction = session.begin_transaction(timeout=0.2)
            transaction.run("CREATE (:T)").consume()
            deadline = time.monotonic() + 60
            while len(self.driver.execute_query("SHOW TRANSACTIONS")[0]) > 1 and time.monotonic() < deadline:
                pass
            self.driver.execute_query("CREATE (:Other)")
            with self.assertRaises(ClientError):
                transaction.run("RETURN 1").consume()
            transaction.close()
        self.assertEqual(self.value("MATCH (t:T) RETURN count(t)"), 0)

    def test_Terminate_LongQuery_EndsAndDelaysNobody(self):
        outcome = []

        def run_long():
            with self.driver.session() as session:
                try:
                    session.run(LONG, {}).consume()
                    outcome.append("done")
                except Neo4jError as error:
                    outcome.append(error.code)

        thread = threading.Thread(target=run_long)
        thread.start()
        find = ("SHOW TRANSACTIONS YIELD transactionId AS id, currentQuery AS q "
                "WHERE q STARTS WITH 'UNWIND' RETURN id")
        deadline = time.monotonic() + 60
        ids = []
        while not ids and time.monotonic() < deadline:
            ids = [r["id"] for r in self.driver.execute_query(find)[0]]
        self.assertEqual(len(ids), 1)
        records, _, _ = self.driver.execute_query("TERMINATE TRANSACTIONS $ids", ids=ids)
        self.assertEqual(records[0]["message"], "Transaction terminated.")
        thread.join()
        self.assertIn(outcome[0], ("Neo.ClientError.Transaction.Terminated",
                                   "Neo.TransientError.Transaction.Terminated"))

    def test_Sessions_InParallel_SeeTheirOwn(self):
        def work(number):
            with self.driver.session() as session:
                for i in range(20):
                    session.execute_write(lambda tx, i=i: tx.run("CREATE (:P {n: $n, i: $i})", n=number, i=i))
                return session.run("MATCH (p:P {n: $n}) RETURN count(p) AS c", n=number).single()["c"]

        with ThreadPoolExecutor(8) as pool:
            self.assertEqual(list(pool.map(work, range(8))), [20] * 8)
        self.assertEqual(self.value("MATCH (p:P) RETURN count(p)"), 160)

    def test_Procedures_WhatToolsAsk_IsAnswered(self):
        self.driver.execute_query("CREATE (:Tool {p: 1})-[:USES]->(:Tool)")
        self.assertIn("Tool", [r["label"] for r in self.driver.execute_query("CALL db.labels()")[0]])
        self.assertIn("USES", [r["relationshipType"] for r in
                               self.driver.execute_query("CALL db.relationshipTypes()")[0]])
        self.assertTrue(self.value("CALL db.ping()"))
        self.assertTrue(self.driver.execute_query("CALL dbms.components()")[0])


class RetryTest(unittest.TestCase):
    def test_Aborted_TransactionFunction_RunsAgain(self):
        server = Server("--aborts", "2")
        try:
            attempts = []
            with server.driver(initial_retry_delay=0.05) as driver, driver.session() as session:
                session.execute_write(lambda tx: (attempts.append(1), tx.run("CREATE (:T)").consume()))
                self.assertEqual(len(attempts), 3)
                self.assertEqual(session.run("MATCH (t:T) RETURN count(t) AS n").single()["n"], 1)
        finally:
            server.stop()

    def test_Aborted_QueryOfItsOwn_IsRunAgainByTheServer(self):
        server = Server("--aborts", "3")
        try:
            with server.driver() as driver, driver.session() as session:
                self.assertEqual(session.run("CREATE (t:T) RETURN t.x IS NULL AS x").single()["x"], True)
                self.assertEqual(session.run("MATCH (t:T) RETURN count(t) AS n").single()["n"], 1)
        finally:
            server.stop()

    def test_Aborted_TransactionWithoutFunction_IsTransient(self):
        server = Server("--aborts", "1")
        try:
            with server.driver() as driver, driver.session() as session:
                transaction = session.begin_transaction()
                transaction.run("CREATE (:T)").consume()
                with self.assertRaises(TransientError) as caught:
                    transaction.commit()
                self.assertEqual(caught.exception.code, "Neo.TransientError.Transaction.Outdated")
        finally:
            server.stop()

    def test_Stalled_ClientOfALargeResult_IsEnded(self):
        server = Server("--stalled", "100")
        try:
            with server.driver() as driver, driver.session(fetch_size=1) as session:
                result = session.run("UNWIND range(1, 1000) AS a UNWIND range(1, 1000) AS b "
                                     "RETURN a, b, '" + "x" * 100 + "' AS x")
                next(iter(result))
                with self.assertRaises(ClientError):
                    # sleep: the server ends what it waits for
                    for _ in result:
                        time.sleep(0.4)
        finally:
            server.stop()


class AccessTest(unittest.TestCase):
    def setUp(self):
        self.folder = tempfile.TemporaryDirectory()

    def tearDown(self):
        self.folder.cleanup()

    def users(self):
        path = os.path.join(self.folder.name, "users")
        with open(path, "w", encoding="utf-8") as file:
            file.write("user ann on >secret +@all\nuser bob on >word +@read\n")
        return path

    def test_Basic_RightAndWrongPasswords(self):
        server = Server("--users", self.users())
        try:
            with server.driver(auth=("ann", "secret")) as driver:
                driver.execute_query("CREATE (:A)")
            with server.driver(auth=("bob", "word")) as driver:
                self.assertEqual(driver.execute_query("MATCH (a) RETURN count(a) AS n")[0][0]["n"], 1)
                with self.assertRaises(Neo4jError) as caught:
                    driver.execute_query("CREATE (:A)")
                self.assertEqual(caught.exception.code, "Neo.ClientError.Security.Forbidden")
            for auth in (("ann", "wrong"), ("nobody", "secret"), None):
                with server.driver(auth=auth) as driver, self.assertRaises((AuthError, ClientError)) as caught:
                    driver.verify_connectivity()
                self.assertEqual(caught.exception.code, "Neo.ClientError.Security.Unauthorized")
            with server.driver(auth=("ann", "secret")) as driver:
                self.assertTrue(driver.verify_authentication(("bob", "word")))
                self.assertFalse(driver.verify_authentication(("bob", "secret")))
                with driver.session(auth=("bob", "word")) as session:
                    record = session.run("CALL dbms.showCurrentUser() YIELD username RETURN username").single()
                    self.assertEqual(record["username"], "bob")
        finally:
            server.stop()

    def test_Tls_SelfSigned_IsSpoken(self):
        cert, key = (os.path.join(self.folder.name, name) for name in ("cert.pem", "key.pem"))
        subprocess.run(["openssl", "req", "-x509", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:P-256",
                        "-nodes", "-days", "2", "-subj", "/CN=localhost", "-keyout", key, "-out", cert],
                       check=True, capture_output=True)
        server = Server("--cert", cert, "--key", key)
        try:
            for scheme in ("bolt+ssc", "neo4j+ssc"):
                with server.driver(scheme) as driver:
                    self.assertEqual(driver.execute_query("RETURN 1 AS x")[0][0]["x"], 1)
                    with driver.session(fetch_size=1000) as session:
                        rows = session.run("UNWIND range(1, 10000) AS x RETURN x, 'text' AS t")
                        self.assertEqual(sum(1 for _ in rows), 10000)
            with server.driver("bolt+s") as driver, self.assertRaises((ServiceUnavailable, DriverError)):
                driver.verify_connectivity()
            with server.driver("bolt", connection_acquisition_timeout=5) as driver, \
                    self.assertRaises((ServiceUnavailable, DriverError)):
                driver.verify_connectivity()
        finally:
            server.stop()


if __name__ == "__main__":
    SERVER = shlex.split(sys.argv.pop(1))
    print(f"neo4j for Python {neo4j.__version__}", flush=True)
    unittest.main()
