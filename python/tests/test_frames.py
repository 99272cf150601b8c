"""Results as Arrow, NumPy, pandas and NetworkX have them."""

import datetime

import pytest

import pulsedb

EVERYTHING = """
UNWIND range(1, 4) AS i
RETURN i, i * 0.5 AS f, toString(i) AS s, i % 2 = 0 AS b,
  CASE WHEN i > 2 THEN i END AS ni, CASE WHEN i > 2 THEN 0.5 END AS nf,
  CASE WHEN i > 2 THEN true END AS nb, CASE WHEN i > 2 THEN 'x' END AS ns,
  date({year: 2000 + i}) AS d, localdatetime({year: 2000 + i, nanosecond: i}) AS l,
  datetime({year: 2000 + i, timezone: 'Europe/Berlin'}) AS z, localtime({hour: i}) AS t,
  duration({months: i, seconds: 1}) AS du, [i, null] AS li, {a: i, b: [{c: 'x'}]} AS m, null AS none
"""


@pytest.fixture
def result(graph):
    return graph.execute(EVERYTHING)


def test_arrow_has_types_and_values(result):
    pa = pytest.importorskip("pyarrow")
    table = result.to_arrow()
    table.validate(full=True)
    types = {field.name: field.type for field in table.schema}
    assert types["i"] == types["ni"] == pa.int64()
    assert types["f"] == types["nf"] == pa.float64()
    assert types["s"] == pa.string() and types["b"] == types["nb"] == pa.bool_()
    assert types["d"] == pa.date32() and types["l"] == pa.timestamp("ns")
    assert types["z"] == pa.timestamp("us", "Europe/Berlin") and types["t"] == pa.time64("ns")
    assert types["du"] == pa.month_day_nano_interval() and types["none"] == pa.null()
    assert types["li"] == pa.list_(pa.int64())
    assert table.column("m").to_pylist()[1] == {"a": 2, "b": [{"c": "x"}]}
    assert table.column("ni").to_pylist() == [None, None, 3, 4]
    assert table.column("nb").to_pylist() == [None, None, True, True]
    assert table.column("ns").to_pylist() == [None, None, "x", "x"]
    assert table.column("li").to_pylist()[0] == [1, None]
    assert table.column("d").to_pylist()[0] == datetime.date(2001, 1, 1)
    # The cursor is where it was, and the stream can be had again.
    assert len(result.fetchall()) == 4
    assert pa.table(result).num_rows == 4


def test_bytes_are_binary(graph):
    pa = pytest.importorskip("pyarrow")
    result = graph.execute("UNWIND [$b, null] AS x RETURN x", {"b": b"\x00\xff"})
    table = result.to_arrow()
    table.validate(full=True)
    assert table.column("x").type == pa.binary()
    assert table.column("x").to_pylist() == [b"\x00\xff", None]
    pytest.importorskip("pandas")
    assert list(result.to_pandas()["x"]) == [b"\x00\xff", None]


def test_points_are_structs(graph):
    pa = pytest.importorskip("pyarrow")
    query = "UNWIND [point({x: 1, y: 2}), null, point({x: 1, y: 2, z: 3})] AS p RETURN p, [p] AS l"
    table = graph.execute(query).to_arrow()
    table.validate(full=True)
    assert table.column("p").to_pylist() == [
        {"srid": 7203, "x": 1.0, "y": 2.0, "z": None},
        None,
        {"srid": 9157, "x": 1.0, "y": 2.0, "z": 3.0},
    ]
    graph.load_nodes("N", pa.table({"p": table.column("p")}).slice(1))
    found = graph.execute("MATCH (n:N) RETURN n.p ORDER BY n.p").fetchall()
    assert found == [(pulsedb.Point(1, 2, 3),), (None,)]
    other = pa.table({"p": pa.array([{"srid": 1, "x": 1.0, "y": 2.0}])})
    with pytest.raises(pulsedb.ArgumentError, match="column p, row 0: a struct of srid, x and y is a point: Unknown"):
        graph.load_nodes("N", other)
    pytest.importorskip("pandas")
    assert list(graph.execute(query).to_pandas()["p"]) == [pulsedb.Point(1, 2), None, pulsedb.Point(1, 2, 3)]


