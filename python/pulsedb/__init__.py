"""PulseDB's graph database, within a program.

    import pulsedb

    with pulsedb.Graph("my-graph") as graph:
        graph.execute("CREATE (:Person {name: $name})", {"name": "Ann"})
        for (name,) in graph.execute("MATCH (p:Person) RETURN p.name"):
            print(name)

Any number of threads may use one Graph. Statements run without the GIL.
"""

import atexit
import collections.abc
import os
import shutil
import tempfile
import weakref

from . import _native
from ._errors import (
    ArgumentError,
    CancelledError,
    ClosedError,
    ConstraintError,
    CorruptionError,
    CypherArithmeticError,
    CypherTypeError,
    Error,
    LimitError,
    LockedError,
    NotFoundError,
    ParameterError,
    ProcedureError,
    QueryError,
    ReadOnlyError,
    SemanticError,
    SyntaxError,  # pylint: disable=redefined-builtin
    TimeoutError,  # pylint: disable=redefined-builtin
    TransactionError,
    TransientError,
    UnsupportedError,
)
from ._frames import Summary
from ._load import columns_of
from ._native import Result, Transaction
from ._types import DateTime, Duration, Node, Path, Point, Relationship, Time

__all__ = [
    "ArgumentError",
    "CancelledError",
    "ClosedError",
    "ConstraintError",
    "CorruptionError",
    "CypherArithmeticError",
    "CypherTypeError",
    "DateTime",
    "Duration",
    "Error",
    "Graph",
    "LimitError",
    "LockedError",
    "Node",
    "NotFoundError",
    "ParameterError",
    "Path",
    "Point",
    "ProcedureError",
    "QueryError",
    "ReadOnlyError",
    "Relationship",
    "Result",
    "SemanticError",
    "Summary",
    "SyntaxError",
    "Time",
    "TimeoutError",
    "Transaction",
    "TransactionError",
    "TransientError",
    "UnsupportedError",
    "__version__",
]

__version__ = _native.__version__

_UNITS = {"": 1, "K": 1 << 10, "M": 1 << 20, "G": 1 << 30, "T": 1 << 40}
_open = weakref.WeakSet()


def _bytes(name, size):
    """A size: a number of bytes, or text as "256M"."""
    given = size
    if isinstance(size, str):
        text = size.strip().upper().removesuffix("B").removesuffix("I")
        number, unit = (text, "") if text[-1:].isdigit() else (text[:-1], text[-1:])
        if unit in _UNITS and number.isdigit():
            size = int(number) * _UNITS[unit]
    if isinstance(size, int) and not isinstance(size, bool) and 0 < size < 2**63:
        return size
    raise ValueError(f'{name} is a number of bytes, or text as "256M", below 2**63, not {given!r}')


def _threads(threads):
    if threads is None:
        return 0
    if isinstance(threads, int) and not isinstance(threads, bool) and 1 <= threads <= 256:
        return threads
    raise ValueError(f"threads is a number of threads, 1 to 256, or None, not {threads!r}")


def _retain(retain):
    if isinstance(retain, int) and not isinstance(retain, bool) and 0 <= retain < 2**63:
        return retain
    raise ValueError(f"retain is a number of commits, 0 or more, not {retain!r}")


def _text(what, text):
    if isinstance(text, str):
        return text
    raise TypeError(f"{what} is a str, not {type(text).__name__}")


def _path(path):
    """The bytes of a path, which may be text of any kind that Python takes."""
    path = os.fsencode(path)
    if b"\0" in path:
        raise ValueError("embedded null byte")
    return path


def _absolute(path):
    """The same after a chdir(). Not normal: `link/..` is where the link leads to."""
    return path if not path or os.path.isabs(path) else os.path.join(os.getcwdb(), path)


@atexit.register
def _close_all():
    # Graphs that a fork took along stay as they are: they belong to the other process.
    for graph in list(_open):
        graph._end()


