// Results as Arrow C streams, and columns out of them. The structs are those of the Arrow C data
// and C stream interfaces, whose layout is fixed.
#pragma once

#include <nanobind/nanobind.h>

#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include "result.h"

struct ArrowSchema {
  const char* format;
  const char* name;
  const char* metadata;
  int64_t flags;
  int64_t n_children;
  ArrowSchema** children;
  ArrowSchema* dictionary;
  void (*release)(ArrowSchema*);
  void* private_data;
};

struct ArrowArray {
  int64_t length;
  int64_t null_count;
  int64_t offset;
  int64_t n_buffers;
  int64_t n_children;
  const void** buffers;
  ArrowArray** children;
  ArrowArray* dictionary;
  void (*release)(ArrowArray*);
  void* private_data;
};

struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
  int (*get_next)(ArrowArrayStream*, ArrowArray* out);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

namespace pulse::python {

// A capsule of a stream of all rows. Throws a TypeError where a column has no single type.
nanobind::object ArrowStreamOf(const Result& result, nanobind::handle requested_schema);

// The columns of what gives an Arrow C stream. Throws a TypeError that names a column whose type is
// none of these: null, boolean, integers, floats, UTF-8, dates, timestamps, lists of these, and
// dictionaries of them.
using NamedColumns = std::vector<std::pair<std::string, cypher::Column>>;
NamedColumns ColumnsFromArrow(nanobind::handle source, uint64_t* rows);

}  // namespace pulse::python
