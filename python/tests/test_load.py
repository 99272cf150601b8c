"""Bulk load: columns, DataFrames, Arrow, CSV; and what is wrong with them."""

import datetime
import os
import signal
import subprocess

import pytest

import pulsedb


def people(graph):
    return graph.execute("MATCH (p:Person) RETURN p.id, p.name ORDER BY p.id").fetchall()


def test_lists_as_nodes_and_relationships(graph):
    assert graph.load_nodes("Person", {"id": [1, 2, 3], "name": ["Ann", None, "Cid"]}, key="id") == 3
    assert people(graph) == [(1, "Ann"), (2, None), (3, "Cid")]
    assert "name" not in graph.execute("MATCH (p {id: 2}) RETURN p").scalar()
    made = graph.load_edges(
        "KNOWS",
        {"source": [1, 2], "target": [2, 3], "since": [datetime.date(1999, 1, 1), None]},
        source=("Person", "id"),
        target=("Person", "id"),
    )
    assert made == 2
    assert graph.execute("MATCH (a)-[k:KNOWS]->(b) RETURN a.id, k.since, b.id ORDER BY a.id").fetchall() == [
        (1, datetime.date(1999, 1, 1), 2),
        (2, None, 3),
    ]
    assert [row["properties"] for row in graph.execute("SHOW INDEXES").to_dicts()] == [["id"]]


def test_rows_as_dicts(graph):
    graph.load_nodes("Person", [{"id": 1}, {"id": 2, "name": "Bob"}])
    assert people(graph) == [(1, None), (2, "Bob")]


def test_load_is_durable_and_atomic(graph):
    graph.load_nodes("Person", {"id": [1, 2]}, key="id")
    for wrong in ([2, 3], [4, 4], [5, None]):
        with pytest.raises(pulsedb.ArgumentError, match="row"):
            graph.load_nodes("Person", {"id": wrong}, key="id")
    with pytest.raises(pulsedb.NotFoundError, match="row 1.*9"):
        graph.load_edges("E", {"source": [1, 1], "target": [2, 9]}, ("Person", "id"), ("Person", "id"))
    with pytest.raises(pulsedb.NotFoundError, match="null"):
        graph.load_edges("E", {"source": [1], "target": [None]}, ("Person", "id"), ("Person", "id"))
    graph.execute("CREATE (:Person {id: 1})")
    with pytest.raises(pulsedb.ArgumentError, match="more than one"):
        graph.load_edges("E", {"source": [1], "target": [2]}, ("Person", "id"), ("Person", "id"))
    graph.close()
    with pulsedb.Graph(graph.path) as again:
        assert [row[0] for row in people(again)] == [1, 1, 2]
        assert again.execute("MATCH ()-[e]->() RETURN count(e)").scalar() == 0


def test_indexes_of_keys_do_not_collide(graph):
    graph.load_nodes("A_B", {"c": [1]}, key="c")
    graph.load_nodes("A", {"B_c": [1]}, key="B_c")
    (name,) = [row["name"] for row in graph.execute("SHOW INDEXES").to_dicts() if row["properties"] == ["c"]]
    graph.execute(f"DROP INDEX {name}")
    graph.execute(f"CREATE INDEX {name} FOR (n:Other) ON (n.x)")
    with pytest.raises(pulsedb.ConstraintError, match=name):
        graph.load_nodes("A_B", {"c": [2]}, key="c")
    assert graph.execute("MATCH (n:A_B) RETURN count(*)").scalar() == 1


def test_many_nodes_take_the_bulk_path(graph):
    np = pytest.importorskip("numpy")
    rows = 120_000
    graph.execute("CREATE (:Person {id: -1})")
    ids = np.arange(rows)
    assert graph.load_nodes("Person", {"id": ids, "half": ids / 2, "even": ids % 2 == 0}, key="id") == rows
    assert graph._stats()["checkpoints"] >= 1
    graph.load_edges(
        "NEXT",
        {"a": ids[:-1], "b": ids[1:], "w": ids[:-1].astype("int32")},
        source=("Person", "id", "a"),
        target=("Person", "id", "b"),
    )
    expected = sum(range(rows - 1))
    for _ in range(2):
        assert graph.execute("MATCH ()-[e:NEXT]->() RETURN sum(e.w)").scalar() == expected
        row = graph.execute("MATCH (p:Person {id: 7})-[:NEXT]->(q) RETURN p.half, p.even, q.id").single()
        assert row == (3.5, False, 8)
        graph.close()
        graph = pulsedb.Graph(graph.path)
    graph.close()


