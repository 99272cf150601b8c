// Results as capsules of Arrow C streams, and columns out of what gives one. Needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include "python/native/result.h"
#include "services/graph/library/arrow.h"

namespace pulse::python {

using graph::NamedColumns;

// A capsule of a stream of all rows. Throws a TypeError where a column has no single type.
nanobind::object ArrowStreamOf(const Result& result, nanobind::handle requested_schema);

// The columns of what gives an Arrow C stream. Throws a TypeError that names a column whose type
// is none that ImportArrow() takes, and what `check` returns, or has set as Python's error.
NamedColumns ColumnsFromArrow(nanobind::handle source, uint64_t* rows,
                              const graph::Interrupted* interrupted,
                              const graph::ArrowCheck& check);

}  // namespace pulse::python
