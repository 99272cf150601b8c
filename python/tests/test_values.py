"""Values there and back; nodes, relationships and paths; results."""

import copy
import datetime
import enum
import math
import pickle
import random
import os
import zoneinfo

import pytest

import pulsedb

UTC = datetime.timezone.utc
BERLIN = zoneinfo.ZoneInfo("Europe/Berlin")


def back(graph, value):
    return graph.execute("RETURN $value", {"value": value}).scalar()


@pytest.mark.parametrize(
    "value",
    [
        None,
        True,
        False,
        0,
        -1,
        2**63 - 1,
        -(2**63),
        0.0,
        -1.5,
        1e308,
        math.inf,
        "",
        "text",
        "é\u0000\U0001f600",
        b"",
        b"\x00\xff" * 70000,
        [b"a", "a", None],
        [],
        [1, [2, [None, "x"]]],
        {},
        {"a": {"b": [1, 2.5]}, "é": None},
        datetime.date(1, 1, 1),
        datetime.date(9999, 12, 31),
        datetime.time(23, 59, 59, 999999),
        datetime.time(1, 2, 3, tzinfo=datetime.timezone(datetime.timedelta(hours=-3, minutes=-30))),
        datetime.datetime(1, 1, 1),
        datetime.datetime(1969, 12, 31, 23, 59, 59, 999999),
        datetime.datetime(2024, 2, 29, 12, 30, tzinfo=UTC),
        datetime.datetime(2024, 7, 1, 12, tzinfo=BERLIN),
        datetime.datetime(2024, 10, 27, 2, 30, fold=0, tzinfo=BERLIN),
        datetime.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN),
        pulsedb.Duration(14, -3, 7, 5),
        pulsedb.Point(1, -2.5),
        pulsedb.Point(1, 2, 3),
        pulsedb.Point(13.4, 52.5, srid=4326),
        [pulsedb.Point(13.4, 52.5, 34, srid=4979)],
    ],
)
def test_value_comes_back_as_it_was(graph, value):
    got = back(graph, value)
    assert got == value
    assert type(got) is type(value)
    if isinstance(value, datetime.datetime) and value.tzinfo:
        assert got.utcoffset() == value.utcoffset()
        assert str(got.tzinfo) == str(value.tzinfo)


def test_nan_comes_back(graph):
    assert math.isnan(back(graph, math.nan))


def test_values_as_properties_survive_reopening(tmp_path):
    values = {
        "i": 2**62,
        "f": 0.1,
        "s": "x" * 10000,
        "l": [1, 2, 3],
        "d": datetime.date(2000, 1, 1),
        "z": datetime.datetime(2024, 7, 1, 12, tzinfo=BERLIN),
        "p": pulsedb.Duration(1, 2, 3, 4),
        "b": b"\x00\xff",
        "o": pulsedb.Point(13.4, 52.5, srid=4326),
    }
    with pulsedb.Graph(tmp_path / "g") as graph:
        graph.execute("CREATE (n:N) SET n = $values", {"values": values})
    with pulsedb.Graph(tmp_path / "g") as graph:
        assert graph.execute("MATCH (n:N) RETURN n").scalar().properties == values


def test_random_values_come_back(graph):
    seed = int(os.environ.get("PULSE_TEST_SEED", random.randrange(1 << 32)))
    print("PULSE_TEST_SEED:", seed)
    dice = random.Random(seed)

    def value(depth):
        kind = dice.randrange(10 if depth < 4 else 8)
        if kind == 0:
            return dice.choice([None, True, False])
        if kind == 1:
            return dice.randrange(-(2**63), 2**63) >> dice.randrange(64)
        if kind == 2:
            return dice.uniform(-1, 1) * 10 ** dice.randrange(-300, 300)
        if kind == 3:
            return "".join(chr(dice.choice([65, 233, 8364, 128512])) for _ in range(dice.randrange(20)))
        if kind == 4:
            return datetime.date.fromordinal(dice.randrange(1, 3652059))
        if kind == 5:
            zone = dice.choice([None, UTC, BERLIN])
            day = datetime.datetime(dice.randrange(1970, 2037), dice.randrange(1, 13), 5, 12, tzinfo=zone)
            return day + datetime.timedelta(microseconds=dice.randrange(10**10))
        if kind == 6:
            return pulsedb.Duration(*(dice.randrange(-100, 100) for _ in range(3)), dice.randrange(10**9))
        if kind == 7:
            return dice.randbytes(dice.randrange(300))
        if kind == 8:
            return [value(depth + 1) for _ in range(dice.randrange(5))]
        return {f"k{i}": value(depth + 1) for i in range(dice.randrange(5))}

    for _ in range(300):
        one = value(0)
        assert back(graph, one) == one


