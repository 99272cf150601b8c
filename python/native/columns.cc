#include "python/native/columns.h"

#include <nanobind/stl/string.h>

#include <cstring>

#include "services/graph/load/load_columns.h"
#include "services/graph/model/text.h"

namespace nb = nanobind;

namespace pulse::python {
namespace {

using cypher::Column;
using cypher::Concat;
using cypher::Value;

class Buffer {
 public:
  Buffer(const std::string& name, nb::handle object) {
    if (PyObject_GetBuffer(object.ptr(), &view_, PyBUF_FORMAT | PyBUF_STRIDES) != 0) {
      throw nb::python_error();
    }
    if (view_.ndim != 1) {
      PyBuffer_Release(&view_);
      throw nb::type_error(Concat("column ", name, " has more than one dimension").c_str());
    }
  }
  Buffer(const Buffer&) = delete;
  Buffer& operator=(const Buffer&) = delete;
  ~Buffer() { PyBuffer_Release(&view_); }

  size_t rows() const { return static_cast<size_t>(view_.shape[0]); }
  size_t width() const { return static_cast<size_t>(view_.itemsize); }
  // "q" and the like, of this machine's byte order; 0: another.
  char format() const {
    const char* text = view_.format == nullptr ? "B" : view_.format;
    if (*text == '@' || *text == '=' || *text == '<') ++text;
    return text[0] != '\0' && text[1] == '\0' ? text[0] : '\0';
  }
  template <typename T>
  T At(size_t row) const {
    T value;
    std::memcpy(
        &value,
        static_cast<const char*>(view_.buf) + static_cast<Py_ssize_t>(row) * view_.strides[0],
        sizeof(T));
    return value;
  }