def test_constraints_hold_for_loads(graph):
    graph.execute("CREATE CONSTRAINT FOR (p:Person) REQUIRE p.id IS UNIQUE")
    graph.load_nodes("Person", {"id": list(range(60_000))})
    with pytest.raises(pulsedb.ConstraintError):
        graph.load_nodes("Person", {"id": [70_000, 5]})
    assert graph.execute("MATCH (p:Person) RETURN count(*)").scalar() == 60_000


@pytest.mark.parametrize(
    "dtype", ["int8", "int16", "int32", "int64", "uint8", "uint16", "uint32", "uint64", ">i4", "float32", ">f8", "bool"]
)
def test_numpy_types(graph, dtype):
    np = pytest.importorskip("numpy")
    values = np.array([0, 1, 1, 0], dtype=dtype)
    graph.load_nodes("N", {"x": values[::-1], "i": np.arange(4)})
    got = [row[0] for row in graph.execute("MATCH (n:N) RETURN n.x ORDER BY n.i")]
    assert got == values[::-1].tolist() and type(got[0]) is type(values.tolist()[0])


def test_numpy_dates_masks_and_overflow(graph):
    np = pytest.importorskip("numpy")
    graph.load_nodes(
        "N",
        {
            "i": np.ma.masked_array([1, 2], [False, True]),
            "d": np.array(["2020-01-01", "NaT"], dtype="datetime64[D]"),
            "t": np.array(["2020-01-01T00:00:00.000000001", "NaT"], dtype="datetime64[ns]"),
            "s": np.array(["a", "b"]),
            "l": [np.array([1, 2]), np.float32(0.5)],
        },
    )
    first = graph.execute("MATCH (n:N {s: 'a'}) RETURN n").scalar().properties
    assert first["t"].nanosecond == 1
    del first["t"]
    assert first == {"i": 1, "d": datetime.date(2020, 1, 1), "s": "a", "l": [1, 2]}
    assert graph.execute("MATCH (n:N {s: 'b'}) RETURN n").scalar().properties == {"s": "b", "l": 0.5}
    with pytest.raises(OverflowError):
        graph.load_nodes("N", {"i": np.array([2**63], dtype="uint64")})


def test_numpy_arrays_of_more_dimensions_or_none(graph):
    np = pytest.importorskip("numpy")
    day = datetime.datetime(2020, 1, 2)
    columns = {
        "ns": np.array([["2020-01-02", "2020-01-02"]], dtype="datetime64[ns]"),
        "us": np.array([["2020-01-02"]], dtype="datetime64[us]"),
        "td": np.array([[1, 2]], dtype="timedelta64[ns]"),
        "i": np.array([[1, 2]]),
        "m": np.ma.masked_array([[1, 2]], mask=[[False, False]]),
        "md": np.ma.masked_array(np.array([["2020-01-02"]], dtype="datetime64[ns]"), mask=[[False]]),
    }
    graph.load_nodes("N", columns)
    assert graph.execute("MATCH (n:N) RETURN n").scalar().properties == {
        "ns": [day, day],
        "us": [day],
        "td": [pulsedb.Duration(nanoseconds=1), pulsedb.Duration(nanoseconds=2)],
        "i": [1, 2],
        "m": [1, 2],
        "md": [day],
    }
    with pytest.raises(pulsedb.ArgumentError, match="column x, row 1"):  # null in a list
        graph.load_nodes("N", {"x": np.ma.masked_array([[1], [2]], mask=[[False], [True]])})
    for wrong in (np.array(5), np.int64(5), np.ma.masked_array(5)):
        with pytest.raises(TypeError, match="column x is .* without a dimension"):
            graph.load_nodes("N", {"x": wrong})
    assert graph.execute("MATCH (n) RETURN count(*)").scalar() == 1