def test_subclasses_and_relatives_become_what_they_are(graph):
    class Colour(enum.IntEnum):
        RED = 3

    class Text(str):
        pass

    assert back(graph, Colour.RED) == 3
    assert back(graph, Text("x")) == "x"
    assert back(graph, (1, 2)) == [1, 2]
    assert back(graph, range(3)) == [0, 1, 2]
    for raw in (bytearray(b"\xff"), memoryview(b"x\xffx")[1:2]):
        assert back(graph, raw) == b"\xff"
    assert back(graph, datetime.timedelta(days=-1, microseconds=5)) == pulsedb.Duration(0, -1, 0, 5000)


@pytest.mark.parametrize(
    "value, error",
    [
        (2**63, OverflowError),
        (-(2**63) - 1, OverflowError),
        ({1, 2}, TypeError),
        (object(), TypeError),
        (1j, TypeError),
        ({1: 2}, TypeError),
        ({"a": {None: 1}}, TypeError),
        (["ok", {1}], TypeError),
        ("\ud800", UnicodeEncodeError),
        (pulsedb.Node(1), TypeError),
    ],
)
def test_value_that_cannot_be_is_refused(graph, value, error):
    with pytest.raises(error):
        back(graph, value)


def test_points_have_their_coordinates(graph):
    flat = graph.execute("RETURN point({x: 1, y: 2})").scalar()
    assert (flat.x, flat.y, flat.z, flat.srid, flat.crs) == (1.0, 2.0, None, 7203, "cartesian")
    assert list(flat) == [1.0, 2.0] and repr(flat) == "Point(1.0, 2.0, srid=7203)"
    with pytest.raises(AttributeError):
        flat.latitude  # pylint: disable=pointless-statement
    high = graph.execute("RETURN point({longitude: 1, latitude: 2, height: 3})").scalar()
    assert (high.longitude, high.latitude, high.height, high.srid) == (1.0, 2.0, 3.0, 4979)
    assert str(high) == graph.execute("RETURN toString($p)", {"p": high}).scalar()
    assert len({high, copy.copy(high), pickle.loads(pickle.dumps(high)), flat}) == 2
    assert back(graph, pulsedb.Point(190, 0, srid=4326)) == pulsedb.Point(-170, 0, srid=4326)


def test_points_that_are_none_are_refused(graph):
    for wrong in ({"srid": 1}, {"srid": 9157}, {"z": 3, "srid": 4326}):
        with pytest.raises(ValueError):
            pulsedb.Point(1, 2, **wrong)
    for wrong in (pulsedb.Point(math.nan, 0), pulsedb.Point(0, 91, srid=4326)):
        with pytest.raises(ValueError):
            back(graph, wrong)


def test_nesting_without_an_end_is_refused(graph):
    endless = []
    endless.append(endless)
    with pytest.raises(ValueError):
        back(graph, endless)
    deep = [1]
    for _ in range(100):
        deep = [deep]
    assert back(graph, deep) == deep


def test_parameters_are_a_dict(graph):
    assert graph.execute("RETURN $b, $a", {"a": 1, "b": 2, "unused": 3}).fetchone() == (2, 1)
    for wrong in ([1], "a", 1):
        with pytest.raises(TypeError):
            graph.execute("RETURN 1", wrong)


