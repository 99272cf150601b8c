"""Opening, statements, transactions, errors, threads, signals."""

import gc
import os
import shutil
import signal
import subprocess
import sys
import tempfile
import textwrap
import threading
import time

import pytest

import pulsedb


def count(graph, label):
    return graph.execute(f"MATCH (n:{label}) RETURN count(*)").scalar()


def test_execute_written_nodes_are_read_again(graph):
    made = graph.execute("CREATE (:Person {name: $name}) RETURN 1 AS one", {"name": "Ann"})
    assert made.columns == ["one"]
    assert made.summary.nodes_created == 1
    assert made.summary.query_type == "rw"
    assert made.summary.contains_updates
    assert graph.execute("MATCH (p:Person) RETURN p.name").fetchall() == [("Ann",)]


def test_reopen_after_close_everything_is_there(tmp_path):
    with pulsedb.Graph(str(tmp_path / "g")) as graph:
        graph.execute("UNWIND range(1, 100) AS i CREATE (:N {i: i})")
    assert graph.closed
    with pulsedb.Graph(os.fsencode(tmp_path / "g"), create=False) as graph:
        assert count(graph, "N") == 100


def test_reopen_after_kill_commits_are_there(tmp_path):
    code = f"""
        import os, pulsedb
        graph = pulsedb.Graph({str(tmp_path / 'g')!r})
        graph.execute("CREATE (:N)")
        with graph.begin() as tx:
            tx.execute("CREATE (:N)")
            os.kill(os.getpid(), 9)
    """
    done = subprocess.run([sys.executable, "-P", "-c", textwrap.dedent(code)])
    assert done.returncode == -signal.SIGKILL
    with pulsedb.Graph(tmp_path / "g") as graph:
        assert count(graph, "N") == 1


def test_exit_without_close_is_clean(tmp_path):
    code = f"""
        import pulsedb
        graph = pulsedb.Graph({str(tmp_path / 'g')!r})
        result = graph.execute("CREATE (n:N) RETURN n")
        transaction = graph.begin()
    """
    done = subprocess.run([sys.executable, "-P", "-c", textwrap.dedent(code)], capture_output=True)
    assert (done.returncode, done.stdout, done.stderr) == (0, b"", b"")


def test_memory_graph_leaves_nothing():
    graph = pulsedb.Graph()
    graph.execute("CREATE (:N)")
    place = graph.path
    assert os.path.isdir(place)
    assert count(graph, "N") == 1
    graph.close()
    assert not os.path.exists(place)
    graph = pulsedb.Graph(":memory:")
    place = graph.path
    del graph
    gc.collect()
    assert not os.path.exists(place)


