"""Columns to load, out of what people keep data in."""

import collections.abc
import os

from ._frames import need


def _kind(array):
    return getattr(getattr(array, "dtype", None), "kind", None)


def _of_numpy(array):
    """An array as (data, mask) for the native module."""
    import numpy as np

    is_time = array.dtype.kind in "mM"
    if array.ndim != 1:  # a masked one has None in its lists
        return (list(array) if is_time else array.tolist()), None
    mask = None
    if isinstance(array, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(array)
        array = array.data
    is_half = array.dtype.kind == "f" and array.dtype.itemsize == 2
    if array.dtype.kind in "biuf" and array.dtype.itemsize <= 8 and not is_half:
        return array.astype(array.dtype.newbyteorder("="), copy=False), mask
    # One by one: dates, texts, objects.
    return (list(array) if is_time else array.tolist()), mask


def _of_pandas(series):
    """A Series, a column of a DataFrame, an Index or an array of pandas; what pandas takes for missing is null."""
    if not hasattr(series, "iloc"):  # an Index, or an array of pandas' own
        series = need("pandas").Series(series)
    kind = _kind(series)
    missing = series.isna().to_numpy(dtype=bool)
    if kind in ("b", "i", "u", "f"):
        numpy_kind = {"b": "bool", "i": "int64", "u": "uint64", "f": "float64"}[kind]
        if missing.any():
            return series.to_numpy(dtype=numpy_kind, na_value=0), missing
        return series.to_numpy(dtype=numpy_kind), None
    data = [None if gone else value for value, gone in zip(series.tolist(), missing)]
    return data, None


def _column(name, data):
    if not isinstance(name, str):
        raise TypeError(f"the name of a column is a str, not {type(name).__name__}")
    module = type(data).__module__.partition(".")[0]
    if module == "pandas" and hasattr(data, "dtype"):
        return (name, *_of_pandas(data))
    if module == "numpy" and hasattr(data, "dtype"):
        if data.ndim == 0:
            raise TypeError(f"column {name} is {type(data).__name__} without a dimension, not a list or an array")
        return (name, *_of_numpy(data))
    # Of pandas: scalars, and a DataFrame, which would be the names of its columns.
    if (
        module == "pandas"
        or isinstance(data, (str, bytes))
        or not isinstance(data, collections.abc.Iterable)
    ):
        raise TypeError(f"column {name} is {type(data).__name__}, not a list or an array")
    return (name, list(data), None)


def _of_parquet(path):
    """A Parquet file, or a directory of them with one schema, a batch at a time."""
    dataset = need("pyarrow.dataset")
    return dataset.dataset(os.fspath(path), format="parquet").scanner().to_reader()


def _of_arrow(source):
    """What gives an Arrow stream, where a name would end at its first NUL."""
    names = getattr(getattr(source, "schema", None), "names", ())
    for name in names if isinstance(names, (list, tuple)) else ():
        if isinstance(name, str) and "\0" in name:
            raise ValueError(f"the name of a column of Arrow has no NUL: {name!r}")
    return source


def columns_of(data, needed=()):
    """`data` as the native module takes it: an object with __arrow_c_stream__, or columns.

    `needed`: the columns of a list without rows, which names none.
    """
    is_path = isinstance(data, str) and (data.endswith(".parquet") or os.path.isdir(data))
    if is_path or isinstance(data, os.PathLike):
        return _of_arrow(_of_parquet(data))
    module = type(data).__module__.partition(".")[0]
    if module == "pandas" and hasattr(data, "columns"):
        names = list(data.columns)
        return _checked([_column(name, data.iloc[:, number]) for number, name in enumerate(names)])
    if hasattr(data, "__arrow_c_stream__"):
        return _of_arrow(data)
    if isinstance(data, collections.abc.Mapping):
        return _checked([_column(name, column) for name, column in data.items()])
    is_rows = isinstance(data, collections.abc.Sequence) and not isinstance(data, (str, bytes, bytearray))
    if is_rows and all(isinstance(row, collections.abc.Mapping) for row in data):
        names = dict.fromkeys(key for row in data for key in row) if len(data) else dict.fromkeys(needed)
        return _checked([_column(name, [row.get(name) for row in data]) for name in names])
    raise TypeError(
        "data to load is a dict of columns, a list of dicts, a DataFrame, the path of Parquet files,"
        f" or has __arrow_c_stream__; this is {type(data).__name__}"
    )


def _checked(columns):
    lengths = {name: len(data) for name, data, _ in columns}
    if len(set(lengths.values())) > 1:
        raise ValueError(f"the columns differ in length: {lengths}")
    if len(lengths) < len(columns):
        raise ValueError("two columns have the same name")
    return columns