def test_nanoseconds_are_kept(graph):
    value = graph.execute("RETURN datetime('2020-01-01T00:00:00.123456789Z')").scalar()
    assert isinstance(value, datetime.datetime)
    assert (value.microsecond, value.nanosecond) == (123456, 789)
    assert pickle.loads(pickle.dumps(value)).nanosecond == 789
    text = graph.execute("RETURN toString($v)", {"v": value}).scalar()
    assert text == "2020-01-01T00:00:00.123456789Z"
    clock = graph.execute("RETURN localtime('01:02:03.000000001')").scalar()
    assert (clock.second, clock.nanosecond) == (3, 1)
    assert graph.execute("RETURN toString($v)", {"v": clock}).scalar() == "01:02:03.000000001"


def test_nanoseconds_count_and_stay(graph):
    utc, hour = datetime.timezone.utc, datetime.timedelta(hours=1)
    same, value, later = graph.execute(
        "UNWIND [788, 789, 790] AS n RETURN datetime({year: 2020, microsecond: 1, nanosecond: 1000 + n - 1000})"
        " AS v ORDER BY v"
    ).fetchall()
    (same,), (value,), (later,) = same, value, later
    assert same < value < later and value <= value and value >= same and later > value
    assert value != same and not value == same and hash(value) != hash(same)
    plain = datetime.datetime(2020, 1, 1, 0, 0, 0, 1, utc)
    assert value != plain and plain != value and plain < value and value > plain
    assert value == pickle.loads(pickle.dumps(value)) and len({value, pickle.loads(pickle.dumps(value))}) == 1
    assert value - hour + hour == hour + (value - hour) == value
    assert value - plain == datetime.timedelta()
    assert value.astimezone(datetime.timezone(hour)) == value
    assert value.replace(year=2021).nanosecond == 789 and value.replace(microsecond=5).nanosecond == 0
    assert value.replace(nanosecond=1).nanosecond == 1
    assert value.isoformat() == "2020-01-01T00:00:00.000001789+00:00"
    assert str(value) == "2020-01-01 00:00:00.000001789+00:00"
    assert value.isoformat(timespec="microseconds") == "2020-01-01T00:00:00.000001+00:00"
    assert value.isoformat(timespec="seconds") == "2020-01-01T00:00:00+00:00"
    assert value.timetz().nanosecond == value.time().nanosecond == 789
    assert (value != "text", value == None) == (True, False)
    clock = graph.execute("RETURN localtime('01:02:03.000000001')").scalar()
    assert str(clock) == clock.isoformat() == "01:02:03.000000001"
    assert clock != datetime.time(1, 2, 3) and clock > datetime.time(1, 2, 3)
    assert clock.replace(hour=2).nanosecond == 1 and clock.replace(microsecond=2).nanosecond == 0
    assert clock == pickle.loads(pickle.dumps(clock)) and hash(clock) != hash(datetime.time(1, 2, 3))


def repeated_hour():
    """02:30 in Berlin for the second time that day, as the module makes it."""
    day = datetime.date(2024, 10, 27)
    nanos = (2 * 3600 + 30 * 60) * 1_000_000_000 + 789
    days = (day - datetime.date(1970, 1, 1)).days
    return pulsedb._types.make_temporal("datetime", days, nanos, 3600, "Europe/Berlin")


def test_fold_stays_with_nanoseconds():
    value = repeated_hour()
    assert (value.fold, value.nanosecond, value.utcoffset()) == (1, 789, datetime.timedelta(hours=1))
    in_utc = value.astimezone(UTC)
    assert (in_utc.hour, in_utc.fold) == (1, 0)
    copies = [in_utc.astimezone(BERLIN), value.astimezone(BERLIN), value.replace(minute=30)]
    copies += [copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))]
    for other in copies:
        assert isinstance(other, pulsedb.DateTime)
        assert other.isoformat() == "2024-10-27T02:30:00.000000789+01:00"
        assert (other.fold, other.nanosecond) == (1, 789)
    assert value.timetz().fold == value.time().fold == 1
    first = value.replace(fold=0)
    assert (first.fold, first.astimezone(UTC).hour, copy.copy(first).fold) == (0, 0, 0)