def test_what_a_conversion_raises_is_raised(graph):
    class Odd(Exception):
        def __init__(self, first, second):
            super().__init__(first, second)

    class Raises:
        def __init__(self, error):
            self.error = error

        def __index__(self):
            raise self.error

    for error in (SystemExit(3), KeyboardInterrupt(), Odd(1, 2), MemoryError("x"), pulsedb.ClosedError("x")):
        with pytest.raises(type(error)) as caught:
            graph.load_nodes("N", {"x": [1, Raises(error)]})
        assert caught.value is error
    for kind in (TypeError, ValueError, OverflowError):
        with pytest.raises(kind, match="^column x, row 1: why$"):
            graph.load_nodes("N", {"x": [1, Raises(kind("why"))]})


def test_pandas_frame_missing_is_null(graph):
    pd = pytest.importorskip("pandas")
    frame = pd.DataFrame(
        {
            "id": [1, 2],
            "f": [0.5, float("nan")],
            "n": pd.array([None, 7], dtype="Int64"),
            "b": pd.array([True, None], dtype="boolean"),
            "s": ["x", None],
            "t": pd.to_datetime(["2020-01-01 00:00:00.000000001", None]),
            "c": pd.Categorical(["u", "v"]),
        }
    )
    graph.load_nodes("N", frame, key="id")
    first = graph.execute("MATCH (n:N {id: 1}) RETURN n").scalar().properties
    assert first.pop("t").nanosecond == 1
    assert first == {"id": 1, "f": 0.5, "b": True, "s": "x", "c": "u"}
    assert graph.execute("MATCH (n:N {id: 2}) RETURN n").scalar().properties == {"id": 2, "n": 7, "c": "v"}


def test_pandas_index_and_arrays_are_columns(graph):
    pd = pytest.importorskip("pandas")
    columns = {
        "id": pd.Index([1, 2]),
        "n": pd.array([None, 7], dtype="Int64"),
        "s": pd.Index(["x", None]),
        "t": pd.DatetimeIndex(["2020-01-01", None]),
        "c": pd.Categorical(["u", "v"]),
    }
    graph.load_nodes("N", columns, key="id")
    first, second = (row[0].properties for row in graph.execute("MATCH (n:N) RETURN n ORDER BY n.id"))
    assert first == {"id": 1, "s": "x", "t": datetime.datetime(2020, 1, 1), "c": "u"}
    assert second == {"id": 2, "n": 7, "c": "v"}
    for wrong in (pd.Timestamp("2020-01-01"), pd.DataFrame({"x": [1]})):
        with pytest.raises(TypeError, match="column x is"):
            graph.load_nodes("N", {"x": wrong})


def test_arrow_table_and_result_round_trip(graph):
    pa = pytest.importorskip("pyarrow")
    table = pa.table(
        {
            "i": pa.array([1, None, 3], pa.int16()),
            "u": pa.array([1, 2, 3], pa.uint64()),
            "f": pa.array([0.5, None, 1], pa.float32()),
            "s": pa.array(["a", None, "c" * 100], pa.large_string()),
            "v": pa.array(["short", "a text of more than twelve bytes", None], pa.string_view()),
            "b": pa.array([True, None, False]),
            "raw": pa.array([b"", None, b"\x00\xff"], pa.binary()),
            "large": pa.array([b"a", b"\xff", None], pa.large_binary()),
            "view": pa.array([b"short", b"\xff" * 20, None], pa.binary_view()),
            "fixed": pa.array([b"ab", None, b"\x00\xff"], pa.binary(2)),
            "d": pa.array([datetime.date(2020, 1, 1)] * 3),
            "t": pa.array([datetime.datetime(1960, 1, 1, microsecond=1)] * 3, pa.timestamp("us")),
            "z": pa.array([datetime.datetime(2020, 7, 1, 12)] * 3, pa.timestamp("ms", "Europe/Berlin")),
            "l": pa.array([[1, 2], [], None], pa.list_(pa.int32())),
            "c": pa.array(["x", "y", "x"]).dictionary_encode(),
        }
    )
    sliced = pa.concat_tables([table.slice(1, 2), table.slice(0, 1)])
    graph.load_nodes("N", sliced)
    for row in sliced.to_pylist():
        want = {key: value for key, value in row.items() if value is not None}
        assert graph.execute("MATCH (n:N {u: $u}) RETURN n", {"u": row["u"]}).scalar().properties == want
    graph.load_nodes("Copy", graph.execute("MATCH (n:N) RETURN n.u AS u, n.s AS s"))
    assert graph.execute("MATCH (n:Copy) RETURN sum(n.u)").scalar() == 6
    with pytest.raises(TypeError, match="column x"):
        graph.load_nodes("N", pa.table({"x": pa.array([{"a": 1}])}))


