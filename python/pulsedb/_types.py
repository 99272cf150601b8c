"""Nodes, relationships, paths, durations and points of results; and other classes' values as parameters."""

import collections.abc
import datetime
import operator
import zoneinfo

_EPOCH = datetime.date(1970, 1, 1).toordinal()


class _Entity:
    """What has an identifier and properties: those of the moment when the statement ran."""

    __slots__ = ("id", "properties")

    @property
    def element_id(self):
        """The identifier as text, as elementId() gives it."""
        return str(self.id)

    def __getitem__(self, key):
        return self.properties[key]

    def __contains__(self, key):
        return key in self.properties

    def __iter__(self):
        return iter(self.properties)

    def __len__(self):
        return len(self.properties)

    def get(self, key, default=None):
        """The value of a property, or the default."""
        return self.properties.get(key, default)

    def keys(self):
        """The names of the properties."""
        return self.properties.keys()

    def values(self):
        """The values of the properties."""
        return self.properties.values()

    def items(self):
        """Names and values of the properties."""
        return self.properties.items()

    def __bool__(self):
        return True

    def __eq__(self, other):
        return type(self) is type(other) and self.id == other.id

    def __hash__(self):
        return hash((type(self).__name__, self.id))


class Node(_Entity):
    """A node: `id`, `element_id`, `labels` (a frozenset), `properties` (a dict)."""

    __slots__ = ("labels",)

    def __init__(self, id, labels=frozenset(), properties=None):  # pylint: disable=redefined-builtin
        self.id = id
        self.labels = labels
        self.properties = {} if properties is None else properties

    def __repr__(self):
        return f"<Node id={self.id} labels={sorted(self.labels)} properties={self.properties}>"


class Relationship(_Entity):
    """A relationship: `id`, `element_id`, `type`, `properties`, and the nodes that it goes between.

    `start` and `end` are the identifiers of these nodes. `start_node` and `end_node` are Nodes,
    with labels and properties where the relationship came in a path, otherwise with the identifier
    alone.
    """

    __slots__ = ("type", "start", "end", "_nodes")

    def __init__(self, id, type, start, end, properties=None, nodes=None):  # pylint: disable=redefined-builtin
        self.id = id
        self.type = type
        self.start = start
        self.end = end
        self.properties = {} if properties is None else properties
        self._nodes = nodes

    def _node(self, node_id):
        found = None if self._nodes is None else self._nodes.get(node_id)
        return Node(node_id) if found is None else found

    @property
    def start_node(self):
        """The node that it comes from."""
        return self._node(self.start)

    @property
    def end_node(self):
        """The node that it leads to."""
        return self._node(self.end)

    @property
    def nodes(self):
        """Both nodes."""
        return (self.start_node, self.end_node)

    def __repr__(self):
        return (
            f"<Relationship id={self.id} type={self.type!r} ({self.start})->({self.end})"
            f" properties={self.properties}>"
        )


class Path:
    """A path: `nodes` and `relationships`, tuples in the order of the walk. len() counts the latter."""

    __slots__ = ("nodes", "relationships")

    def __init__(self, nodes, relationships):
        self.nodes = tuple(nodes)
        self.relationships = tuple(relationships)

    @property
    def start_node(self):
        """The first node."""
        return self.nodes[0]

    @property
    def end_node(self):
        """The last node."""
        return self.nodes[-1]

    start = start_node
    end = end_node

    def __len__(self):
        return len(self.relationships)

    def __bool__(self):
        return True

    def __iter__(self):
        return iter(self.relationships)

    def __eq__(self, other):
        return (
            isinstance(other, Path)
            and self.nodes == other.nodes
            and self.relationships == other.relationships
        )

    def __hash__(self):
        return hash((self.nodes, self.relationships))

    def __repr__(self):
        text = f"({self.nodes[0].id})"
        for before, edge, node in zip(self.nodes, self.relationships, self.nodes[1:]):
            forward = edge.start == before.id and edge.end == node.id
            text += f"-[:{edge.type}]->" if forward else f"<-[:{edge.type}]-"
            text += f"({node.id})"
        return f"<Path {text}>"


