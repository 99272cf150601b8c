"""What results become: summaries, NumPy arrays, DataFrames, Arrow tables, NetworkX graphs."""

import dataclasses
import importlib
import typing

from ._types import Node, Path, Relationship


@dataclasses.dataclass(frozen=True)
class Summary:
    """What a statement changed, and what it has to say."""

    nodes_created: int = 0
    nodes_deleted: int = 0
    relationships_created: int = 0
    relationships_deleted: int = 0
    properties_set: int = 0
    labels_added: int = 0
    labels_removed: int = 0
    indexes_added: int = 0
    indexes_removed: int = 0
    constraints_added: int = 0
    constraints_removed: int = 0
    #: "r", "w", "rw" or "s" (schema)
    query_type: str = "r"
    #: of EXPLAIN and PROFILE, as text
    plan: typing.Optional[str] = None
    #: why a schema statement changed nothing
    notice: typing.Optional[str] = None
    #: of the newest commit when the statement had ended, as AT SNAPSHOT takes it; 0 in transactions
    sequence: int = 0

    @property
    def counters(self):
        """The counts that are not 0, as a dict."""
        return {
            field.name: getattr(self, field.name)
            for field in dataclasses.fields(self)
            if field.type is int and field.name != "sequence" and getattr(self, field.name)
        }

    @property
    def contains_updates(self):
        """Whether anything was changed."""
        return bool(self.counters)


def summary(result):
    return Summary(**result._facts())


def single(result):
    if len(result) > 1:
        raise ValueError(f"the result has {len(result)} rows, not one")
    return result[0] if len(result) else None


def scalar(result):
    row = single(result)
    return row[0] if row else None


def need(name):
    package = name.partition(".")[0]
    try:
        return importlib.import_module(name)
    except ImportError as error:
        raise ImportError(f"this needs {package}: install it with pip install {package}") from error


_DTYPES = {
    "int64": "<i8",
    "float64": "<f8",
    "bool": "?",
    "date": "<M8[D]",
    "datetime": "<M8[{unit}]",
    "instant": "<M8[{unit}]",
}


def _arrays(np, result):
    """(name, kind, zone, array, mask or None) for each column."""
    for number, name in enumerate(result.columns):
        kind, zone, unit, data, mask = result._column(number)
        if kind == "object":
            array = np.empty(len(data), dtype=object)
            array[:] = data
            yield name, kind, zone, array, None
            continue
        array = np.frombuffer(data, dtype=_DTYPES[kind].format(unit=unit))
        yield name, kind, zone, array, None if mask is None else np.frombuffer(mask, dtype="?")


def to_numpy(result):
    np = need("numpy")
    out = {}
    for name, _, _, array, mask in _arrays(np, result):
        out[name] = array if mask is None else np.ma.masked_array(array, mask)
    return out


def _series(pd, kind, zone, array, mask):
    if kind == "object":
        return pd.Series(array, dtype=object)
    if kind == "date":
        array = array.astype("datetime64[s]")
    if mask is None:
        series = pd.Series(array)
    elif kind == "int64":
        series = pd.Series(pd.arrays.IntegerArray(array, mask))
    elif kind == "bool":
        series = pd.Series(pd.arrays.BooleanArray(array, mask))
    else:
        series = pd.Series(array).mask(mask)
    if kind == "instant":
        series = series.dt.tz_localize("UTC").dt.tz_convert(zone)
    return series


def to_pandas(result):
    pd = need("pandas")
    np = need("numpy")
    columns = result.columns
    series = [_series(pd, *rest) for _, *rest in _arrays(np, result)]
    frame = pd.concat(series, axis=1) if series else pd.DataFrame(index=range(len(result)))
    frame.columns = columns
    return frame


def to_arrow(result):
    pa = need("pyarrow")
    return pa.RecordBatchReader.from_stream(result).read_all()


def to_parquet(result, path):
    parquet = need("pyarrow.parquet")
    parquet.write_table(to_arrow(result), path)


def to_networkx(result):
    nx = need("networkx")
    graph = nx.MultiDiGraph()
    known = set()

    def add_node(node):
        if node.labels or node.properties or node.id not in known:
            known.add(node.id)
            # Not as arguments: a property may have the name of any of them.
            graph.add_node(node.id)
            graph.nodes[node.id].update(_attributes(node, "labels"), labels=node.labels)

    def add(value):
        if isinstance(value, Node):
            add_node(value)
        elif isinstance(value, Relationship):
            for end in (value.start, value.end):
                if end not in known:
                    add_node(Node(end))
            graph.add_edge(value.start, value.end, key=value.id)
            graph.edges[value.start, value.end, value.id].update(_attributes(value, "type"), type=value.type)
        elif isinstance(value, Path):
            for part in value.nodes + value.relationships:
                add(part)
        elif isinstance(value, (list, tuple)):
            for part in value:
                add(part)
        elif isinstance(value, dict):
            for part in value.values():
                add(part)

    for number in range(len(result)):
        add(result[number])
    return graph


def _attributes(entity, taken):
    """Properties as attributes; one of the name that the graph itself needs is left to it."""
    return {str(key): value for key, value in entity.items() if key != taken}