def test_arrow_stream_that_was_read_is_refused(graph):
    pa = pytest.importorskip("pyarrow")

    class Once:
        def __init__(self, source):
            self.capsule = source.__arrow_c_stream__()

        def __arrow_c_stream__(self, requested_schema=None):
            return self.capsule

    table = pa.table({"i": [1, 2, 3]})
    for source in (table, graph.execute("UNWIND [1, 2, 3] AS i RETURN i")):
        for read in (lambda once: graph.load_nodes("N", once), lambda once: pa.table(once).num_rows):
            once = Once(source)
            assert read(once) == 3
            for _ in range(2):
                with pytest.raises(TypeError, match="read already"):
                    graph.load_nodes("N", once)
    # Nor is there a rest to load of one that could not be.
    once = Once(pa.table({"i": pa.chunked_array([[1], [2**63], [3]], pa.uint64())}))
    with pytest.raises(OverflowError):
        graph.load_nodes("N", once)
    with pytest.raises(TypeError, match="read already"):
        graph.load_nodes("N", once)
    assert graph.execute("MATCH (n:N) RETURN count(*)").scalar() == 6


def test_arrow_arguments_are_checked_before_rows_are_read(graph):
    pa = pytest.importorskip("pyarrow")
    schema, read = pa.schema([("a", pa.int64()), ("b", pa.int64())]), []

    def reader():
        def batches():
            for number in range(3):
                read.append(number)
                yield pa.record_batch([[number], [number]], schema=schema)

        return pa.RecordBatchReader.from_batches(schema, batches())

    graph.execute("CREATE (:N {id: 1})")
    with pytest.raises(pulsedb.ArgumentError, match="no column c"):
        graph.load_nodes("N", reader(), key="c")
    with pytest.raises(KeyError, match="no column c"):
        graph.load_edges("E", reader(), ("N", "id", "a"), ("N", "id", "c"))
    with pytest.raises(TypeError, match="str"):
        graph.load_edges("E", reader(), ("N", "id", "a"), ("N", 5, "b"))
    assert not read
    with pytest.raises(pulsedb.NotFoundError, match="no node of M has id, which is the key of the target"):
        graph.load_edges("E", reader(), ("N", "id", "a"), ("M", "id", "b"))
    assert read == [0]
    assert graph.load_nodes("M", reader(), key="a") == 3