def test_fold_of_a_value_with_nanoseconds_comes_back(graph):
    value = back(graph, repeated_hour())
    assert (value.fold, value.nanosecond, value.astimezone(UTC).hour) == (1, 789, 1)
    text = graph.execute("RETURN toString($v)", {"v": value}).scalar()
    assert text == "2024-10-27T02:30:00.000000789+01:00[Europe/Berlin]"


def test_nanoseconds_in_text_are_behind_the_seconds():
    value = repeated_hour()
    assert value.isoformat(".") == "2024-10-27.02:30:00.000000789+01:00"
    assert value.isoformat(".", "auto") == "2024-10-27.02:30:00.000000789+01:00"
    assert value.isoformat(".", timespec="milliseconds") == "2024-10-27.02:30:00.000+01:00"
    assert value.isoformat(".", "minutes") == "2024-10-27.02:30+01:00"
    # An offset may have a point of its own.
    odd = datetime.timezone(datetime.timedelta(minutes=19, seconds=32, microseconds=123456))
    other = value.replace(tzinfo=odd)
    assert other.isoformat(".") == "2024-10-27.02:30:00.000000789+00:19:32.123456"
    assert other.timetz().isoformat() == "02:30:00.000000789+00:19:32.123456"


def test_local_time_that_its_zone_skips_is_cyphers(graph):
    berlin = zoneinfo.ZoneInfo("Europe/Berlin")
    for text in ("2024-03-31T02:30", "2024-03-31T03:30", "2024-10-27T02:30", "2024-07-01T00:00"):
        value = datetime.datetime.fromisoformat(text).replace(tzinfo=berlin)
        query = "WITH datetime($text + '[Europe/Berlin]') AS d RETURN d = $value, toString(d) = toString($value)"
        assert graph.execute(query, {"text": text, "value": value}).fetchone() == (True, True)
    second = datetime.datetime(2024, 10, 27, 2, 30, tzinfo=berlin, fold=1)
    assert graph.execute("RETURN toString($v)", {"v": second}).scalar() == "2024-10-27T02:30:00+01:00[Europe/Berlin]"


def test_dates_beyond_python_are_an_error(graph):
    for text in ("date('-0001-01-01')", "localdatetime('+12000-01-01T00:00')"):
        with pytest.raises(OverflowError):
            graph.execute(f"RETURN {text}").fetchall()


def test_duration_arithmetic_and_text():
    assert str(pulsedb.Duration(14, 3, 4, 500_000_000)) == "P14M3DT4.5S"
    assert str(pulsedb.Duration()) == "PT0S"
    assert str(pulsedb.Duration(seconds=-1, nanoseconds=500_000_000)) == "PT-0.5S"
    assert pulsedb.Duration(0, 1, 2, 3000).to_timedelta() == datetime.timedelta(1, 2, 3)
    with pytest.raises(ValueError):
        pulsedb.Duration(1).to_timedelta()


def test_node_relationship_and_path(graph):
    graph.execute(
        "CREATE (:Person:Admin {name: 'Ann'})-[:KNOWS {since: 1999}]->(:Person {name: 'Bob'})"
        "<-[:LIKES]-(:Cat)"
    )
    node, edge, path, deep = graph.execute(
        "MATCH p = (a:Admin)-[k:KNOWS]->(:Person)<-[:LIKES]-(:Cat)"
        " RETURN a, k, p, {list: [a, k]} AS deep"
    ).fetchone()
    assert node.labels == {"Person", "Admin"}
    assert node["name"] == node.get("name") == "Ann"
    assert dict(node.items()) == node.properties == {"name": "Ann"}
    assert node.element_id == str(node.id)
    assert (edge.type, edge["since"], edge.start) == ("KNOWS", 1999, node.id)
    assert edge.start_node == node
    assert [n.get("name") for n in path.nodes] == ["Ann", "Bob", None]
    assert [r.type for r in path.relationships] == ["KNOWS", "LIKES"]
    assert path.relationships[1].start_node.labels == {"Cat"}
    assert len(path) == 2 and path.start_node == node and path.end_node.labels == {"Cat"}
    assert deep == {"list": [node, edge]}
    assert pickle.loads(pickle.dumps(path)) == path
    assert "KNOWS" in repr(edge) and "Ann" in repr(node) and "<-[:LIKES]-" in repr(path)


