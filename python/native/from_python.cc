#include <Python.h>
#include <datetime.h>

#include <algorithm>
#include <optional>

#include "python/native/convert.h"
#include "services/graph/model/point.h"
#include "services/graph/model/temporal.h"

namespace nb = nanobind;

namespace pulse::python {
namespace {

using cypher::Value;

PyObject* Simplify() {
  static PyObject* function =
      nb::module_::import_("pulsedb._types").attr("simplify").inc_ref().ptr();
  return function;
}

bool Integer(PyObject* object, Value* out) {
  int overflow = 0;
  const long long value = PyLong_AsLongLongAndOverflow(object, &overflow);
  if (overflow != 0) {
    PyErr_SetString(PyExc_OverflowError,
                    "an integer of a graph has 64 bits: -2**63 to 2**63 - 1; pass a str or float");
    return false;
  }
  if (value == -1 && PyErr_Occurred() != nullptr) return false;
  *out = Value::Int(value);
  return true;
}

bool Sequence(PyObject* object, int depth, Value* out) {
  const Py_ssize_t size = PySequence_Fast_GET_SIZE(object);
  cypher::ValueList list;
  list.reserve(static_cast<size_t>(size));
  // A call of Python's below may change the list.
  for (Py_ssize_t i = 0; i < PySequence_Fast_GET_SIZE(object); ++i) {
    PyObject* item = Py_NewRef(PySequence_Fast_GET_ITEM(object, i));
    const bool good = FromPython(item, depth + 1, &list.emplace_back());
    Py_DECREF(item);
    if (!good) return false;
  }
  *out = Value::List(std::move(list));
  return true;
}

bool Entries(PyObject* dict, int depth, cypher::ValueMap* out) {
  out->reserve(static_cast<size_t>(PyDict_GET_SIZE(dict)));
  Py_ssize_t at = 0;
  PyObject *key = nullptr, *item = nullptr;
  while (PyDict_Next(dict, &at, &key, &item) != 0) {
    std::string_view name;
    if (!PyUnicode_Check(key)) {
      PyErr_Format(PyExc_TypeError, "the keys of parameters and maps are str, not %s",
                   Py_TYPE(key)->tp_name);
      return false;
    }
    if (!TextOf(key, &name)) return false;
    auto& entry = out->emplace_back();
    entry.first = name;
    Py_INCREF(item);
    const bool good = FromPython(item, depth + 1, &entry.second);
    Py_DECREF(item);
    if (!good) return false;
  }
  return true;
}

// An attribute that is an int; `none` where there is no such attribute.
bool IntAttribute(PyObject* object, const char* name, int64_t none, int64_t* out) {
  PyObject* value = PyObject_GetAttrString(object, name);
  if (value == nullptr) {
    if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
    PyErr_Clear();
    *out = none;
    return true;
  }
  *out = PyLong_AsLongLong(value);
  Py_DECREF(value);
  return *out != -1 || PyErr_Occurred() == nullptr;
}

// utcoffset() in seconds; *there is false where it gives None.
bool OffsetOf(PyObject* object, bool* there, int32_t* out) {
  PyObject* delta = PyObject_CallMethod(object, "utcoffset", nullptr);
  if (delta == nullptr) return false;
  *there = delta != Py_None;
  bool good = true;
  if (*there) {
    if (PyDateTime_DELTA_GET_MICROSECONDS(delta) != 0) {
      PyErr_SetString(PyExc_ValueError, "an offset from UTC has whole seconds");
      good = false;
    }
    *out = PyDateTime_DELTA_GET_DAYS(delta) * 86400 + PyDateTime_DELTA_GET_SECONDS(delta);
    // As the database has it; Python allows 24 hours.
    constexpr int32_t kMostOffset = 18 * 3600;
    if (good && (*out > kMostOffset || *out < -kMostOffset)) {
      PyErr_SetString(PyExc_ValueError, "an offset from UTC is at most 18 hours");
      good = false;
    }
  }
  Py_DECREF(delta);
  return good;
}

// A zone of the system's database and its name, as zoneinfo and pytz have it; else none.
bool ZoneOf(PyObject* tzinfo, std::optional<cypher::Zone>* zone, std::string* out) {
  for (const char* attribute : {"key", "zone"}) {
    PyObject* name = PyObject_GetAttrString(tzinfo, attribute);
    if (name == nullptr) {
      if (!PyErr_ExceptionMatches(PyExc_AttributeError)) return false;
      PyErr_Clear();
      continue;
    }
    std::string_view text;
    const bool is_text = PyUnicode_Check(name) != 0;
    if (is_text && TextOf(name, &text)) *zone = cypher::ParseZone(text);
    if (*zone) *out = text;
    Py_DECREF(name);
    if (PyErr_Occurred() != nullptr) return false;
    if (is_text) return true;
  }
  return true;
}

bool DateTimeFromPython(PyObject* object, Value* out) {
  const int64_t days = cypher::DaysFromCivil(
      PyDateTime_GET_YEAR(object), PyDateTime_GET_MONTH(object), PyDateTime_GET_DAY(object));
  const int64_t seconds = days * cypher::kSecondsPerDay + PyDateTime_DATE_GET_HOUR(object) * 3600 +
                          PyDateTime_DATE_GET_MINUTE(object) * 60 +
                          PyDateTime_DATE_GET_SECOND(object);
  int64_t rest = 0;  // of pandas' and our own class
  if (!PyDateTime_CheckExact(object) && !IntAttribute(object, "nanosecond", 0, &rest)) return false;
  const auto nanos = static_cast<int32_t>(PyDateTime_DATE_GET_MICROSECOND(object) * 1000 + rest);
  PyObject* tzinfo = PyDateTime_DATE_GET_TZINFO(object);
  bool there = false;
  cypher::DateTime value;
  if (tzinfo != Py_None && !OffsetOf(object, &there, &value.offset)) return false;
  if (!there) {
    *out = Value::LocalDateTime(seconds, nanos);
    return true;
  }
  value.seconds = seconds - value.offset;
  value.nanos = nanos;
  std::optional<cypher::Zone> zone;
  if (!ZoneOf(tzinfo, &zone, &value.zone)) return false;
  // A local time that the zone leaves out has the offset before it in Python; it is another one.
  if (zone) value.offset = cypher::OffsetAt(value.seconds, *zone);
  *out = Value::MakeDateTime(std::move(value));
  return true;
}

bool TimeFromPython(PyObject* object, Value* out) {
  int64_t rest = 0;
  if (!PyTime_CheckExact(object) && !IntAttribute(object, "nanosecond", 0, &rest)) return false;
  const int64_t seconds = PyDateTime_TIME_GET_HOUR(object) * 3600 +
                          PyDateTime_TIME_GET_MINUTE(object) * 60 +
                          PyDateTime_TIME_GET_SECOND(object);
  const int64_t nanos = seconds * cypher::kNanosPerSecond +
                        int64_t{PyDateTime_TIME_GET_MICROSECOND(object)} * 1000 + rest;
  if (PyDateTime_TIME_GET_TZINFO(object) == Py_None) {
    *out = Value::LocalTime(nanos);
    return true;
  }
  bool there = false;
  int32_t offset = 0;
  if (!OffsetOf(object, &there, &offset)) return false;
  if (!there) {
    PyErr_SetString(PyExc_ValueError,
                    "the zone of this time has no offset without a date: use a datetime, or a "
                    "datetime.timezone");
    return false;
  }
  *out = Value::Time(nanos, offset);
  return true;
}

bool DeltaFromPython(PyObject* object, Value* out) {
  cypher::Duration duration;
  duration.days = PyDateTime_DELTA_GET_DAYS(object);
  duration.seconds = PyDateTime_DELTA_GET_SECONDS(object);
  duration.nanos = PyDateTime_DELTA_GET_MICROSECONDS(object) * 1000;
  *out = Value::MakeDuration(duration);
  return true;
}

// Our Duration, by its attributes: it comes from simplify() as a tuple of four.
bool DurationFromTuple(PyObject* tuple, Value* out) {
  cypher::Duration duration;
  long long months = 0, days = 0, seconds = 0;
  int nanos = 0;
  if (PyArg_ParseTuple(tuple, "LLLi", &months, &days, &seconds, &nanos) == 0) return false;
  duration.months = months;
  duration.days = days;
  duration.seconds = seconds;
  duration.nanos = nanos;
  *out = Value::MakeDuration(duration);
  return true;
}

// Our Point: the number of its system, and its coordinates, of which z may be None.
bool PointFromTuple(PyObject* tuple, Value* out) {
  int srid = 0;
  double coordinates[3] = {};
  PyObject* z = nullptr;
  if (PyArg_ParseTuple(tuple, "iddO", &srid, &coordinates[0], &coordinates[1], &z) == 0) {
    return false;
  }
  if (z != Py_None) coordinates[2] = PyFloat_AsDouble(z);
  if (PyErr_Occurred() != nullptr) return false;
  std::string error;
  const auto crs = cypher::CrsOfSrid(srid, &error);
  auto point =
      crs ? cypher::PointOf(*crs, {coordinates, z == Py_None ? size_t{2} : size_t{3}}, &error)
          : std::nullopt;
  if (!point) {
    PyErr_SetString(PyExc_ValueError, error.c_str());
    return false;
  }
  *out = *std::move(point);
  return true;
}

}  // namespace

bool TextOf(PyObject* text, std::string_view* out) {
  Py_ssize_t size = 0;
  const char* bytes = PyUnicode_AsUTF8AndSize(text, &size);
  if (bytes == nullptr) return false;
  *out = {bytes, static_cast<size_t>(size)};
  return true;
}

bool FromPython(PyObject* object, int depth, Value* out) {
  if (PyDateTimeAPI == nullptr) PyDateTime_IMPORT;
  if (depth >= cypher::kMaxValueDepth) {
    PyErr_Format(PyExc_ValueError, "lists and maps nest at most %d deep", cypher::kMaxValueDepth);
    return false;
  }
  if (object == Py_None) {
    *out = Value();
    return true;
  }
  if (PyLong_CheckExact(object)) return Integer(object, out);
  if (PyUnicode_Check(object)) {
    std::string_view text;
    if (!TextOf(object, &text)) return false;
    *out = Value::String(text);
    return true;
  }
  if (PyFloat_Check(object)) {
    *out = Value::Float(PyFloat_AS_DOUBLE(object));
    return true;
  }
  if (PyBool_Check(object)) {
    *out = Value::Bool(object == Py_True);
    return true;
  }
  if (PyBytes_Check(object)) {
    const auto size = static_cast<size_t>(PyBytes_GET_SIZE(object));
    *out = Value::MakeBytes({PyBytes_AS_STRING(object), size});
    return true;
  }
  if (PyLong_Check(object)) return Integer(object, out);
  if (PyList_Check(object) || PyTuple_CheckExact(object)) return Sequence(object, depth, out);
  if (PyDict_Check(object)) {
    cypher::ValueMap map;
    if (!Entries(object, depth, &map)) return false;
    *out = Value::Map(std::move(map));
    return true;
  }
  if (PyDateTime_CheckExact(object)) return DateTimeFromPython(object, out);
  if (PyDate_CheckExact(object)) {
    *out = Value::Date(cypher::DaysFromCivil(
        PyDateTime_GET_YEAR(object), PyDateTime_GET_MONTH(object), PyDateTime_GET_DAY(object)));
    return true;
  }
  if (PyTime_Check(object)) return TimeFromPython(object, out);
  if (PyDelta_CheckExact(object)) return DeltaFromPython(object, out);
  // Everything else is made simpler by the package, which raises where it cannot.
  PyObject* pair = PyObject_CallOneArg(Simplify(), object);
  if (pair == nullptr) return false;
  PyObject* kind = PyTuple_GET_ITEM(pair, 0);
  PyObject* simple = PyTuple_GET_ITEM(pair, 1);
  bool good = false;
  if (PyUnicode_CompareWithASCIIString(kind, "duration") == 0) {
    good = DurationFromTuple(simple, out);
  } else if (PyUnicode_CompareWithASCIIString(kind, "point") == 0) {
    good = PointFromTuple(simple, out);
  } else if (PyUnicode_CompareWithASCIIString(kind, "datetime") == 0) {
    good = DateTimeFromPython(simple, out);
  } else {
    good = FromPython(simple, depth + 1, out);
  }
  Py_DECREF(pair);
  return good;
}

bool ParametersFromPython(PyObject* object, cypher::ValueMap* out) {
  if (object == Py_None) return true;
  if (!PyDict_Check(object)) {
    PyErr_Format(PyExc_TypeError, "parameters are a dict of their names and values, not %s",
                 Py_TYPE(object)->tp_name);
    return false;
  }
  if (!Entries(object, 0, out)) return false;
  if (out->size() > 1) {
    std::sort(out->begin(), out->end(),
              [](const auto& a, const auto& b) { return a.first < b.first; });
  }
  return true;
}

}  // namespace pulse::python
