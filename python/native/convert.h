// Values between Python and the graph. Every function needs the GIL. One that fails leaves a Python
// exception set; those that say so return null or false then.
#pragma once

#include <nanobind/nanobind.h>

#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "services/graph/library/result_table.h"
#include "services/graph/session/failure.h"

namespace pulse::python {

// Takes what this module needs of Python: at import, once. Throws.
void StartConversions();

// A parameter or property. `depth`: of lists and maps around it.
bool FromPython(PyObject* object, int depth, cypher::Value* out);
// A dict or None, as parameters: sorted by key.
bool ParametersFromPython(PyObject* object, cypher::ValueMap* out);
// The text of a str, which keeps it.
bool TextOf(PyObject* text, std::string_view* out);

// Names of properties as str, made once for each result.
class NameCache {
 public:
  NameCache() = default;
  ~NameCache();
  NameCache(const NameCache&) = delete;
  NameCache& operator=(const NameCache&) = delete;
  PyObject* KeyOf(graph::Token key, const graph::EntityRecords& records);  // borrowed

 private:
  absl::flat_hash_map<graph::Token, PyObject*> keys_;
};

// New references, or null.
PyObject* ToPython(const cypher::Value& value, const graph::ResultTable& table, NameCache* names);
// A row as a tuple.
PyObject* RowToPython(const graph::ResultTable& table, size_t row, NameCache* names);

// The Python exception for a status; throws it. An exception that is set already goes first: it is
// what ended the statement.
[[noreturn]] void Raise(const absl::Status& status, cypher::Doing doing);
// Of opening, closing and checkpoints: what files and directories said.
[[noreturn]] void RaiseOfStore(const absl::Status& status);

}  // namespace pulse::python