@pytest.mark.parametrize(
    "number, unit, months, days, seconds, nanos",
    [
        (110_000, "D", 0, 110_000, 0, 0),
        (2**60, "W", 0, 7 * 2**60, 0, 0),
        (10**10, "s", 0, 115_740, 64_000, 0),
        (-(2**62), "s", 0, -53_375_995_583_651, 58_496, 0),
        (-1, "ms", 0, -1, 86_399, 999_000_000),
        (25, "h", 0, 1, 3600, 0),
        (3, "15m", 0, 0, 2700, 0),
        (1_000_001, "us", 0, 0, 1, 1000),
        (1_500, "ps", 0, 0, 0, 1),
        (10**18 + 10**9, "as", 0, 0, 1, 1),
        (3, "Y", 36, 0, 0, 0),
        (-5, "M", -5, 0, 0, 0),
    ],
)
def test_numpy_timedelta_of_any_unit(graph, number, unit, months, days, seconds, nanos):
    np = pytest.importorskip("numpy")
    got = graph.execute("RETURN $d", {"d": np.timedelta64(number, unit)}).scalar()
    assert got == pulsedb.Duration(months=months, days=days, seconds=seconds, nanoseconds=nanos)


@pytest.mark.parametrize(
    "text, unit, expected",
    [
        ("2500-01-01T00:00:01", "s", datetime.datetime(2500, 1, 1, 0, 0, 1)),
        ("1650-01-01T01", "h", datetime.datetime(1650, 1, 1, 1)),
        ("0001-01-01T00:00", "m", datetime.datetime(1, 1, 1)),
        ("9999-12-31T23:59:59.999999", "us", datetime.datetime.max),
        ("1969-12-31T23:59:59.999", "ms", datetime.datetime(1969, 12, 31, 23, 59, 59, 999_000)),
        ("0001", "Y", datetime.date(1, 1, 1)),
        ("1969-12", "M", datetime.date(1969, 12, 1)),
        ("1970", "Y", datetime.date(1970, 1, 1)),
        ("9999-12-31", "D", datetime.date(9999, 12, 31)),
        ("2020-01-02", "W", datetime.date(2020, 1, 2)),
    ],
)
def test_numpy_datetime_of_any_unit(graph, text, unit, expected):
    np = pytest.importorskip("numpy")
    got = graph.execute("RETURN $d", {"d": np.datetime64(text, unit)}).scalar()
    assert (got, type(got)) == (expected, type(expected))


def test_numpy_longdouble_is_refused_by_name(graph):
    np = pytest.importorskip("numpy")
    with pytest.raises(TypeError, match="longdouble"):
        graph.execute("RETURN $x", {"x": np.longdouble(1.5)})


def test_numpy_times_that_do_not_fit_are_refused(graph):
    np = pytest.importorskip("numpy")
    wrong = [
        np.datetime64("10000-01-01", "D"),
        np.datetime64("0000-12-31", "D"),
        np.datetime64("10000", "Y"),
        np.datetime64("0000-12", "M"),
        np.datetime64(10**14, "s"),
        np.datetime64(2**62, "W"),
        np.datetime64("10000-01-01T00:00", "us"),
        np.timedelta64(2**62, "W"),
        np.timedelta64(2**62, "Y"),
    ]
    for value in wrong:
        with pytest.raises(OverflowError):
            graph.execute("RETURN $d", {"d": value})
    with pytest.raises(ValueError, match="unit"):
        graph.execute("RETURN $d", {"d": np.timedelta64(5)})
    assert graph.execute("RETURN $d", {"d": np.timedelta64("NaT", "D")}).scalar() is None