class Duration:
    """Months, days, seconds and nanoseconds, which do not convert into each other.

    A datetime.timedelta is a Duration without months, as a parameter; to_timedelta() is the way back.
    """

    __slots__ = ("months", "days", "seconds", "nanoseconds")

    def __init__(self, months=0, days=0, seconds=0, nanoseconds=0):
        more, nanoseconds = divmod(nanoseconds, 1_000_000_000)
        self.months = months
        self.days = days
        self.seconds = seconds + more
        self.nanoseconds = nanoseconds

    def to_timedelta(self):
        """As a datetime.timedelta; ValueError where months or parts of a microsecond would be lost."""
        if self.months:
            raise ValueError(f"{self} has months, whose length differs")
        if self.nanoseconds % 1000:
            raise ValueError(f"{self} is finer than a microsecond")
        return datetime.timedelta(self.days, self.seconds, self.nanoseconds // 1000)

    def _parts(self):
        return (self.months, self.days, self.seconds, self.nanoseconds)

    def __eq__(self, other):
        return isinstance(other, Duration) and self._parts() == other._parts()

    def __hash__(self):
        return hash(self._parts())

    def __repr__(self):
        return (
            f"Duration(months={self.months}, days={self.days}, seconds={self.seconds},"
            f" nanoseconds={self.nanoseconds})"
        )

    def __str__(self):
        """ISO 8601."""
        text = f"{self.months}M" * bool(self.months) + f"{self.days}D" * bool(self.days)
        if self.seconds or self.nanoseconds:
            nanos = self.seconds * 1_000_000_000 + self.nanoseconds
            whole, part = divmod(abs(nanos), 1_000_000_000)
            fraction = f".{part:09}".rstrip("0") if part else ""
            text += f"T{'-' if nanos < 0 else ''}{whole}{fraction}S"
        return "P" + (text or "T0S")


# The names of coordinate reference systems by their SRID; those of three coordinates, and those of WGS-84.
_SYSTEMS = {7203: "cartesian", 9157: "cartesian-3d", 4326: "wgs-84", 4979: "wgs-84-3d"}
_OF_SPACE = (9157, 4979)
_OF_EARTH = (4326, 4979)


class Point:
    """A point: `x`, `y`, `z` (None where there are two coordinates) and `srid`.

    The SRID is 7203 (a plane) or 9157 (space) where none is given; 4326 and 4979 are WGS-84, whose x is
    `longitude`, whose y is `latitude`, and whose z is `height`. Iterating gives the coordinates.
    """

    __slots__ = ("x", "y", "z", "srid")

    def __init__(self, x, y, z=None, srid=None):
        self.x = float(x)
        self.y = float(y)
        self.z = None if z is None else float(z)
        self.srid = (7203 if z is None else 9157) if srid is None else operator.index(srid)
        if self.srid not in _SYSTEMS:
            raise ValueError(f"there is no SRID {self.srid}; there are {', '.join(map(str, _SYSTEMS))}")
        if (z is not None) != (self.srid in _OF_SPACE):
            raise ValueError(f"a point of the SRID {self.srid} has {3 if z is None else 2} coordinates")

    @property
    def crs(self):
        """The name of the coordinate reference system, as in Cypher."""
        return _SYSTEMS[self.srid]

    def _geographic(self, value):
        if self.srid not in _OF_EARTH:
            raise AttributeError(f"{self!r} is not geographic")
        return value

    @property
    def longitude(self):
        """x, of WGS-84."""
        return self._geographic(self.x)

    @property
    def latitude(self):
        """y, of WGS-84."""
        return self._geographic(self.y)

    @property
    def height(self):
        """z, of WGS-84."""
        return self._geographic(self.z)

    def __iter__(self):
        return iter((self.x, self.y) if self.z is None else (self.x, self.y, self.z))

    def _parts(self):
        return (self.srid, self.x, self.y, self.z)

    def __eq__(self, other):
        return isinstance(other, Point) and self._parts() == other._parts()

    def __hash__(self):
        return hash(self._parts())

    def __repr__(self):
        z = "" if self.z is None else f"{self.z}, "
        return f"Point({self.x}, {self.y}, {z}srid={self.srid})"

    def __str__(self):
        """As Cypher makes it."""
        z = "" if self.z is None else f"z: {self.z}, "
        return f"point({{x: {self.x}, y: {self.y}, {z}crs: '{self.crs}'}})"


class _Finer:
    """A time that is finer than a microsecond: `nanosecond` (0 to 999) comes on top.

    It counts in comparisons, and stays in what is computed but for the difference of two, which is a
    timedelta. Text has it unless a unit is asked for.
    """

    nanosecond = 0

    def _compare(self, other, name):
        if super().__eq__(other) is True:
            return getattr(operator, name)(self.nanosecond, getattr(other, "nanosecond", 0))
        return getattr(super(), name)(other)

    def __eq__(self, other):
        return self._compare(other, "__eq__")

    def __ne__(self, other):
        return self._compare(other, "__ne__")

    def __lt__(self, other):
        return self._compare(other, "__lt__")

    def __le__(self, other):
        return self._compare(other, "__le__")

    def __gt__(self, other):
        return self._compare(other, "__gt__")

    def __ge__(self, other):
        return self._compare(other, "__ge__")

    def __hash__(self):
        return hash((super().__hash__(), self.nanosecond)) if self.nanosecond else super().__hash__()

    def __repr__(self):
        return f"{super().__repr__()[:-1]}, nanosecond={self.nanosecond})"

    def _replace(self, microsecond, args, nanosecond, changes):
        """By arguments of which the one at `microsecond` is that; a new one takes the nanosecond away."""
        changed = super().replace(*args, **changes)
        if nanosecond is None:
            fresh = len(args) > microsecond or "microsecond" in changes
            nanosecond = 0 if fresh else self.nanosecond
        changed.nanosecond = nanosecond
        return changed

    def _text(self, micros, end, timespec):
        """ISO 8601, given that with microseconds, which end at `end`."""
        if not self.nanosecond or timespec != "auto":
            return None
        return f"{micros[:end]}{self.nanosecond:03}{micros[end:]}"


class DateTime(_Finer, datetime.datetime):
    __doc__ = _Finer.__doc__

    def replace(self, *args, nanosecond=None, **changes):
        return self._replace(6, args, nanosecond, changes)

    def isoformat(self, sep="T", timespec="auto"):
        micros = super().isoformat(sep, "microseconds")
        end = len("2000-01-01T00:00:00.000000")  # any separator is one character
        return self._text(micros, end, timespec) or super().isoformat(sep, timespec)

    def time(self):
        return _finer_time(super().time(), self.nanosecond)

    def timetz(self):
        return _finer_time(super().timetz(), self.nanosecond)

    def astimezone(self, tz=None):
        return _finer_datetime(super().astimezone(tz), self.nanosecond)

    def __add__(self, other):
        return self._kept(super().__add__(other))

    __radd__ = __add__

    def __sub__(self, other):
        return self._kept(super().__sub__(other))

    def _kept(self, result):
        if isinstance(result, datetime.datetime):
            return _finer_datetime(result, self.nanosecond)
        return result

    def __reduce_ex__(self, protocol):
        plain = datetime.datetime.combine(self.date(), self.timetz())
        return (_finer_datetime, (plain, self.nanosecond))


class Time(_Finer, datetime.time):
    __doc__ = _Finer.__doc__

    def replace(self, *args, nanosecond=None, **changes):
        return self._replace(3, args, nanosecond, changes)

    def isoformat(self, timespec="auto"):
        micros = super().isoformat("microseconds")
        end = len("00:00:00.000000")
        return self._text(micros, end, timespec) or super().isoformat(timespec)

    def __reduce_ex__(self, protocol):
        plain = datetime.time(
            self.hour, self.minute, self.second, self.microsecond, self.tzinfo, fold=self.fold
        )
        return (_finer_time, (plain, self.nanosecond))


def _finer_datetime(value, nanosecond):
    # For a subclass, combine() of Python 3.11 drops the fold.
    finer = DateTime.combine(value.date(), value.timetz()).replace(fold=value.fold)
    finer.nanosecond = nanosecond
    return finer


def _finer_time(value, nanosecond):
    finer = Time(
        value.hour, value.minute, value.second, value.microsecond, value.tzinfo, fold=value.fold
    )
    finer.nanosecond = nanosecond
    return finer


def make_temporal(kind, days, nanos, offset, zone):
    """A time or datetime of the native module: `nanos` of the day, local; `offset` in seconds or None."""
    micros, finer = divmod(nanos, 1000)
    seconds, micro = divmod(micros, 1_000_000)
    tz = None if offset is None else datetime.timezone(datetime.timedelta(seconds=offset))
    if offset == 0:
        tz = datetime.timezone.utc
    if zone:
        try:
            tz = zoneinfo.ZoneInfo(zone)
        except (zoneinfo.ZoneInfoNotFoundError, ValueError):
            pass  # the offset is the same instant
    clock = datetime.time(seconds // 3600, seconds // 60 % 60, seconds % 60, micro, tz)
    if kind == "time":
        return _finer_time(clock, finer) if finer else clock
    try:
        day = datetime.date.fromordinal(_EPOCH + days)
    except (ValueError, OverflowError):
        raise OverflowError(
            "a date-time beyond the years 1 to 9999, which Python's datetime has; let the query"
            " return toString() of it"
        ) from None
    value = datetime.datetime.combine(day, clock)
    if offset is not None and value.utcoffset() != datetime.timedelta(seconds=offset):
        value = value.replace(fold=1)
    return _finer_datetime(value, finer) if finer else value


def _of_pandas(value):
    return type(value).__module__.partition(".")[0] == "pandas"


# NumPy's units of time: so many of the first are so many of the second.
_MONTHS = {"Y": 12, "M": 1}
_DAYS = {"W": 7, "D": 1}
_SECONDS = {
    "h": (1, 3600),
    "m": (1, 60),
    "s": (1, 1),
    "ms": (10**3, 1),
    "us": (10**6, 1),
    "ns": (10**9, 1),
    "ps": (10**12, 1),
    "fs": (10**15, 1),
    "as": (10**18, 1),
}


def _numpy_time(value):
    """numpy.datetime64 and timedelta64, whatever their unit.

    By Python's integers, which do not wrap as NumPy's conversions do; parts of a nanosecond are rounded down.
    """
    import numpy as np  # it is one of NumPy's

    if np.isnat(value):
        return ("value", None)
    unit, count = np.datetime_data(value.dtype)
    number = int(value.astype("int64")) * count
    long = value.dtype.kind == "m"
    if unit in _MONTHS:
        months = number * _MONTHS[unit]
        return ("duration", (months, 0, 0, 0)) if long else ("value", _day(value, months=months))
    if unit in _DAYS:
        days = number * _DAYS[unit]
        return ("duration", (0, days, 0, 0)) if long else ("value", _day(value, days=days))
    if unit not in _SECONDS:
        raise ValueError(f"{value!r} has no unit")
    parts, seconds = _SECONDS[unit]
    nanos = number * seconds * 1_000_000_000 // parts
    days, nanos = divmod(nanos, 86400 * 1_000_000_000)
    if long:
        return ("duration", (0, days, *divmod(nanos, 1_000_000_000)))
    micros, finer = divmod(nanos, 1000)
    plain = datetime.datetime.combine(_day(value, days=days), datetime.time())
    plain += datetime.timedelta(microseconds=micros)
    return ("datetime", _finer_datetime(plain, finer)) if finer else ("value", plain)


def _day(value, months=0, days=0):
    """The date that is so far from 1970."""
    year, month = divmod(months, 12)
    try:
        if months:
            return datetime.date(1970 + year, month + 1, 1)
        return datetime.date.fromordinal(_EPOCH + days)
    except (ValueError, OverflowError):
        raise _beyond(repr(value)) from None


def _beyond(what):
    return OverflowError(f"{what} is beyond the years 1 to 9999, which Python's datetime has")


def _simplify_time(value):
    if value != value:  # pandas.NaT
        return ("value", None)
    if isinstance(value, datetime.datetime):
        # One of pandas may be beyond; to C it looks like another year then.
        if not 1 <= value.year <= 9999:
            raise _beyond(f"a {type(value).__name__} of the year {value.year}")
        return ("datetime", value)
    if isinstance(value, datetime.timedelta):
        nanos = value.microseconds * 1000 + getattr(value, "nanoseconds", 0)
        return ("duration", (0, value.days, value.seconds, nanos))
    return ("value", datetime.date(value.year, value.month, value.day))


def simplify(value):
    """What the native module does not know as a pair (kind, value that it knows)."""
    name = type(value).__name__
    if isinstance(value, Duration):
        return ("duration", value._parts())
    if isinstance(value, Point):
        return ("point", value._parts())
    if isinstance(value, (datetime.date, datetime.timedelta)):
        return _simplify_time(value)
    if isinstance(value, (bytearray, memoryview)):
        return ("value", bytes(value))
    if isinstance(value, (Node, Relationship, Path)):
        raise TypeError(f"a {name} cannot be a parameter: pass its id, and match id(n) = $id")
    if _of_pandas(value) and name == "NAType":
        return ("value", None)
    if name in ("datetime64", "timedelta64"):
        return _numpy_time(value)
    if hasattr(value, "tolist"):
        dtype = getattr(value, "dtype", None)
        if getattr(dtype, "kind", "") in ("m", "M"):
            return ("value", list(value))
        simple = value.tolist()
        if type(simple) is type(value):  # numpy.longdouble, which has no simpler one
            raise TypeError(f"a graph has no type for {name}: pass float(…) of it")
        return ("value", simple)
    if isinstance(value, collections.abc.Mapping):
        return ("value", dict(value))
    if isinstance(value, collections.abc.Sequence):
        return ("value", list(value))
    if isinstance(value, (set, frozenset)):
        raise TypeError(f"a {name} has no order: pass a list")
    if hasattr(value, "__index__"):
        return ("value", operator.index(value))
    raise TypeError(
        f"a {type(value).__module__}.{name} cannot be a parameter or property: pass None, bool, int,"
        " float, str, bytes, list, dict, Point, or a date, time, datetime or timedelta"
    )
