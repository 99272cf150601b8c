"""Forked processes, signal handlers within statements, and threads that ask while one works."""

import os
import signal
import subprocess
import sys
import textwrap

import pytest

import pulsedb

LONG = """
UNWIND range(1, 10000) AS i UNWIND range(1, 10000) AS j UNWIND range(1, 10000) AS k RETURN count(*)
"""

# `until_running()` returns when a statement of LONG runs.
START = f"""
import os, signal, sys, threading
import pulsedb

LONG = {LONG!r}
graph = pulsedb.Graph(*sys.argv[1:])

def until_running():
    while not any("AS k" in str(row) for row in graph.execute("SHOW TRANSACTIONS")):
        pass
"""


def run(code, *arguments):
    """What a program prints, in lines; it has to end by itself."""
    process = subprocess.Popen(
        [sys.executable, "-P", "-W", "ignore", "-c", START + textwrap.dedent(code), *map(str, arguments)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
        start_new_session=True,
    )
    try:
        out, err = process.communicate(timeout=60)
    finally:
        if process.returncode is None:  # with what it forked
            os.killpg(process.pid, signal.SIGKILL)
            process.communicate()
    assert (process.returncode, err) == (0, "")
    return out.splitlines()


# The child ends in each of these ways; the parent goes on, and ends as by a kill.
@pytest.mark.parametrize("end", ["sys.exit()", "del transaction, graph", "graph.close()", "transaction.rollback()"])
def test_fork_whose_child_ends_leaves_the_graph_alone(tmp_path, end):
    code = f"""
        graph.execute("CREATE (:N)")
        transaction = graph.begin()
        transaction.execute("CREATE (:N)")
        if (child := os.fork()) == 0:
            {end}
            sys.exit()
        print(os.waitpid(child, 0)[1])
        transaction.commit()
        for _ in range(5):
            graph.execute("CREATE (:N)")
        sys.stdout.flush()
        os._exit(0)
    """
    assert run(code, tmp_path / "g") == ["0"]
    with pulsedb.Graph(tmp_path / "g") as graph:
        assert graph.execute("MATCH (n:N) RETURN count(*)").scalar() == 7


def test_fork_child_may_not_use_the_graph(tmp_path):
    code = """
        graph.execute("CREATE (:N)")
        transaction = graph.begin()
        print(os.getpid(), flush=True)
        if (child := os.fork()) == 0:
            calls = [
                lambda: graph.execute("CREATE (:N)"),
                lambda: graph.load_nodes("N", {"a": [1]}),
                lambda: graph.sequence,
                graph.begin,
                graph.checkpoint,
                lambda: transaction.execute("CREATE (:N)"),
                transaction.commit,
            ]
            for call in calls:
                try:
                    call()
                except pulsedb.ClosedError as error:
                    print(error)
            with graph:
                pass
            print(graph.closed, transaction.closed, pulsedb.Graph().execute("RETURN 7").scalar(), flush=True)
            os._exit(0)
        os.waitpid(child, 0)
        print(graph.execute("MATCH (n:N) RETURN count(*)").scalar())
    """
    process, *errors, state, count = run(code, tmp_path / "g")
    assert len(errors) == 7 and all(f"opened by process {process}," in error for error in errors)
    assert (state, count) == ("False False 7", "1")


def test_fork_while_a_statement_runs_child_ends(tmp_path):
    code = """
        def work():
            try:
                graph.execute(LONG)
            except pulsedb.CancelledError:
                print("cancelled")
        thread = threading.Thread(target=work)
        thread.start()
        until_running()
        if (child := os.fork()) == 0:
            sys.exit()
        print(os.waitpid(child, 0)[1])
        graph.close()
        thread.join()
    """
    assert run(code, tmp_path / "g") == ["0", "cancelled"]


def test_fork_whose_child_lives_does_not_keep_a_closed_graph_locked(tmp_path):
    code = """
        ended, end = os.pipe()
        if (child := os.fork()) == 0:
            os.close(end)
            os.read(ended, 1)
            os._exit(0)
        graph.execute("CREATE (:N)")
        graph.close()
        print(pulsedb.Graph(graph.path).execute("MATCH (n:N) RETURN count(*)").scalar())
        os.close(end)
        os.waitpid(child, 0)
    """
    assert run(code, tmp_path / "g") == ["1"]


def test_fork_of_a_temporary_graph_child_leaves_the_directory():
    code = """
        if (child := os.fork()) == 0:
            sys.exit()
        os.waitpid(child, 0)
        print(os.path.isdir(graph.path))
        graph.close()
        print(os.path.isdir(graph.path))
    """
    assert run(code) == ["True", "False"]


def test_fork_by_a_signal_handler_statement_ends_in_the_child(tmp_path):
    code = """
        class Stop(Exception):
            pass

        def handler(*_):
            # The child goes on in the statement; the parent when the child has ended.
            if (child := os.fork()) != 0:
                print(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
                raise Stop

        signal.signal(signal.SIGUSR1, handler)
        threading.Thread(target=lambda: (until_running(), os.kill(os.getpid(), signal.SIGUSR1))).start()
        try:
            graph.execute(LONG)
        except pulsedb.CancelledError:
            os._exit(3)
        except Stop:
            print(graph.execute("RETURN 7").scalar())
    """
    assert run(code, tmp_path / "g") == ["3", "7"]


class Handler:
    """A program with a signal handler that calls something within a statement."""

    CODE = """
        class Stop(Exception):
            pass

        transaction = graph.begin()

        def handler(*_):
            try:
                print({call})
            except pulsedb.Error as error:
                print(type(error).__name__, error)
            {then}

        def tell():
            until_running()
            os.kill(os.getpid(), signal.SIGUSR1)

        signal.signal(signal.SIGUSR1, handler)
        threading.Thread(target=tell).start()
        try:
            {target}.execute(LONG)
        except (pulsedb.Error, Stop) as error:
            print(type(error).__name__)
        transaction.rollback()
        print(transaction.closed, graph.execute("MATCH (n) RETURN count(*)").scalar())
        graph.close()
    """

    @classmethod
    def run(cls, path, target, call, then="pass"):
        return run(cls.CODE.format(target=target, call=call, then=then), path)


@pytest.mark.parametrize(
    "target, call", [("graph", "graph.close()"), ("transaction", "graph.close()"), ("transaction", "transaction.rollback()")]
)
def test_handler_that_ends_the_statement_it_is_in_gets_an_error(tmp_path, target, call):
    error, ended, state = Handler.run(tmp_path / "g", target, call)
    assert error.startswith("Error ") and "within a statement" in error
    assert (ended, state) == ("CancelledError", "True 0")


@pytest.mark.parametrize("call", ["transaction.commit()", "transaction.execute('CREATE (:N)')"])
def test_handler_that_uses_the_transaction_it_is_in_gets_an_error(tmp_path, call):
    error, ended, state = Handler.run(tmp_path / "g", "transaction", call, "raise Stop")
    assert error.startswith("Error ") and "within a statement" in error
    assert (ended, state) == ("Stop", "True 0")


@pytest.mark.parametrize("target", ["graph", "transaction"])
def test_handler_may_use_the_graph_otherwise(tmp_path, target):
    call = """graph.execute("CREATE (:N) RETURN 1").scalar(), graph.sequence, transaction.closed"""
    assert Handler.run(tmp_path / "g", target, call, "raise Stop") == ["1 1 False", "Stop", "True 1"]


def test_thread_that_asks_for_the_state_of_what_works_does_not_wait(tmp_path):
    # The statement is ended by the thread when all that it asked was answered.
    code = """
        transaction = graph.begin()
        asked = []

        def ask():
            until_running()
            asked.extend([transaction.closed, graph.sequence, graph._stats()["sequence"]])
            graph.close()

        thread = threading.Thread(target=ask)
        thread.start()
        try:
            transaction.execute(LONG)
        except pulsedb.CancelledError:
            thread.join()
            print(asked, transaction.closed)
    """
    assert run(code, tmp_path / "g") == ["[False, 0, 0] True"]


def test_load_from_arrow_whose_threads_run_python_ends(tmp_path):
    pytest.importorskip("pyarrow")
    code = """
        import io, time
        import pyarrow.csv

        class Slow(io.BytesIO):
            def read(self, *arguments):  # by a thread of pyarrow's, which the load waits for
                time.sleep(0.001)
                return super().read(*arguments)

        file = Slow(b"id\\n" + b"".join(b"%d\\n" % i for i in range(5000)))
        options = pyarrow.csv.ReadOptions(block_size=500)
        print(graph.load_nodes("N", pyarrow.csv.open_csv(file, read_options=options), key="id"))
    """
    assert run(code, tmp_path / "g") == ["5000"]


def test_daemon_threads_at_exit_end_quietly():
    """They want the interpreter while it is being finalized, which ends them."""
    run(
        """
        def work():
            while True:
                try:
                    graph.execute("RETURN 1")
                except BaseException:
                    pass

        for _ in range(4):
            threading.Thread(target=work, daemon=True).start()
        until = [graph.execute("RETURN 1") for _ in range(100)]
        """
    )


def test_full_disk_has_a_code_that_is_not_tried_again(tmp_path):
    code = """
        import resource
        resource.setrlimit(resource.RLIMIT_FSIZE, (100_000, resource.RLIM_INFINITY))
        try:
            graph.execute("UNWIND range(1, 200000) AS i CREATE (:N {i: i})")
        except pulsedb.LimitError as error:
            print(error.code)
        resource.setrlimit(resource.RLIMIT_FSIZE, (resource.RLIM_INFINITY, resource.RLIM_INFINITY))
        print(graph.execute("MATCH (n) RETURN count(*)").scalar())
    """
    assert run(code, tmp_path / "g") == ["Neo.DatabaseError.General.OutOfDiskSpace", "0"]