def test_pandas_timestamps_that_do_not_fit_are_refused(graph):
    np, pd = pytest.importorskip("numpy"), pytest.importorskip("pandas")
    for text in ("12000-01-01", "10000-01-01", "0000-12-31", "-0005-03-01"):
        far = np.array(["2020-01-01", text], dtype="datetime64[s]")
        for value in (pd.Timestamp(far[1]), pd.Timestamp(far[1]).tz_localize("UTC")):
            with pytest.raises(OverflowError, match="years 1 to 9999"):
                graph.execute("RETURN $d", {"d": value})
        with pytest.raises(OverflowError, match="column x, row 1"):
            graph.load_nodes("N", pd.DataFrame({"x": far}))
    for text in ("0001-01-01", "9999-12-31T23:59:59"):
        value = pd.Timestamp(np.datetime64(text, "s"))
        assert graph.execute("RETURN $d", {"d": value}).scalar() == value.to_pydatetime()
    assert graph.execute("MATCH (n) RETURN count(*)").scalar() == 0


def test_deleted_node_in_a_result(graph):
    graph.execute("CREATE (:N {i: 1})")
    node = graph.execute("MATCH (n:N) DELETE n RETURN n").scalar()
    assert (node.labels, node.properties) == (frozenset(), {})


def test_result_is_a_cursor(graph):
    result = graph.execute("UNWIND range(1, 5) AS i RETURN i, i * 2 AS twice")
    assert len(result) == 5
    assert result.fetchone() == (1, 2)
    assert next(result) == (2, 4)
    assert result.fetchmany(2) == [(3, 6), (4, 8)]
    assert list(result) == [(5, 10)]
    assert (result.fetchone(), result.fetchmany(3), result.fetchall()) == (None, [], [])
    assert result[0] == (1, 2) and result[-1] == (5, 10)
    with pytest.raises(IndexError):
        result[5]
    assert result.to_dicts()[1] == {"i": 2, "twice": 4}
    assert result.to_dicts()[4] == {"i": 5, "twice": 10}


def test_single_and_scalar(graph):
    assert graph.execute("RETURN 1, 2").single() == (1, 2)
    assert graph.execute("MATCH (n:None) RETURN n").single() is None
    assert graph.execute("MATCH (n:None) RETURN n").scalar() is None
    with pytest.raises(ValueError):
        graph.execute("UNWIND [1, 2] AS i RETURN i").scalar()


def test_summary_of_plans_and_schema(graph):
    explained = graph.execute("EXPLAIN MATCH (n) RETURN n")
    assert explained.summary.plan and not len(explained)
    profiled = graph.execute("PROFILE UNWIND [1, 2] AS i RETURN i")
    assert profiled.summary.plan and len(profiled) == 2
    assert graph.execute("CREATE INDEX i FOR (n:N) ON (n.a)").summary.indexes_added == 1
    again = graph.execute("CREATE INDEX i IF NOT EXISTS FOR (n:N) ON (n.a)").summary
    assert again.indexes_added == 0 and "i" in again.notice
    assert not again.contains_updates


@pytest.mark.parametrize("sign", [1, -1])
def test_offsets_beyond_18_hours_are_refused(graph, sign):
    def at(**offset):
        zone = datetime.timezone(sign * datetime.timedelta(**offset))
        return [datetime.datetime(2020, 1, 1, tzinfo=zone), datetime.time(12, tzinfo=zone)]

    for value in at(hours=18):
        assert graph.execute("RETURN $x", {"x": value}).scalar() == value
    for value in at(hours=18, seconds=1) + at(hours=23, minutes=59):
        with pytest.raises(ValueError, match="18 hours"):
            graph.execute("RETURN $x", {"x": value})