def test_arrow_columns_whose_names_have_nul_are_refused(graph, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    table = pa.table({"a\0b": [1], "a\0c": [2]})
    parquet.write_table(table, tmp_path / "n.parquet")
    for data in (table, table.to_batches()[0], table.to_reader(), tmp_path / "n.parquet"):
        with pytest.raises(ValueError, match="NUL"):
            graph.load_nodes("N", data)
    # In lists they are what they are.
    graph.load_nodes("N", {"a\0b": [1], "a\0c": [2]})
    assert graph.execute("MATCH (n) RETURN n").scalar().properties == {"a\0b": 1, "a\0c": 2}


def test_arrow_timestamp_beyond_the_years_is_refused(graph):
    pa = pytest.importorskip("pyarrow")
    far = 999_999_999 * 366 * 86_400
    for zone in (None, "UTC", "Europe/Berlin"):
        for seconds in (far + 1, -far - 1, 2**63 - 1, -(2**63)):
            table = pa.table({"x": pa.array([0, seconds]).cast(pa.timestamp("s", zone))})
            with pytest.raises(OverflowError, match="column x"):
                graph.load_nodes("N", table)
    graph.load_nodes("N", pa.table({"x": pa.array([2**63 - 1]).cast(pa.timestamp("ns"))}))
    assert graph.execute("MATCH (n) RETURN n.x.year").fetchall() == [(2262,)]


def test_parquet_files_and_results_round_trip(graph, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    rows = 70_000  # several row groups, and a bulk load
    table = pa.table({"id": pa.array(range(rows)), "name": pa.array([None if i % 3 == 0 else f"n{i}" for i in range(rows)])})
    parquet.write_table(table, tmp_path / "people.parquet", row_group_size=9_000)
    assert graph.load_nodes("Person", str(tmp_path / "people.parquet"), key="id") == rows
    many = tmp_path / "knows"
    many.mkdir()
    for part in range(3):
        parquet.write_table(
            pa.table({"source": pa.array(range(part, 3000, 3)), "target": pa.array(range(part + 1, 3001, 3)),
                      "since": pa.array([datetime.date(2000, 1, 1 + part)] * 1000)}),
            many / f"part-{part}.parquet")
    ends = {"source": ("Person", "id"), "target": ("Person", "id")}
    assert graph.load_edges("KNOWS", many, **ends) == 3000
    assert graph.load_edges("TEXT", str(many), **ends) == 3000
    graph.execute("MATCH (a)-[k:KNOWS]->(b) RETURN a.id AS source, b.id AS target, k.since AS since"
                  " ORDER BY source").to_parquet(tmp_path / "out.parquet")
    back = parquet.read_table(tmp_path / "out.parquet")
    assert back.column("source").to_pylist() == list(range(3000))
    assert back.column("since").to_pylist()[:3] == [datetime.date(2000, 1, 1 + part) for part in range(3)]
    assert graph.load_edges("AGAIN", tmp_path / "out.parquet", **ends) == 3000
    same = "MATCH (a)-[k:KNOWS]->(b) MATCH (a)-[c:AGAIN]->(b) WHERE c.since = k.since RETURN count(*)"
    assert graph.execute(same).scalar() == 3000
    names = graph.execute("MATCH (p:Person) RETURN p.id AS id, p.name AS name ORDER BY id").to_arrow()
    assert names.column("name").to_pylist() == table.column("name").to_pylist()


def test_arrow_types_of_results_and_others(graph):
    pa = pytest.importorskip("pyarrow")
    result = graph.execute(
        "RETURN duration('P1M2DT-3.000000004S') AS d, localtime('01:02:03.000000004') AS t, [1, 2] AS l"
    )
    graph.load_nodes("Back", result)
    back = "MATCH (n:Back) RETURN toString(n.d), toString(n.t), n.l"
    assert graph.execute(back).fetchone() == ("P1M2DT-3.000000004S", "01:02:03.000000004", [1, 2])
    from decimal import Decimal

    columns = {
        "fixed": (pa.array([[9, 9], [1, 2], None], pa.list_(pa.int8(), 2))[1:], [[1, 2], None]),
        "whole": (pa.array([Decimal(-7), None], pa.decimal128(20, 0)), [-7, None]),
        "half": (pa.array([1.5, -0.25], pa.float32()).cast(pa.float16()), [1.5, -0.25]),
    }
    hour = datetime.timedelta(hours=1, milliseconds=5)
    for unit in ("s", "ms", "us", "ns"):
        rest = datetime.timedelta(milliseconds=5) if unit == "s" else datetime.timedelta()
        time = pa.time32(unit) if unit in ("s", "ms") else pa.time64(unit)
        clock = (datetime.datetime.min + hour - rest).time()
        columns["t" + unit] = (pa.array([clock, None], time), [clock, None])
        span = pulsedb.Duration(seconds=-3600, nanoseconds=-5_000_000 if unit != "s" else 0)
        columns["d" + unit] = (pa.array([-(hour - rest), None], pa.duration(unit)), [span, None])
    table = pa.table({name: array for name, (array, _) in columns.items()})
    graph.load_nodes("T", table)
    rows = graph.execute("MATCH (n:T) RETURN " + ", ".join(f"n.{name}" for name in columns)).fetchall()
    assert rows == list(zip(*(values for _, values in columns.values())))
    for array, name in (
        (pa.array([Decimal("1.5")]), r"decimal128\(2, 1\)"),
        (pa.array([{"a": 1}]), "struct"),
    ):
        with pytest.raises(TypeError, match=f"column x: .*type {name}; cast"):
            graph.load_nodes("N", pa.table({"x": array}))
    with pytest.raises(OverflowError, match="column x, row 1"):
        graph.load_nodes("N", pa.table({"x": pa.array([Decimal(1), Decimal(2**63)], pa.decimal128(20, 0))}))


def test_arrow_text_that_is_not_utf8_is_refused(graph, tmp_path):
    pa = pytest.importorskip("pyarrow")
    parquet = pytest.importorskip("pyarrow.parquet")
    good, bad = b"good", b"a text that is long, \xff"
    for kind in (pa.string(), pa.large_string(), pa.string_view()):
        binary = {pa.string(): pa.binary(), pa.large_string(): pa.large_binary()}.get(kind, pa.binary_view())
        for text in (bad, b"\xff"):
            array = pa.array([good, text], binary)
            table = pa.table({"x": pa.Array.from_buffers(kind, 2, array.buffers())})
            with pytest.raises(pulsedb.ArgumentError, match="column x, row 1: byte .* is not UTF-8"):
                graph.load_nodes("N", table)
    words = pa.Array.from_buffers(pa.string(), 2, pa.array([good, bad]).buffers())
    for array in (pa.DictionaryArray.from_arrays(pa.array([0, 0, 1]), words), pa.ListArray.from_arrays([0, 0, 0, 2], words)):
        with pytest.raises(ValueError, match="column x, row 2"):
            graph.load_nodes("N", pa.table({"x": array}))
    parquet.write_table(pa.table({"x": words}), tmp_path / "bad.parquet")
    with pytest.raises(ValueError, match="column x, row 1"):
        graph.load_nodes("N", tmp_path / "bad.parquet")
    assert graph.execute("MATCH (n) RETURN count(n)").scalar() == 0


def test_signal_ends_a_load_that_writes_nothing(graph):
    numpy = pytest.importorskip("numpy")

    class Stopped(Exception):
        pass

    def stop(*_):
        raise Stopped

    before = signal.signal(signal.SIGALRM, stop)
    try:
        for rows in (500_000, 2_000_000, 8_000_000):  # where the machine is too fast, more
            column = numpy.arange(rows)
            with pytest.raises(Stopped):
                signal.setitimer(signal.ITIMER_REAL, 0.1)
                graph.load_nodes("N", {"i": column}, key="i")
                signal.pause()
            if graph.execute("MATCH (n) RETURN count(*)").scalar() == 0:
                break
            graph.execute("MATCH (n) CALL (n) { DELETE n } IN TRANSACTIONS")
        else:
            pytest.fail("the signal does not end the load")
    finally:
        signal.setitimer(signal.ITIMER_REAL, 0)
        signal.signal(signal.SIGALRM, before)


def test_parquet_file_that_is_none_loads_nothing(graph, tmp_path):
    pa = pytest.importorskip("pyarrow")
    with pytest.raises(FileNotFoundError):
        graph.load_nodes("N", str(tmp_path / "none.parquet"))
    (tmp_path / "bad.parquet").write_bytes(b"PAR1 is not enough")
    with pytest.raises(pa.ArrowInvalid):
        graph.load_nodes("N", tmp_path / "bad.parquet")
    assert graph.execute("MATCH (n) RETURN count(n)").scalar() == 0


@pytest.mark.parametrize(
    "data, error",
    [
        ({"a": [1, 2], "b": [1]}, ValueError),
        ({"a": "text"}, TypeError),
        ({"a": 1}, TypeError),
        ({1: [1]}, TypeError),
        ([1, 2], TypeError),
        (None, TypeError),
        ({"a": [{1}]}, TypeError),
        ({"a": [2**63]}, OverflowError),
        ({"a": [{"b": 1}]}, pulsedb.ArgumentError),
        ({"a": [[1, [2]]]}, pulsedb.ArgumentError),
        ("", TypeError),
        (b"", TypeError),
    ],
)
def test_data_that_cannot_be_is_refused(graph, data, error):
    with pytest.raises(error):
        graph.load_nodes("N", data)
    assert graph.execute("MATCH (n) RETURN count(*)").scalar() == 0


def test_load_arguments_are_checked(graph):
    with pytest.raises(pulsedb.ArgumentError, match="no column"):
        graph.load_nodes("N", {"a": [1]}, key="b")
    with pytest.raises(KeyError):
        graph.load_edges("E", {"a": [1]}, ("N", "id", "a"), ("N", "id", "b"))
    with pytest.raises(TypeError):
        graph.load_edges("E", {"source": [1], "target": [1]}, "N", ("N", "id"))
    for wrong in ((None, None), ("N", None), (5, "id"), ("N", "id", 3)):
        with pytest.raises(TypeError, match="str"):
            graph.load_edges("E", {"source": [1], "target": [1]}, wrong, ("N", "id"))
    for columns in (("source",), ("source", "target", "more"), "st"):
        with pytest.raises(TypeError, match="columns are the names of two columns"):
            graph.load_edges("E", {"s": [1], "t": [1]}, ("N", "id"), ("N", "id"), columns=columns)
    for call in (
        lambda: graph.load_nodes(None, {"a": [1]}),
        lambda: graph.load_nodes("N", {"a": [1]}, key=5),
        lambda: graph.load_edges(None, {"source": [1], "target": [1]}, ("N", "id"), ("N", "id")),
        lambda: graph.load_csv(null=None),
        lambda: graph.load_csv({"N": "n.csv"}, types={"a": int}),
        lambda: graph.load_csv({"N": "n.csv"}, types={1: "int"}),
    ):
        with pytest.raises(TypeError, match="is a str, not"):
            call()
    for wrong in ({"nodes": "n.csv"}, {"edges": ["n.csv"]}, {"types": "int"}):
        with pytest.raises(TypeError, match="is a dict, not"):
            graph.load_csv(**wrong)
    with pytest.raises(ValueError, match="column a, row 1.*surrogates"):
        graph.load_nodes("N", {"a": ["a", "\ud800"]})


def test_empty_load_is_nothing(graph):
    assert graph.load_nodes("N", {"id": []}, key="id") == 0
    assert graph.load_edges("E", {"source": [], "target": []}, ("N", "id"), ("N", "id")) == 0
    for rows in ([], ()):
        assert graph.load_nodes("N", rows) == graph.load_nodes("N", rows, key="id") == 0
        assert graph.load_edges("E", rows, ("N", "id"), ("N", "id", "to")) == 0
    graph.close()
    with pytest.raises(pulsedb.ClosedError):
        graph.load_nodes("N", [])


@pytest.fixture
def files(tmp_path):
    (tmp_path / "people.csv").write_text("id|name\n1|Ann\n2|Bob\n")
    (tmp_path / "knows.csv").write_text("from|to|since\n1|2|1999\n2|9|2000\n")
    return tmp_path


def test_csv_dialect_is_of_single_characters(graph, tmp_path):
    (tmp_path / "n.csv").write_text('id,name\n1,"a\\"b"\n')
    for wrong in ({"escape": "ab"}, {"escape": ""}, {"escape": "ä"}, {"quote": "\0"}, {"delimiter": None}):
        with pytest.raises(ValueError, match=next(iter(wrong))):
            graph.load_csv({"N": tmp_path / "n.csv"}, **wrong)
    graph.load_csv({"N": tmp_path / "n.csv"}, escape="\\")
    assert graph.execute("MATCH (n:N) RETURN n.name").scalar() == 'a"b'


def test_csv_paths_are_of_any_bytes(graph, tmp_path):
    (tmp_path / "n.csv").write_text("id\n1\n")
    place = os.fsencode(tmp_path)
    for name in (b"\xff", b"plain"):
        with open(place + b"/" + name, "w") as file:
            file.write("id|name\n1|Ann\n1|Bob\nx\n")
        given = place + b"/" + name
        for path in (given, os.fsdecode(given)):
            report = graph.load_csv({"N": [path]}, delimiter="|", reject=given + b".reject", types={"id": "string"})
            assert report["rejected"] >= 1 and all(isinstance(line, str) for line in report["examples"])
            assert os.path.exists(given + b".reject")
        os.mkdir(given + b".spill")
        with pulsedb.Graph(spill=given + b".spill") as other:
            assert other.execute("RETURN 1").scalar() == 1
    with pytest.raises(pulsedb.NotFoundError):
        graph.load_csv({"N": place + b"/\xfe"})
    for wrong in (f"{tmp_path}/n.csv\0", place + b"/n.csv\0"):
        with pytest.raises(ValueError, match="embedded null byte"):
            graph.load_csv({"N": wrong})
        with pytest.raises(ValueError, match="embedded null byte"):
            graph.load_csv({"N": tmp_path / "n.csv"}, reject=wrong)


def test_csv_with_semicolons_between_fields(graph, tmp_path):
    (tmp_path / "n.csv").write_text("id;tags:string[]\n1;a|b\n")
    (tmp_path / "m.csv").write_text("id;tags:string[]\n1;a+b\n")
    graph.load_csv({"N": tmp_path / "n.csv"}, delimiter=";")
    graph.load_csv({"N": tmp_path / "m.csv"}, delimiter=";", array_delimiter="+")
    assert graph.execute("MATCH (n:N) RETURN n.tags").fetchall() == [(["a", "b"],), (["a", "b"],)]
    with pytest.raises(pulsedb.ArgumentError, match="two things"):
        graph.load_csv({"N": tmp_path / "n.csv"}, delimiter=";", array_delimiter=";")
    program = os.environ.get("PULSE_PROGRAM", "")
    if os.path.exists(program):
        graph.close()
        nodes = f"N={tmp_path / 'n.csv'}"
        subprocess.run([program, "graph", "load", graph.path, "--nodes", nodes, "--delimiter", ";"], check=True)
        with pulsedb.Graph(graph.path) as again:
            assert again.execute("MATCH (n:N {tags: ['a', 'b']}) RETURN count(*)").scalar() == 3


def test_csv_with_rejects(graph, files):
    options = dict(
        nodes={"Person": files / "people.csv"},
        edges={"KNOWS(Person,Person)": [files / "knows.csv"]},
        delimiter="|",
    )
    with pytest.raises(pulsedb.ArgumentError, match="knows.csv:3"):
        graph.load_csv(**options)
    assert people(graph) == []
    report = graph.load_csv(**options, reject=files / "rejected", types={"since": "string"})
    assert (report["nodes"], report["relationships"], report["dangling"]) == (2, 1, 1)
    assert "knows.csv:3" in (files / "rejected").read_text()
    assert graph.execute("MATCH ()-[k:KNOWS]->() RETURN k.since").scalar() == "1999"


def test_command_line_reads_what_python_wrote(graph):
    program = os.environ.get("PULSE_PROGRAM", "")
    if not os.path.exists(program):
        pytest.skip("PULSE_PROGRAM names no pulse program")
    graph.load_nodes("Person", {"id": [1]})
    graph.close()
    out = subprocess.run(
        [program, "graph", "query", graph.path, "MATCH (p:Person) RETURN p.id AS id", "--json"],
        check=True,
        capture_output=True,
        text=True,
    )
    assert out.stdout.strip() == '{"id":1}'
