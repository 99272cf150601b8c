#include "python/native/result.h"

#include "python/native/arrow.h"
#include "services/graph/library/column_types.h"

namespace nb = nanobind;

namespace pulse::python {
namespace {

using cypher::Value;
using graph::FixedInt;
using graph::FlatTypeOf;
using graph::FrameKind;
using graph::FrameType;

nb::object Steal(PyObject* object) {
  if (object == nullptr) throw nb::python_error();
  return nb::steal(object);
}

nb::object Str(std::string_view text) {
  return Steal(PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace"));
}

nb::list FetchRows(Result& self, size_t most) {
  size_t first = 0;
  const size_t count = self.Take(most, &first);
  nb::object out = nb::steal(PyList_New(static_cast<Py_ssize_t>(count)));
  for (size_t i = 0; i < count; ++i) {
    PyObject* row = out.is_valid() ? RowToPython(self.table(), first + i, self.names()) : nullptr;
    if (row == nullptr) {
      self.GiveBack(first, count);
      throw nb::python_error();
    }
    PyList_SET_ITEM(out.ptr(), static_cast<Py_ssize_t>(i), row);
  }
  return nb::borrow<nb::list>(out);
}

nb::list FetchMany(Result& self, nb::handle size) {
  const Py_ssize_t most = PyNumber_AsSsize_t(size.ptr(), nullptr);  // at most what there can be
  if (most == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  if (most < 0) throw nb::value_error("size is a number of rows, 0 or more");
  return FetchRows(self, static_cast<size_t>(most));
}

nb::object FetchOne(Result& self) {
  PyObject* row = self.Next();
  if (row != nullptr) return nb::steal(row);
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  return nb::none();
}

nb::list Columns(const Result& self) {
  nb::list out;
  for (const std::string& name : self.table().columns()) out.append(Str(name));
  return out;
}

nb::list ToDicts(Result& self) {
  const graph::ResultTable& table = self.table();
  const nb::list columns = Columns(self);
  nb::list out;
  for (size_t row = 0; row < table.rows(); ++row) {
    nb::dict one;
    for (size_t i = 0; i < table.width(); ++i) {
      one[columns[i]] = Steal(ToPython(table.At(row, i), table, self.names()));
    }
    out.append(one);
  }
  return out;
}

nb::object RowAt(Result& self, Py_ssize_t at) {
  const auto rows = static_cast<Py_ssize_t>(self.table().rows());
  if (at < 0) at += rows;
  if (at < 0 || at >= rows) throw nb::index_error("there is no such row");
  return Steal(RowToPython(self.table(), static_cast<size_t>(at), self.names()));
}

nb::list RowsOf(Result& self, nb::slice slice) {
  const auto [start, stop, step, count] = slice.compute(self.table().rows());
  nb::list out;
  for (size_t i = 0; i < count; ++i) {
    out.append(RowAt(self, start + static_cast<Py_ssize_t>(i) * step));
  }
  return out;
}

nb::object Item(Result& self, nb::handle key) {
  if (nb::isinstance<nb::slice>(key)) return RowsOf(self, nb::borrow<nb::slice>(key));
  const Py_ssize_t at = PyNumber_AsSsize_t(key.ptr(), PyExc_IndexError);
  if (at == -1 && PyErr_Occurred() != nullptr) throw nb::python_error();
  return RowAt(self, at);
}

nb::dict Facts(const Result& self) {
  const cypher::Outcome& outcome = self.table().outcome();
  const cypher::Counters& counters = outcome.counters;
  nb::dict out;
  out["nodes_created"] = counters.nodes_created;
  out["nodes_deleted"] = counters.nodes_deleted;
  out["relationships_created"] = counters.edges_created;
  out["relationships_deleted"] = counters.edges_deleted;
  out["properties_set"] = counters.properties_set;
  out["labels_added"] = counters.labels_added;
  out["labels_removed"] = counters.labels_removed;
  out["indexes_added"] = outcome.indexes_added;
  out["indexes_removed"] = outcome.indexes_removed;
  out["constraints_added"] = outcome.constraints_added;
  out["constraints_removed"] = outcome.constraints_removed;
  out["query_type"] = Str(self.table().statement().type());
  out["plan"] = outcome.plan.empty() ? nb::none() : Str(outcome.plan);
  out["notice"] = outcome.notice.empty() ? nb::none() : Str(outcome.notice);
  out["sequence"] = outcome.sequence;
  return out;
}

nb::object Bytes(const void* data, size_t size) {
  return Steal(
      PyByteArray_FromStringAndSize(static_cast<const char*>(data), static_cast<Py_ssize_t>(size)));
}

// A column as NumPy takes it: (kind, unit or zone, data, mask). Kinds: "int64", "float64", "bool",
// "date", "datetime" and "instant" have bytes of fixed width, and a byte for each row that is 1
// where it is null, or None where no row is; "object" has a list.
nb::tuple ColumnData(Result& self, size_t column) {
  const graph::ResultTable& table = self.table();
  const FrameType type = FlatTypeOf(table, column);
  const size_t rows = table.rows();
  std::vector<uint8_t> mask(rows);
  bool nulls = false;
  for (size_t row = 0; row < rows; ++row) {
    mask[row] = table.At(row, column).is_null() ? 1 : 0;
    nulls = nulls || mask[row] != 0;
  }
  const auto fixed = [&](const char* kind, nb::object data) {
    nb::object mask_bytes = nulls ? Bytes(mask.data(), rows) : nb::none();
    return nb::make_tuple(kind, Str(type.zone), type.nanos ? "ns" : "us", data, mask_bytes);
  };
  switch (type.kind) {
    case FrameKind::kInt:
    case FrameKind::kDate:
    case FrameKind::kLocalDateTime:
    case FrameKind::kInstant: {
      std::vector<int64_t> data(rows);
      for (size_t row = 0; row < rows; ++row) data[row] = FixedInt(type, table.At(row, column));
      const char* kind = type.kind == FrameKind::kInt       ? "int64"
                         : type.kind == FrameKind::kDate    ? "date"
                         : type.kind == FrameKind::kInstant ? "instant"
                                                            : "datetime";
      return fixed(kind, Bytes(data.data(), rows * sizeof(int64_t)));
    }
    case FrameKind::kFloat: {
      std::vector<double> data(rows);
      for (size_t row = 0; row < rows; ++row) {
        const Value& value = table.At(row, column);
        data[row] = value.is_null() ? 0 : value.as_number();
      }
      return fixed("float64", Bytes(data.data(), rows * sizeof(double)));
    }
    case FrameKind::kBool: {
      std::vector<uint8_t> data(rows);
      for (size_t row = 0; row < rows; ++row) data[row] = table.At(row, column).is_true() ? 1 : 0;
      return fixed("bool", Bytes(data.data(), rows));
    }
    default: {
      nb::list items;
      for (size_t row = 0; row < rows; ++row) {
        items.append(Steal(ToPython(table.At(row, column), table, self.names())));
      }
      return nb::make_tuple("object", Str(type.zone), "us", items, nb::none());
    }
  }
}

PyObject* IterSelf(PyObject* self) { return Py_NewRef(self); }

// The slot itself, since one call for each row counts.
PyObject* IterNext(PyObject* self) { return nb::inst_ptr<Result>(self)->Next(); }

PyType_Slot result_slots[] = {{Py_tp_iter, reinterpret_cast<void*>(IterSelf)},
                              {Py_tp_iternext, reinterpret_cast<void*>(IterNext)},
                              {0, nullptr}};

nb::object CallFrames(const char* name, nb::handle self) {
  return nb::module_::import_("pulsedb._frames").attr(name)(self);
}

}  // namespace

void BindResult(nb::module_& module) {
  nb::class_<Result>(module, "Result", nb::type_slots(result_slots),
                     "The rows of a statement. Iterating, fetchone(), fetchmany() and fetchall() "
                     "take rows in turn, as tuples; len(), [i] and the to_...() methods see all "
                     "rows, wherever that has got to. A result holds all of its rows, and does "
                     "not change with the graph.")
      .def_prop_ro("columns", &Columns, "The names of the columns, in their order.")
      .def("__len__", [](const Result& self) { return self.table().rows(); })
      .def("__bool__", [](const Result&) { return true; })
      .def("__getitem__", &Item, nb::arg("row"),
           "A row by its number, from 0; rows by a slice of their numbers, as a list.")
      .def("fetchone", &FetchOne, "The next row, or None at the end.")
      .def("fetchmany", &FetchMany, nb::arg("size") = 1,
           "The next rows, at most `size` of them. Where a value cannot be had, none is taken.")
      .def(
          "fetchall", [](Result& self) { return FetchRows(self, self.left()); },
          "The rows that were not taken yet, as a list. Where a value cannot be had, none is "
          "taken; fetchone() goes over such a row.")
      .def("to_dicts", &ToDicts, "All rows, each as a dict by column.")
      .def(
          "single", [](nb::handle self) { return CallFrames("single", self); },
          "The only row, or None where there is none; ValueError where there are more.")
      .def(
          "scalar", [](nb::handle self) { return CallFrames("scalar", self); },
          "The first value of the only row, or None; ValueError where there are more rows.")
      .def_prop_ro(
          "summary", [](nb::handle self) { return CallFrames("summary", self); },
          "What the statement changed, its plan if it asked for that, and notices: a Summary.")
      .def(
          "to_numpy", [](nb::handle self) { return CallFrames("to_numpy", self); },
          "All rows, as a dict of NumPy arrays by column; masked arrays where numbers, booleans or "
          "dates are null. Needs numpy.")
      .def(
          "to_pandas", [](nb::handle self) { return CallFrames("to_pandas", self); },
          "All rows, as a DataFrame. Needs pandas.")
      .def(
          "to_arrow", [](nb::handle self) { return CallFrames("to_arrow", self); },
          "All rows, as a pyarrow.Table. Needs pyarrow; libraries that take "
          "__arrow_c_stream__ take the result itself.")
      .def(
          "to_parquet",
          [](nb::handle self, nb::handle path) {
            nb::module_::import_("pulsedb._frames").attr("to_parquet")(self, path);
          },
          nb::arg("path"), "Writes all rows to a Parquet file. Needs pyarrow.")
      .def(
          "to_networkx", [](nb::handle self) { return CallFrames("to_networkx", self); },
          "The nodes and relationships in the rows, as a networkx.MultiDiGraph. Needs networkx.")
      .def("__arrow_c_stream__", &ArrowStreamOf, nb::arg("requested_schema") = nb::none(),
           "All rows as an Arrow C stream, in batches of 65,536.")
      .def("_facts", &Facts)
      .def("_column", &ColumnData);
}

}  // namespace pulse::python