def test_arrow_of_many_rows_and_of_none(graph):
    pa = pytest.importorskip("pyarrow")
    result = graph.execute(
        "UNWIND range(1, 200000) AS i RETURN i, CASE WHEN i % 3 = 0 THEN toString(i) END AS s"
    )
    batches = list(pa.RecordBatchReader.from_stream(result))
    assert [batch.num_rows for batch in batches] == [65536, 65536, 65536, 3392]
    table = pa.Table.from_batches(batches)
    table.validate(full=True)
    assert table.column("i").to_pylist() == list(range(1, 200001))
    assert table.column("s").to_pylist()[:6] == [None, None, "3", None, None, "6"]
    empty = graph.execute("MATCH (n:None) RETURN n.a AS a, n AS n").to_arrow()
    assert (empty.num_rows, empty.column_names) == (0, ["a", "n"])


def test_arrow_stream_outlives_its_result(graph):
    pa = pytest.importorskip("pyarrow")
    reader = pa.RecordBatchReader.from_stream(graph.execute("UNWIND range(1, 9) AS i RETURN i"))
    graph.close()
    assert reader.read_all().column("i").to_pylist() == list(range(1, 10))


def test_arrow_capsule_that_nobody_takes_is_freed(result):
    capsule = result.__arrow_c_stream__()
    assert "arrow_array_stream" in repr(capsule)


def test_arrow_of_nodes_relationships_and_paths(graph):
    pytest.importorskip("pyarrow")
    graph.execute("CREATE (:A {x: 1})-[:R {w: 2.5}]->(:B {y: 'z'})")
    table = graph.execute("MATCH p = (a)-[r]->(b) RETURN a, r, p, b").to_arrow()
    table.validate(full=True)
    (row,) = table.to_pylist()
    assert row["a"]["labels"] == ["A"] and row["a"]["properties"]["x"] == 1
    assert row["r"]["type"] == "R" and row["r"]["end"] == row["b"]["id"]
    assert [node["id"] for node in row["p"]["nodes"]] == [row["a"]["id"], row["b"]["id"]]


def test_integers_and_floats_are_floats_where_none_is_lost(graph):
    np = pytest.importorskip("numpy")
    both = graph.execute("UNWIND [1, 2.5, 9007199254740992, -9223372036854775808] AS x RETURN x")
    assert both.to_numpy()["x"].dtype == np.float64
    lost = graph.execute("UNWIND [1, 2.5, 9007199254740993] AS x RETURN x")
    assert list(lost.to_numpy()["x"]) == [1, 2.5, 9007199254740993]


def test_arrow_of_mixed_types_names_the_column(graph):
    for query, name in (
        ("UNWIND [1, 'a'] AS x RETURN x", "x holds INTEGER and STRING"),
        ("UNWIND [[1], ['a']] AS x RETURN x", "x[] holds"),
        ("UNWIND [{a: 1}, {a: 'b'}] AS x RETURN x", "x.a holds"),
        ("UNWIND [1, 2.5, 9007199254740993] AS x RETURN x", "x holds FLOAT and INTEGER"),
        ("UNWIND [9223372036854775807, 2.5] AS x RETURN x", "x holds FLOAT and INTEGER"),
    ):
        with pytest.raises(TypeError) as caught:
            graph.execute(query).__arrow_c_stream__()
        assert name in str(caught.value)


