// Columns to load, out of Python's objects. Needs the GIL.
#pragma once

#include <nanobind/nanobind.h>

#include "python/native/arrow.h"

namespace pulse::python {

// A list of (name, data, mask): `data` a list, or a buffer of booleans or numbers of one dimension;
// `mask` None, or a buffer of bytes that are not 0 where a value is null. Throws.
NamedColumns ColumnsFromPython(nanobind::handle list, uint64_t* rows);

}  // namespace pulse::python