 private:
  Py_buffer view_ = {};
};

template <typename T>
void TakeInts(const std::string& name, const Buffer& buffer, Column* out) {
  for (size_t row = 0; row < buffer.rows(); ++row) {
    const T value = buffer.At<T>(row);
    if constexpr (sizeof(T) == 8 && std::is_unsigned_v<T>) {
      if (value > INT64_MAX) {
        PyErr_Format(PyExc_OverflowError, "column %s, row %zu: %llu is more than 2**63 - 1",
                     name.c_str(), row, static_cast<unsigned long long>(value));
        throw nb::python_error();
      }
    }
    out->ints.push_back(static_cast<int64_t>(value));
  }
}

template <bool kSigned>
void TakeIntsOfWidth(const std::string& name, const Buffer& buffer, Column* out) {
  switch (buffer.width()) {
    case 1:
      return TakeInts<std::conditional_t<kSigned, int8_t, uint8_t>>(name, buffer, out);
    case 2:
      return TakeInts<std::conditional_t<kSigned, int16_t, uint16_t>>(name, buffer, out);
    case 4:
      return TakeInts<std::conditional_t<kSigned, int32_t, uint32_t>>(name, buffer, out);
    default:
      return TakeInts<std::conditional_t<kSigned, int64_t, uint64_t>>(name, buffer, out);
  }
}

Column FromBuffer(const std::string& name, nb::handle data) {
  const Buffer buffer(name, data);
  Column out;
  const char format = buffer.format();
  out.kind = Column::Kind::kInts;
  if (format != '\0' && std::strchr("bhilqn", format) != nullptr) {
    TakeIntsOfWidth<true>(name, buffer, &out);
  } else if (format != '\0' && std::strchr("BHILQN", format) != nullptr) {
    TakeIntsOfWidth<false>(name, buffer, &out);
  } else if (format == 'd' || format == 'f') {
    out.kind = Column::Kind::kFloats;
    for (size_t row = 0; row < buffer.rows(); ++row) {
      out.floats.push_back(format == 'd' ? buffer.At<double>(row) : buffer.At<float>(row));
    }
  } else if (format == '?') {
    out.kind = Column::Kind::kValues;
    for (size_t row = 0; row < buffer.rows(); ++row) {
      out.values.push_back(Value::Bool(buffer.At<uint8_t>(row) != 0));
    }
    return out;
  } else {
    throw nb::type_error(
        Concat("column ", name, ": its elements are neither booleans nor numbers").c_str());
  }
  out.valid.assign(buffer.rows(), 1);
  return out;
}

// Integers alone, or floats with them, become columns of numbers.
Column FromList(const std::string& name, PyObject* list) {
  Column out;
  out.kind = Column::Kind::kValues;
  const auto rows = static_cast<size_t>(PyList_GET_SIZE(list));
  out.values.resize(rows);
  size_t ints = 0, floats = 0, nulls = 0;
  for (size_t row = 0; row < rows && row < static_cast<size_t>(PyList_GET_SIZE(list)); ++row) {
    if (row % 65536 == 0 && PyErr_CheckSignals() != 0) throw nb::python_error();
    PyObject* item = Py_NewRef(PyList_GET_ITEM(list, static_cast<Py_ssize_t>(row)));
    Value& value = out.values[row];
    const bool good = FromPython(item, 0, &value);
    Py_DECREF(item);
    if (!good) {
      nb::python_error error;
      nb::handle type = error.type();
      // It says more than a text, and so cannot be made of one; it is a ValueError.
      if (type.is(PyExc_UnicodeEncodeError)) type = PyExc_ValueError;
      // Others are no refusals of the value: what a signal handler raised, or code of the caller.
      if (!type.is(PyExc_TypeError) && !type.is(PyExc_ValueError) &&
          !type.is(PyExc_OverflowError)) {
        throw error;
      }
      nb::raise_from(error, type.ptr(), "column %s, row %zu: %s", name.c_str(), row,
                     nb::cast<std::string>(nb::str(error.value())).c_str());
      throw nb::python_error();
    }
    ints += value.is_int() ? 1 : 0;
    floats += value.is_float() ? 1 : 0;
    nulls += value.is_null() ? 1 : 0;
  }
  if (rows == nulls || (ints + nulls != rows && floats + nulls != rows)) return out;
  Column numbers;
  numbers.kind = ints > 0 ? Column::Kind::kInts : Column::Kind::kFloats;
  for (const Value& value : out.values) {
    numbers.valid.push_back(value.is_null() ? 0 : 1);
    if (ints > 0) {
      numbers.ints.push_back(value.is_null() ? 0 : value.as_int());
    } else {
      numbers.floats.push_back(value.is_null() ? 0 : value.as_float());
    }
  }
  return numbers;
}

void ApplyMask(const std::string& name, nb::handle mask, Column* column) {
  const Buffer buffer(name, mask);
  if (buffer.width() != 1 || buffer.rows() != graph::RowsOf(*column)) {
    throw nb::type_error(Concat("column ", name, ": its mask is not one of booleans").c_str());
  }
  for (size_t row = 0; row < buffer.rows(); ++row) {
    if (buffer.At<uint8_t>(row) == 0) continue;
    if (column->kind == Column::Kind::kValues) {
      column->values[row] = Value();
    } else {
      column->valid[row] = 0;
    }
  }
}

}  // namespace

NamedColumns ColumnsFromPython(nb::handle list, uint64_t* rows) {
  NamedColumns columns;
  for (const nb::handle entry : list) {
    std::string_view name;
    if (!TextOf(nb::object(entry[0]).ptr(), &name)) throw nb::python_error();
    const nb::object data = entry[1], mask = entry[2];
    Column column = PyList_Check(data.ptr()) ? FromList(std::string(name), data.ptr())
                                             : FromBuffer(std::string(name), data);
    if (!mask.is_none()) ApplyMask(std::string(name), mask, &column);
    columns.emplace_back(name, std::move(column));
  }
  *rows = columns.empty() ? 0 : graph::RowsOf(columns[0].second);
  return columns;
}

}  // namespace pulse::python
