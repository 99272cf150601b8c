#include <Python.h>
#include <datetime.h>

#include "python/native/convert.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"
#include "services/graph/session/failure.h"
#include "services/graph/syntax/error.h"

namespace nb = nanobind;

namespace pulse::python {
namespace {

using cypher::Type;
using cypher::Value;
using graph::EntityRecords;
using graph::ResultTable;

// Classes and functions of the package, held for the life of the process.
struct Package {
  PyObject* node = nullptr;
  PyObject* relationship = nullptr;
  PyObject* path = nullptr;
  PyObject* duration = nullptr;
  PyObject* point = nullptr;
  PyObject* make_temporal = nullptr;  // what datetime's C interface cannot say
  PyObject* make_error = nullptr;
};
Package package;

PyObject* Text(std::string_view text) {
  return PyUnicode_DecodeUTF8(text.data(), static_cast<Py_ssize_t>(text.size()), "replace");
}

PyObject* List(const cypher::ValueList& list, const ResultTable& table, NameCache* names) {
  PyObject* out = PyList_New(static_cast<Py_ssize_t>(list.size()));
  if (out == nullptr) return nullptr;
  for (size_t i = 0; i < list.size(); ++i) {
    PyObject* item = ToPython(list[i], table, names);
    if (item == nullptr) {
      Py_DECREF(out);
      return nullptr;
    }
    PyList_SET_ITEM(out, static_cast<Py_ssize_t>(i), item);
  }
  return out;
}

// Takes over `key` and `value`, either of which may be null.
bool Put(PyObject* dict, PyObject* key, PyObject* value) {
  const bool done = key != nullptr && value != nullptr && PyDict_SetItem(dict, key, value) == 0;
  Py_XDECREF(key);
  Py_XDECREF(value);
  return done;
}

PyObject* Map(const cypher::ValueMap& map, const ResultTable& table, NameCache* names) {
  PyObject* out = PyDict_New();
  if (out == nullptr) return nullptr;
  for (const auto& [key, value] : map) {
    if (!Put(out, Text(key), ToPython(value, table, names))) {
      Py_DECREF(out);
      return nullptr;
    }
  }
  return out;
}

PyObject* PropertiesOf(const cypher::Properties& properties, const ResultTable& table,
                       NameCache* names) {
  PyObject* out = PyDict_New();
  if (out == nullptr) return nullptr;
  for (const auto& [key, value] : properties) {
    PyObject* name = names->KeyOf(key, *table.entities());
    Py_XINCREF(name);
    if (!Put(out, name, ToPython(value, table, names))) {
      Py_DECREF(out);
      return nullptr;
    }
  }
  return out;
}

// Calls with references that it takes over, any of which may be null.
template <typename... Arguments>
PyObject* Call(PyObject* callable, Arguments... arguments) {
  PyObject* all[] = {arguments...};
  PyObject* out = nullptr;
  bool whole = true;
  for (PyObject* argument : all) whole = whole && argument != nullptr;
  if (whole) out = PyObject_Vectorcall(callable, all, sizeof...(arguments), nullptr);
  for (PyObject* argument : all) Py_XDECREF(argument);
  return out;
}

PyObject* NodeToPython(cypher::NodeId id, const ResultTable& table, NameCache* names) {
  const EntityRecords& records = *table.entities();
  const auto found = records.nodes.find(id);
  static const graph::NodeRecord kNone;
  const graph::NodeRecord& record = found == records.nodes.end() ? kNone : found->second;
  PyObject* labels = PyFrozenSet_New(nullptr);
  for (const cypher::Token label : record.labels) {
    PyObject* name = labels == nullptr ? nullptr : Text(records.labels.at(label));
    if (name == nullptr || PySet_Add(labels, name) != 0) Py_CLEAR(labels);
    Py_XDECREF(name);
  }
  return Call(package.node, PyLong_FromUnsignedLongLong(id), labels,
              PropertiesOf(record.properties, table, names));
}

PyObject* EdgeToPython(const cypher::EdgeRef& edge, PyObject* nodes, const ResultTable& table,
                       NameCache* names) {
  const EntityRecords& records = *table.entities();
  const auto found = records.edges.find(edge.id);
  static const graph::EdgeRecord kNone;
  const graph::EdgeRecord& record = found == records.edges.end() ? kNone : found->second;
  PyObject* known = nodes == nullptr ? Py_None : nodes;
  Py_INCREF(known);
  return Call(package.relationship, PyLong_FromUnsignedLongLong(edge.id),
              Text(records.types.at(edge.type)), PyLong_FromUnsignedLongLong(edge.source),
              PyLong_FromUnsignedLongLong(edge.target),
              PropertiesOf(record.properties, table, names), known);
}

PyObject* PathToPython(const cypher::Path& path, const ResultTable& table, NameCache* names) {
  PyObject* nodes = PyTuple_New(static_cast<Py_ssize_t>(path.nodes.size()));
  PyObject* by_id = PyDict_New();
  PyObject* edges = PyTuple_New(static_cast<Py_ssize_t>(path.edges.size()));
  bool good = nodes != nullptr && by_id != nullptr && edges != nullptr;
  for (size_t i = 0; good && i < path.nodes.size(); ++i) {
    PyObject* node = NodeToPython(path.nodes[i], table, names);
    good = node != nullptr;
    if (!good) break;
    Py_INCREF(node);
    PyTuple_SET_ITEM(nodes, static_cast<Py_ssize_t>(i), node);
    good = Put(by_id, PyLong_FromUnsignedLongLong(path.nodes[i]), node);
  }
  for (size_t i = 0; good && i < path.edges.size(); ++i) {
    PyObject* edge = EdgeToPython(path.edges[i], by_id, table, names);
    good = edge != nullptr;
    if (good) PyTuple_SET_ITEM(edges, static_cast<Py_ssize_t>(i), edge);
  }
  Py_XDECREF(by_id);
  if (good) return Call(package.path, nodes, edges);
  Py_XDECREF(nodes);
  Py_XDECREF(edges);
  return nullptr;
}

// The package makes what has a zone, or is finer than a microsecond.
PyObject* MakeTemporal(const char* kind, const cypher::TemporalParts& parts, PyObject* offset) {
  return Call(package.make_temporal, PyUnicode_FromString(kind), PyLong_FromLongLong(parts.days),
              PyLong_FromLongLong(parts.nanos), offset, Text(parts.zone.name));
}

PyObject* DateToPython(int64_t days) {
  const cypher::Civil civil = cypher::CivilFromDays(days);
  if (civil.year < 1 || civil.year > 9999) {
    PyErr_Format(PyExc_OverflowError,
                 "a date of the year %lld: Python's datetime has the years 1 to 9999; let the "
                 "query return toString() of it",
                 static_cast<long long>(civil.year));
    return nullptr;
  }
  return PyDate_FromDate(static_cast<int>(civil.year), civil.month, civil.day);
}

PyObject* TemporalToPython(const Value& value) {
  if (value.type() == Type::kDate) return DateToPython(value.as_days());
  const cypher::TemporalParts parts = cypher::TakeApart(value);
  const bool fine = parts.nanos % 1000 == 0;
  const int64_t micros = parts.nanos / 1000;
  const int64_t seconds = micros / 1'000'000;
  const auto hour = static_cast<int>(seconds / 3600), minute = static_cast<int>(seconds / 60 % 60),
             second = static_cast<int>(seconds % 60), micro = static_cast<int>(micros % 1'000'000);
  switch (value.type()) {
    case Type::kLocalTime:
      if (fine) return PyTime_FromTime(hour, minute, second, micro);
      return MakeTemporal("time", parts, Py_NewRef(Py_None));
    case Type::kTime:
      return MakeTemporal("time", parts, PyLong_FromLong(parts.zone.offset));
    case Type::kLocalDateTime: {
      const cypher::Civil civil = cypher::CivilFromDays(parts.days);
      if (fine && civil.year >= 1 && civil.year <= 9999) {
        return PyDateTime_FromDateAndTime(static_cast<int>(civil.year), civil.month, civil.day,
                                          hour, minute, second, micro);
      }
      return MakeTemporal("datetime", parts, Py_NewRef(Py_None));
    }
    default:
      return MakeTemporal("datetime", parts, PyLong_FromLong(parts.zone.offset));
  }
}

PyObject* DurationToPython(const cypher::Duration& duration) {
  return Call(package.duration, PyLong_FromLongLong(duration.months),
              PyLong_FromLongLong(duration.days), PyLong_FromLongLong(duration.seconds),
              PyLong_FromLong(duration.nanos));
}

PyObject* PointToPython(const cypher::Point& point) {
  const bool flat = cypher::DimensionsOf(point.crs) == 2;
  return Call(package.point, PyFloat_FromDouble(point.x), PyFloat_FromDouble(point.y),
              flat ? Py_NewRef(Py_None) : PyFloat_FromDouble(point.z),
              PyLong_FromLong(cypher::SridOf(point.crs)));
}

}  // namespace

void StartConversions() {
  PyDateTime_IMPORT;
  if (PyDateTimeAPI == nullptr) throw nb::python_error();
  const nb::module_ types = nb::module_::import_("pulsedb._types");
  const nb::module_ errors = nb::module_::import_("pulsedb._errors");
  package.node = types.attr("Node").inc_ref().ptr();
  package.relationship = types.attr("Relationship").inc_ref().ptr();
  package.path = types.attr("Path").inc_ref().ptr();
  package.duration = types.attr("Duration").inc_ref().ptr();
  package.point = types.attr("Point").inc_ref().ptr();
  package.make_temporal = types.attr("make_temporal").inc_ref().ptr();
  package.make_error = errors.attr("make_error").inc_ref().ptr();
}

NameCache::~NameCache() {
  for (const auto& [token, name] : keys_) Py_DECREF(name);
}

PyObject* NameCache::KeyOf(graph::Token key, const EntityRecords& records) {
  if (const auto found = keys_.find(key); found != keys_.end()) return found->second;
  PyObject* name = Text(records.keys.at(key));
  if (name == nullptr) return nullptr;
  PyUnicode_InternInPlace(&name);
  keys_.emplace(key, name);
  return name;
}

PyObject* ToPython(const Value& value, const ResultTable& table, NameCache* names) {
  switch (value.type()) {
    case Type::kNull:
      return Py_NewRef(Py_None);
    case Type::kBool:
      return PyBool_FromLong(value.as_bool() ? 1 : 0);
    case Type::kInt:
      return PyLong_FromLongLong(value.as_int());
    case Type::kFloat:
      return PyFloat_FromDouble(value.as_float());
    case Type::kString:
      return Text(value.as_string());
    case Type::kBytes:
      return PyBytes_FromStringAndSize(value.as_bytes().data(),
                                       static_cast<Py_ssize_t>(value.as_bytes().size()));
    case Type::kList:
      return List(value.as_list(), table, names);
    case Type::kMap:
      return Map(value.as_map(), table, names);
    case Type::kNode:
      return NodeToPython(value.as_node(), table, names);
    case Type::kEdge:
      return EdgeToPython(value.as_edge(), nullptr, table, names);
    case Type::kPath:
      return PathToPython(value.as_path(), table, names);
    case Type::kDuration:
      return DurationToPython(value.as_duration());
    case Type::kPoint:
      return PointToPython(value.as_point());
    default:
      return TemporalToPython(value);
  }
}

PyObject* RowToPython(const ResultTable& table, size_t row, NameCache* names) {
  const size_t width = table.width();
  const Value* const values = table.Row(row);
  PyObject* out = PyTuple_New(static_cast<Py_ssize_t>(width));
  if (out == nullptr) return nullptr;
  for (size_t i = 0; i < width; ++i) {
    PyObject* item = ToPython(values[i], table, names);
    if (item == nullptr) {
      Py_DECREF(out);
      return nullptr;
    }
    PyTuple_SET_ITEM(out, static_cast<Py_ssize_t>(i), item);
  }
  return out;
}

namespace {

[[noreturn]] void RaiseKind(const absl::Status& status, std::string_view kind,
                            cypher::Doing doing) {
  if (PyErr_Occurred() != nullptr) throw nb::python_error();
  const cypher::Failure failure = cypher::FailureOf(status, doing);
  PyObject* error = Call(package.make_error, PyLong_FromLong(static_cast<long>(status.code())),
                         Text(kind), Text(failure.code), Text(failure.message));
  if (error != nullptr) {
    PyErr_SetObject(reinterpret_cast<PyObject*>(Py_TYPE(error)), error);
    Py_DECREF(error);
  }
  throw nb::python_error();
}

}  // namespace

void Raise(const absl::Status& status, cypher::Doing doing) {
  RaiseKind(status, cypher::InfoOf(status).kind, doing);
}

void RaiseOfStore(const absl::Status& status) {
  const std::string kind = cypher::InfoOf(status).kind;
  RaiseKind(status, kind.empty() ? "Store" : kind, cypher::Doing::kStore);
}

}  // namespace pulse::python