def test_temporary_graph_that_nobody_closes_ends_before_its_directory(tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    removed, remove = [], shutil.rmtree

    def look(place, **options):
        fds = [f"/proc/self/fd/{fd}" for fd in os.listdir("/proc/self/fd")]
        removed.append([os.readlink(fd) for fd in fds if os.path.exists(fd) and place in os.readlink(fd)])
        remove(place, **options)

    monkeypatch.setattr(shutil, "rmtree", look)
    graph = pulsedb.Graph()
    graph.execute("CREATE (:N)")
    del graph
    gc.collect()
    graph = pulsedb.Graph()
    graph.execute("CREATE (:N)")
    graph.itself = graph
    del graph
    gc.collect()
    assert removed == [[], []] and os.listdir(tmp_path) == []
    # What began in it goes on, and it with that.
    transaction = pulsedb.Graph().begin()
    gc.collect()
    transaction.execute("CREATE (:N)")
    transaction.commit()
    assert len(os.listdir(tmp_path)) == 1
    del transaction
    gc.collect()
    for options in ({"timeout": -1}, {"memory": 0}, {"read_only": True}):
        with pytest.raises(ValueError):
            pulsedb.Graph(**options)
    assert os.listdir(tmp_path) == []


def test_relative_paths_stay_where_they_were(tmp_path, monkeypatch):
    for name in ("first/spill", "second"):
        (tmp_path / name).mkdir(parents=True)
    monkeypatch.chdir(tmp_path / "first")
    texts = [str(i * 7919 % 30000) for i in range(30000)]
    with pulsedb.Graph("g", query_memory="3M", spill="spill") as graph:
        monkeypatch.chdir(tmp_path / "second")
        assert graph.path == str(tmp_path / "first" / "g")
        graph.execute("UNWIND range(1, 100) AS i CREATE (:N)-[:R]->(:M)")
        graph.checkpoint()
        query = "UNWIND $texts AS t WITH t, count(*) AS c ORDER BY t RETURN t"
        assert len(graph.execute(query, {"texts": texts})) == 30000
    assert os.listdir(tmp_path / "second") == []
    with pulsedb.Graph("../first/g", create=False) as graph:
        assert count(graph, "N") == 100


def test_second_writer_is_refused_readers_are_not(graph):
    graph.execute("CREATE (:N)")
    with pytest.raises(pulsedb.LockedError, match=str(os.getpid())):
        pulsedb.Graph(graph.path)
    with pulsedb.Graph(graph.path, read_only=True) as reader:
        assert count(reader, "N") == 1
        with pytest.raises(pulsedb.ReadOnlyError):
            reader.execute("CREATE (:N)")
        with pytest.raises(pulsedb.ReadOnlyError):
            reader.load_nodes("N", {"i": [1]})
        with pytest.raises(pulsedb.ReadOnlyError):
            reader.checkpoint()


def test_open_of_nothing_or_damage_says_so(tmp_path):
    with pytest.raises(pulsedb.NotFoundError):
        pulsedb.Graph(tmp_path / "none", create=False)
    with pytest.raises(pulsedb.NotFoundError):
        pulsedb.Graph(tmp_path / "none", read_only=True)
    with pulsedb.Graph(tmp_path / "g") as graph:
        graph.execute("CREATE (:N)")
    (tmp_path / "g" / "MANIFEST").write_bytes(b"nonsense")
    with pytest.raises(pulsedb.CorruptionError, match="MANIFEST"):
        pulsedb.Graph(tmp_path / "g")


def test_paths_are_bytes_too_and_have_no_null(tmp_path):
    for name in ("plain", "Zoë", "\udcff"):
        for path in (str(tmp_path / name), os.fsencode(tmp_path / name)):
            with pulsedb.Graph(path) as graph:
                assert graph.path == str(tmp_path / name)
                graph.execute("CREATE (:N)")
        assert os.path.exists(os.fsencode(tmp_path / name))
    with pulsedb.Graph(b":memory:") as graph:
        assert os.path.basename(graph.path).startswith("pulsedb-")
    for path in (f"{tmp_path}/a\0b", os.fsencode(tmp_path) + b"/a\0b"):
        with pytest.raises(ValueError, match="embedded null byte"):
            pulsedb.Graph(path)
        with pytest.raises(ValueError, match="embedded null byte"):
            pulsedb.Graph(spill=path)
    assert len(os.listdir(tmp_path)) == 3


def test_directory_of_something_else_is_an_error_of_its_own(tmp_path):
    (tmp_path / "file").write_text("")
    with pytest.raises(pulsedb.Error, match="holds no graph database") as caught:
        pulsedb.Graph(tmp_path)
    assert type(caught.value) is pulsedb.Error and "Schema" not in caught.value.code
    with pulsedb.Graph(tmp_path / "g"), pytest.raises(pulsedb.LockedError) as caught:
        pulsedb.Graph(tmp_path / "g")
    assert "Schema" not in caught.value.code


def test_log_that_lost_its_end_is_told_of(tmp_path):
    code = "import os, pulsedb; g = pulsedb.Graph({!r}); [g.execute('CREATE (:N)') for _ in range(3)]; os._exit(0)"
    subprocess.run([sys.executable, "-P", "-c", code.format(str(tmp_path / "g"))], check=True)
    (log,) = (tmp_path / "g").glob("*.wal")
    data = log.read_bytes()
    log.write_bytes(data[: 32 + 24 + int.from_bytes(data[32:36], "little")])
    for read_only in (True, False):
        with pulsedb.Graph(tmp_path / "g", read_only=read_only) as graph:
            assert "the log has lost its end" in graph.damage
            assert graph.execute("MATCH (n) RETURN count(*)").scalar() == 1
    with pulsedb.Graph(tmp_path / "g") as graph:
        assert graph.damage == ""


def test_damaged_log_is_read_as_far_as_it_goes(tmp_path):
    script = (
        "import os, pulsedb; g = pulsedb.Graph({!r}); "
        "[g.execute('CREATE (:N {{i: $i}})', {{'i': i}}) for i in range(3)]; os._exit(0)"
    )
    subprocess.run([sys.executable, "-c", script.format(str(tmp_path / "g"))], check=True)
    (log,) = (tmp_path / "g").glob("*.wal")
    data = bytearray(log.read_bytes())
    first = 32 + 24 + int.from_bytes(data[32:36], "little")
    data[first + 24] ^= 1
    log.write_bytes(data)
    with pytest.raises(pulsedb.CorruptionError):
        pulsedb.Graph(tmp_path / "g")
    with pytest.raises(pulsedb.Error, match="reading only"):
        pulsedb.Graph(tmp_path / "g", damaged=True)
    with pulsedb.Graph(tmp_path / "g", read_only=True, damaged=True) as graph:
        assert graph.execute("MATCH (n:N) RETURN n.i").fetchall() == [(0,)]
        assert "wal" in graph.damage


@pytest.mark.parametrize(
    "options",
    [
        {"memory": "many"},
        {"memory": 0},
        {"memory": 2**70},
        {"query_memory": True},
        {"retain": -1},
        {"retain": "many"},
        {"spill_limit": -1},
        {"timeout": 0},
        {"timeout": -1},
        {"threads": 0},
        {"threads": 257},
        {"threads": "2"},
    ],
)
def test_open_with_senseless_options_is_refused(tmp_path, options):
    with pytest.raises(ValueError, match=next(iter(options))):
        pulsedb.Graph(tmp_path / "g", **options)


@pytest.mark.parametrize("threads", [1, 3])
def test_threads_give_the_same_rows(threads):
    with pulsedb.Graph(threads=threads) as graph:
        graph.execute("UNWIND range(0, 19999) AS i CREATE (:N {i: i, f: i * 0.1})")
        rows = graph.execute("MATCH (n:N) WHERE n.i % 3 = 1 RETURN n.i % 5, sum(n.f)").fetchall()
        # As one after the other adds up.
        sums = {}
        for i in range(1, 20000, 3):
            sums[i % 5] = sums.get(i % 5, 0.0) + i * 0.1
        assert rows == list(sums.items())


def test_page_reads_gives_look_ups_mappings_of_their_own(tmp_path):
    def runs_mapped():
        with open("/proc/self/maps") as maps:
            return sum(str(tmp_path) in line and line.rstrip().endswith(".run") for line in maps)

    with pulsedb.Graph(tmp_path / "g") as graph:
        graph.execute("UNWIND range(1, 100) AS i CREATE (:A {i: i})-[:R]->(:B)")
    with pulsedb.Graph(tmp_path / "g") as graph:
        plain = runs_mapped()
        assert plain >= 2
    for read_only in (False, True):
        with pulsedb.Graph(tmp_path / "g", read_only, page_reads=True) as graph:
            assert runs_mapped() == 2 * plain
            assert graph.execute("MATCH (:A {i: 7})-[r:R]->(:B) RETURN count(r)").scalar() == 1


def test_close_ends_everything(graph):
    transaction = graph.begin()
    transaction.execute("CREATE (:N)")
    result = graph.execute("RETURN 1")
    graph.close()
    graph.close()
    for call in (
        lambda: graph.execute("RETURN 1"),
        lambda: transaction.execute("RETURN 1"),
        transaction.commit,
        graph.begin,
        graph.checkpoint,
        lambda: graph.load_nodes("N", {"i": [1]}),
    ):
        with pytest.raises(pulsedb.ClosedError):
            call()
    assert result.fetchall() == [(1,)]
    with pulsedb.Graph(graph.path) as again:
        assert count(again, "N") == 0


def test_transaction_commit_rollback_and_block(graph):
    transaction = graph.begin()
    transaction.execute("CREATE (:N {i: 1})")
    assert transaction.execute("MATCH (n:N) RETURN count(*)").scalar() == 1
    assert count(graph, "N") == 0
    transaction.commit()
    assert transaction.closed
    assert count(graph, "N") == 1
    with pytest.raises(pulsedb.ClosedError):
        transaction.execute("RETURN 1")
    with graph.begin() as transaction:
        transaction.execute("CREATE (:N)")
        transaction.rollback()
    with pytest.raises(KeyError), graph.begin() as transaction:
        transaction.execute("CREATE (:N)")
        raise KeyError
    with graph.begin() as transaction:
        transaction.execute("CREATE (:N)")
    assert count(graph, "N") == 2
    with graph.begin(read_only=True) as transaction:
        with pytest.raises(pulsedb.ReadOnlyError):
            transaction.execute("CREATE (:N)")
        with pytest.raises(pulsedb.TransactionError):
            transaction.execute("RETURN 1")
        transaction.rollback()


def test_block_whose_graph_was_closed_raises(graph):
    with pytest.raises(pulsedb.ClosedError), graph.begin() as transaction:
        transaction.execute("CREATE (:N)")
        graph.close()
    with pytest.raises(KeyError), pulsedb.Graph() as other, other.begin():
        other.close()
        raise KeyError
    # What the caller ended is no failure of the block.
    for end in ("commit", "rollback"):
        with pulsedb.Graph() as other, other.begin() as transaction:
            getattr(transaction, end)()
            other.close()


def test_transaction_that_lost_is_transient(graph):
    graph.execute("CREATE (:N {i: 0})")
    first, second = graph.begin(), graph.begin()
    first.execute("MATCH (n:N) SET n.i = 1")
    second.execute("MATCH (n:N) SET n.i = 2")
    first.commit()
    with pytest.raises(pulsedb.TransientError) as caught:
        second.commit()
    assert caught.value.code.startswith("Neo.TransientError.")
    assert graph.execute("MATCH (n:N) RETURN n.i").scalar() == 1


def test_snapshot_of_an_earlier_commit(tmp_path):
    with pulsedb.Graph(tmp_path / "g", retain=100) as graph:
        graph.execute("CREATE (:N)")
        before = graph.sequence
        graph.execute("CREATE (:N)")
        old = graph.execute(f"AT SNAPSHOT {before} MATCH (n:N) RETURN count(*)").scalar()
        assert (old, count(graph, "N")) == (1, 2)


@pytest.mark.parametrize(
    "query, error, builtin",
    [
        ("MATCH (n RETURN n", pulsedb.SyntaxError, None),
        ("RETURN nobody", pulsedb.SyntaxError, None),
        ("RETURN $missing", pulsedb.ParameterError, None),
        ("RETURN 1 / 0", pulsedb.CypherArithmeticError, ArithmeticError),
        ("RETURN toInteger($value)", pulsedb.CypherTypeError, TypeError),
        ("CALL no.such()", pulsedb.ProcedureError, None),
        ("CREATE FULLTEXT INDEX i FOR (n:N) ON EACH [n.a]", pulsedb.UnsupportedError, NotImplementedError),
        ("DROP INDEX none", pulsedb.NotFoundError, None),
        ("CREATE (:N {a: {b: 1}})", pulsedb.CypherTypeError, TypeError),
        ("CREATE (:Key {i: 1})", pulsedb.ConstraintError, None),
    ],
)
def test_errors_have_classes(graph, query, error, builtin):
    graph.execute("CREATE CONSTRAINT FOR (k:Key) REQUIRE k.i IS UNIQUE")
    graph.execute("CREATE (:Key {i: 1})")
    with pytest.raises(error) as caught:
        graph.execute(query, {"value": [1]} if "$value" in query else None)
    assert isinstance(caught.value, pulsedb.Error)
    assert caught.value.code.startswith("Neo.")
    assert builtin is None or isinstance(caught.value, builtin)
    assert count(graph, "Key") == 1


def test_syntax_error_shows_the_place(graph):
    with pytest.raises(pulsedb.SyntaxError) as caught:
        graph.execute("MATCH (n)\nRETURN n..x")
    assert (caught.value.line, caught.value.column) == (2, 9)
    assert caught.value.text == "RETURN n..x"
    assert str(caught.value).splitlines()[-1].index("^") == 9


def test_execute_of_no_text_is_refused(graph):
    for query in (None, 1, b"RETURN 1"):
        with pytest.raises(TypeError):
            graph.execute(query, {"value": [1]} if "$value" in query else None)
    with pytest.raises(UnicodeEncodeError):
        graph.execute("RETURN '\ud800'")
    with pytest.raises(pulsedb.SyntaxError):
        graph.execute("")


LONG = """
UNWIND range(1, 10000) AS i UNWIND range(1, 10000) AS j UNWIND range(1, 10000) AS k RETURN count(*)
"""


def test_timeout_ends_a_statement(graph):
    with pytest.raises(pulsedb.TimeoutError) as caught:
        graph.execute(LONG, timeout=0.05)
    assert isinstance(caught.value, TimeoutError)
    with pulsedb.Graph(timeout=0.05) as other, pytest.raises(pulsedb.TimeoutError):
        other.execute(LONG)


def test_result_larger_than_query_memory_is_refused_and_not_committed(tmp_path):
    with pulsedb.Graph(tmp_path / "g", query_memory="1M") as graph:
        with pytest.raises(pulsedb.LimitError, match="result"):
            graph.execute("UNWIND range(1, 1000) AS i UNWIND range(1, 1000) AS j RETURN i, j")
        with pytest.raises(MemoryError):
            graph.execute("CREATE (:N) WITH 1 AS one UNWIND range(1, 1000) AS i UNWIND range(1, 1000) AS j RETURN i")
        assert count(graph, "N") == 0


def test_sort_and_groups_larger_than_query_memory_are_spilled(tmp_path):
    texts = [str(i * 7919 % 30000) for i in range(30000)]
    query = "UNWIND $texts AS t WITH t, count(*) AS c ORDER BY t RETURN t"
    spilled = tmp_path / "spilled"
    spilled.mkdir()
    with pulsedb.Graph(tmp_path / "g", query_memory="3M", spill=spilled) as graph:
        assert [t for (t,) in graph.execute(query, {"texts": texts})] == sorted(texts)
    assert not list(spilled.iterdir())
    for limit in (0, "64K"):
        with pulsedb.Graph(tmp_path / "g", query_memory="3M", spill=spilled, spill_limit=limit) as graph:
            with pytest.raises(pulsedb.LimitError):
                graph.execute(query, {"texts": texts})


def cpu_ticks(pid):
    """What a process has used, in hundredths of a second."""
    with open(f"/proc/{pid}/stat", encoding="ascii") as stat:
        fields = stat.read().rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


def test_interrupt_ends_a_statement(tmp_path):
    code = f"""
        import pulsedb, sys
        graph = pulsedb.Graph({str(tmp_path / 'g')!r})
        print("ready", flush=True)
        try:
            graph.execute({LONG!r})
        except KeyboardInterrupt:
            print(graph.execute("RETURN 7").scalar())
    """
    process = subprocess.Popen(
        [sys.executable, "-P", "-c", textwrap.dedent(code)], stdout=subprocess.PIPE, text=True
    )
    try:
        assert process.stdout.readline() == "ready\n"
        # A signal before the query begins would end the program: the query is what costs time of a CPU.
        before, limit = cpu_ticks(process.pid), time.monotonic() + 60
        while cpu_ticks(process.pid) < before + 20:
            assert process.poll() is None and time.monotonic() < limit, "the query does not begin"
            time.sleep(0.02)  # sleep: between looks
        process.send_signal(signal.SIGINT)
        assert process.communicate(timeout=60)[0] == "7\n"
        assert process.returncode == 0
    finally:
        process.kill()
        process.wait()


def test_threads_run_at_the_same_time(graph):
    graph.execute("CREATE CONSTRAINT FOR (n:N) REQUIRE n.i IS UNIQUE")
    errors = []

    def work(number):
        try:
            for i in range(50):
                graph.execute("CREATE (:N {i: $i})", {"i": number * 1000 + i})
                assert graph.execute("MATCH (n:N {i: $i}) RETURN n.i", {"i": number * 1000}).scalar() == number * 1000
        except Exception as error:  # seen below
            errors.append(error)

    threads = [threading.Thread(target=work, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert errors == []
    assert count(graph, "N") == 200


def test_statement_leaves_the_interpreter_to_other_threads(graph):
    ended = []

    def work():
        with pytest.raises(pulsedb.CancelledError):
            graph.execute(LONG)
        ended.append(True)

    thread = threading.Thread(target=work)
    thread.start()
    # This thread could not go on, were the interpreter held.
    while len(graph.execute("SHOW TRANSACTIONS")) < 2:
        assert thread.is_alive()
    graph.close()
    thread.join()
    assert ended == [True]


@pytest.mark.parametrize("take", [lambda result: result.fetchall(), lambda result: result.fetchmany(100)])
def test_threads_that_share_a_result_get_each_row_once(graph, take):
    graph.execute("UNWIND range(1, 20000) AS i CREATE (:N {i: i})")
    result = graph.execute("MATCH (n:N) RETURN n")
    taken, errors = [], []

    def work():
        try:
            while rows := take(result):
                taken.extend(node["i"] for (node,) in rows)
        except Exception as error:  # seen below
            errors.append(error)

    interval = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    try:
        threads = [threading.Thread(target=work) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        sys.setswitchinterval(interval)
    assert errors == []
    assert sorted(taken) == list(range(1, 20001))


def test_fetch_that_fails_takes_no_rows(graph):
    result = graph.execute(
        "UNWIND range(1, 4) AS i RETURN CASE i WHEN 3 THEN date('-999999-01-01') ELSE i END AS x"
    )
    assert result.fetchone() == (1,)
    for _ in range(2):
        with pytest.raises(OverflowError):
            result.fetchall()
    assert result.fetchmany(1) == [(2,)]
    # One row at a time goes over it.
    with pytest.raises(OverflowError):
        result.fetchone()
    assert result.fetchall() == [(4,)]


def test_retries_of_single_statements_hide_conflicts(graph):
    graph.execute("CREATE (:Counter {i: 0})")

    def work():
        for _ in range(25):
            graph.execute("MATCH (c:Counter) SET c.i = c.i + 1")

    threads = [threading.Thread(target=work) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert graph.execute("MATCH (c:Counter) RETURN c.i").scalar() == 50


@pytest.mark.parametrize("serializable", [False, True])
def test_two_that_each_read_what_the_other_writes(graph, serializable):
    graph.execute("CREATE (:Doctor {name: 'a', on_call: true}), (:Doctor {name: 'b', on_call: true})")
    first = graph.begin(serializable=serializable)
    second = graph.begin(serializable=serializable)
    for name, transaction in (("a", first), ("b", second)):
        on_call = "MATCH (d:Doctor) WHERE d.on_call RETURN count(d)"
        assert transaction.execute(on_call).scalar() == 2
        transaction.execute("MATCH (d:Doctor {name: $n}) SET d.on_call = false", {"n": name})
    first.commit()
    if serializable:
        with pytest.raises(pulsedb.TransientError, match="changed what this transaction has read"):
            second.commit()
    else:
        second.commit()
    left = graph.execute("MATCH (d:Doctor) WHERE d.on_call RETURN count(d)").scalar()
    assert left == (1 if serializable else 0)


def test_rows_by_number_and_slice(graph):
    result = graph.execute("UNWIND range(0, 9) AS x RETURN x")
    assert result[-1] == (9,) and result[2:4] == [(2,), (3,)]
    assert result[::-4] == [(9,), (5,), (1,)] and result[20:] == []
    assert result.fetchmany(2**70) == result[:]
    for row in (10, -11, 2**70, -(2**70)):
        with pytest.raises(IndexError):
            result[row]
    for wrong in ("x", 1.0, None):
        with pytest.raises(TypeError):
            result[wrong]
        with pytest.raises(TypeError):
            result.fetchmany(wrong)
    with pytest.raises(ValueError, match="size"):
        result.fetchmany(-1)