def test_arrow_of_names_with_nul_is_refused(graph):
    pytest.importorskip("pyarrow")
    for query in ("RETURN 1 AS `a\0b`", "RETURN $m AS m", "RETURN [$m] AS m", "CREATE (n:N) SET n += $m RETURN n"):
        result = graph.execute(query, {"m": {"a\0b": 1, "a\0c": "x"}} if "$m" in query else None)
        with pytest.raises(TypeError, match="NUL"):
            result.to_arrow()
        assert len(result.to_dicts()) == 1


def test_numpy_arrays(result):
    np = pytest.importorskip("numpy")
    columns = result.to_numpy()
    assert columns["i"].dtype == np.int64 and columns["i"].tolist() == [1, 2, 3, 4]
    assert columns["f"].dtype == np.float64 and columns["b"].dtype == np.bool_
    assert columns["ni"].tolist() == [None, None, 3, 4] and columns["nb"].tolist()[3] is True
    assert columns["l"].dtype == np.dtype("datetime64[ns]")
    assert columns["d"].tolist()[0] == datetime.date(2001, 1, 1)
    assert columns["s"].dtype == object and columns["li"][0] == [1, None]
    columns["i"][0] = 7  # they are the caller's


def test_pandas_frame(result):
    pd = pytest.importorskip("pandas")
    frame = result.to_pandas()
    assert list(frame.columns) == result.columns and len(frame) == 4
    assert str(frame.dtypes["i"]) == "int64" and str(frame.dtypes["ni"]) == "Int64"
    assert str(frame.dtypes["nb"]) == "boolean" and str(frame.dtypes["z"]).endswith("Europe/Berlin]")
    assert frame["ni"].isna().tolist() == frame["nf"].isna().tolist() == [True, True, False, False]
    assert frame["z"][0] == pd.Timestamp("2001-01-01", tz="Europe/Berlin")
    assert frame["l"][0].nanosecond == 1
    assert frame["m"][0]["a"] == 1


def test_pandas_of_no_rows_and_of_equal_names(graph):
    pytest.importorskip("pandas")
    assert list(graph.execute("MATCH (n:None) RETURN n.a AS a").to_pandas().columns) == ["a"]
    assert graph.execute("CREATE (:N)").to_pandas().empty


def test_networkx_graph(graph):
    pytest.importorskip("networkx")
    graph.execute("CREATE (a:A {x: 1})-[:R {w: 2}]->(b:B), (a)-[:R {w: 3}]->(b), (:C)")
    made = graph.execute("MATCH (a) OPTIONAL MATCH (a)-[r]->() RETURN a, r").to_networkx()
    assert made.number_of_nodes() == 3 and made.number_of_edges() == 2
    assert sorted(data["w"] for _, _, data in made.edges(data=True)) == [2, 3]
    assert {frozenset(data["labels"]) for _, data in made.nodes(data=True)} == {
        frozenset("A"),
        frozenset("B"),
        frozenset("C"),
    }


def test_networkx_takes_properties_of_any_name(graph):
    pytest.importorskip("networkx")
    named = "{self: 1, key: 2, node_for_adding: 3, labels: 4, u_for_edge: 5, v_for_edge: 6, type: 7, attr: 8}"
    graph.execute(f"CREATE (:A {named})-[:R {named}]->(:B)")
    a, r = graph.execute("MATCH (a:A)-[r]->() RETURN a, r").single()
    made = graph.execute("MATCH (a)-[r]->(b) RETURN r, a, b").to_networkx()
    assert made.nodes[a.id] == {**a.properties, "labels": a.labels}
    ((_, end, key, data),) = made.edges(keys=True, data=True)
    assert (end, key, data) == (r.end, r.id, {**r.properties, "type": "R"})
    assert made.nodes[r.end] == {"labels": frozenset("B")}


def test_what_is_not_installed_is_named(graph, monkeypatch):
    monkeypatch.setitem(__import__("sys").modules, "pandas", None)
    with pytest.raises(ImportError, match="pip install pandas"):
        graph.execute("RETURN 1").to_pandas()