class Graph(_native.Graph):
    """A graph database in a directory, which is made where it is not there.

    path          the directory; ":memory:" or nothing: a temporary one, which close() removes
    read_only     opens it beside a process that writes, and shows the state of that moment
    create        False: NotFoundError where there is no database
    memory        bytes, or text as "256M", for relationships that are not in files yet; nodes are in
                  memory beside it
    node_memory   the most that nodes and their indexes may take, about; what would go beyond it is a
                  LimitError; None: no limit
    query_memory  the most that one statement may take, and the most that its result may take
    spill         directory of the temporary files with what a statement sorts or groups beyond half
                  of query_memory; None: TMPDIR, /var/tmp or /tmp, the first that can be
                  written to. They have no names there
    spill_limit   the most that one statement may have in these files; 0: it writes none, and is a
                  LimitError where it needs more memory
    threads       of one statement that only reads, with the one that calls; None: as many as there
                  are CPUs, at most 4
    timeout       seconds after which a statement or transaction is ended; None: never
    sync          False: a commit survives the end of the process, not that of the system
    retain        so many commits before the newest can be read by AT SNAPSHOT
    page_reads    True: a look-up reads the single pages of files that it wants, and not what the
                  kernel reads around them. For relationships that memory cannot hold; without need
                  it makes the first minutes slower
    damaged       True, with read_only: a log that is damaged is read as far as the damage, and
                  `damage` says what it is; it tells of a log that lost its end always
    engine        who carries out copies and compactions: "auto", "inline", "threads", "agent", "dsa"
                  or "sim"; None: the graph's own thread, or "auto" with an agent. Not used with
                  read_only
    agent         socket of an agent that does compactions; a relative path is of the directory now
    engine_cpus   CPUs as "0,2-3", of "threads", and of "agent" without a socket

    LockedError where another process, or another Graph of this one, has it open for writing.

    A graph is of the process that opened it: in one that was forked from it, close() and the end of the
    process leave the database alone, and everything else is a ClosedError.
    """

    _temporary = None  # the directory that goes with the graph

    def __init__(
        self,
        path=":memory:",
        read_only=False,
        *,
        create=True,
        memory="256M",
        query_memory="1G",
        threads=None,
        timeout=None,
        sync=True,
        retain=0,
        page_reads=False,
        damaged=False,
        spill=None,
        spill_limit="16G",
        engine=None,
        agent=None,
        engine_cpus=None,
        node_memory=None,
    ):
        path = b":memory:" if path is None else _path(path)
        options = (
            _bytes("memory", memory),
            _bytes("query_memory", query_memory),
            timeout,
            _retain(retain),
            bool(page_reads),
            bool(damaged),
            b"" if spill is None else _absolute(_path(spill)),
            0 if spill_limit == 0 else _bytes("spill_limit", spill_limit),
            _threads(threads),
            "" if engine is None else _text("engine", engine),
            b"" if agent is None else _absolute(_path(agent)),
            "" if engine_cpus is None else _text("engine_cpus", engine_cpus),
            0 if node_memory is None else _bytes("node_memory", node_memory),
        )
        self._process = os.getpid()
        if path == b":memory:":
            if read_only:
                raise ValueError("a temporary graph cannot be read only: there is nothing in it")
            self._temporary = tempfile.mkdtemp(prefix="pulsedb-")
            path = os.fsencode(self._temporary)
            sync = False
        path = _absolute(path)
        self._path = os.fsdecode(path)
        try:
            super().__init__(path, bool(read_only), bool(create), bool(sync), *options)
        except BaseException:
            self._remove()
            raise
        self._read_only = bool(read_only)
        _open.add(self)

    def _remove(self):
        place, self._temporary = self._temporary, None
        if place:
            shutil.rmtree(place, ignore_errors=True)

    def _end(self):
        """close(), where nobody is left to tell of an error."""
        try:
            self.close()
        except Error:  # what was committed is durable all the same
            self._remove()

    def __del__(self):
        # By close(): while something writes there, the directory cannot go.
        if self._temporary:
            self._end()

    @property
    def damage(self):
        """What the log had lost when it was opened: where it ends early, and why; "" where it does not."""
        return self._stats()["damage"]

    @property
    def path(self):
        """The directory."""
        return self._path

    @property
    def read_only(self):
        """Whether it is open for reading."""
        return self._read_only

    @property
    def closed(self):
        """Whether close() was called."""
        return self._closed()

    def close(self):
        """Ends statements that run, rolls back open transactions, and writes a checkpoint.

        Without it, all that was committed is there at the next opening, too, which takes longer. In a
        process that was forked from that of the graph it does nothing.
        """
        if os.getpid() != self._process:
            return
        self._close()
        self._remove()

    def __enter__(self):
        return self

    def __exit__(self, *exception):
        self.close()

    def __repr__(self):
        return f"<pulsedb.Graph {self._path!r}{' closed' if self.closed else ''}>"

    def to_backend(self, labels=None, types=None, *, directed=True):
        """The graph as NetworkX's functions take it: `networkx.pagerank(graph.to_backend())`.

        Nodes are ids there. `labels` and `types` (lists of names) say which nodes and relationships
        count; all. Nothing is copied: each call sees the state of its moment. Which functions there are:
        networkx.config and `pulsedb` there; for others use execute(...).to_networkx(). Needs networkx.
        """
        from ._networkx import BackendGraph

        options = {"labels": labels, "types": types}
        options = {
            key: [names] if isinstance(names, str) else list(names)
            for key, names in options.items()
            if names is not None
        }
        return BackendGraph(self, directed=directed, multigraph=True, options=options)

    def load_nodes(self, label, data, key=None):
        """Makes a node of each row, with its columns as properties; returns how many.

        `data` is a dict of columns (lists, NumPy arrays), a DataFrame, a list of dicts, anything
        with __arrow_c_stream__, or the path of a Parquet file or of a directory of these. Nulls, and what pandas takes for missing, are left out. All of it is
        loaded, or nothing.

        `key` names the column by which nodes are found, by load_edges(), too: a value of it that is
        null, comes twice, or is there already is an ArgumentError, and an index on it is made where
        there is none.
        """
        key = "" if key is None else _text("the key", key)
        return self._load_nodes(_text("the label", label), columns_of(data, [key] if key else []), key)

    def load_edges(self, type, data, source, target, *, columns=("source", "target")):
        """Makes a relationship of each row, in one transaction; returns how many.

        `source` and `target` say which nodes the values of two columns of `data` stand for: a pair
        (label, key), or a triple (label, key, column). The columns are otherwise named by `columns`.
        All other columns are properties.

            graph.load_edges("KNOWS", {"source": [1], "target": [2], "since": [1999]},
                             source=("Person", "id"), target=("Person", "id"))

        NotFoundError names the first value that no node has, ArgumentError one that several have.
        """
        if not isinstance(columns, (tuple, list)) or len(columns) != 2:
            raise TypeError("columns are the names of two columns, those of the source and of the target")
        ends = []
        for end, column in zip((source, target), columns):
            if not isinstance(end, (tuple, list)) or not 2 <= len(end) <= 3:
                raise TypeError("source and target are (label, key), or (label, key, column)")
            label, key, name = (*end, column)[:3]
            ends.append((name, label or "", key))
        if ends[0][0] == ends[1][0]:
            raise ValueError(f"source and target are both the column {ends[0][0]}")
        names = [name for name, _, _ in ends]
        return self._load_edges(_text("the type", type), columns_of(data, names), *ends)

    def load_csv(
        self,
        nodes=None,
        edges=None,
        *,
        types=None,
        delimiter=",",
        quote='"',
        escape=None,
        array_delimiter=None,
        null="",
        reject=None,
        threads=0,
    ):
        """Loads CSV files, all or nothing, as `pulse graph load` does; returns a dict of counts.

        `nodes` is a dict of labels and files, `edges` one of types and files; a value may be a list
        of files. A type may say whose keys its files have: "KNOWS(Person,Person)". `types` is a dict
        of properties and types ("int", "string", ...); others are inferred. Lines that cannot be
        loaded end it, or go to the file `reject`. Elements of lists, and labels, are separated by
        `array_delimiter`; None: ";", or "|" where that is the delimiter.
        """
        if array_delimiter is None:
            array_delimiter = "|" if delimiter == ";" else ";"
        dialect = ""
        for name, value in (
            ("delimiter", delimiter),
            ("quote", quote),
            ("escape", escape),
            ("array_delimiter", array_delimiter),
        ):
            if name == "escape" and value is None:
                value = "\0"
            elif not isinstance(value, str) or len(value) != 1 or not 0 < ord(value) < 128:
                raise ValueError(f"{name} is one character of ASCII, not {value!r}")
            dialect += value
        types = [
            (_text("a property of `types`", name), _text(f"the type of {name}", kind))
            for name, kind in _items("types", types)
        ]
        return self._load_files(
            _files("nodes", nodes),
            _files("edges", edges),
            types,
            dialect,
            _text("null", null),
            _path(reject) if reject else b"",
            threads,
        )


def _items(what, given):
    if not isinstance(given or {}, collections.abc.Mapping):
        raise TypeError(f"{what} is a dict, not {type(given).__name__}")
    return (given or {}).items()


def _files(what, given):
    """"NAME=FILE", as bytes, of a dict of names and files."""
    out = []
    for name, files in _items(what, given):
        for file in files if isinstance(files, (list, tuple)) else [files]:
            out.append(_text(f"a name of {what}", name).encode() + b"=" + _path(file))
    return out
