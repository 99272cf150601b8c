// Results as Arrow C streams, and columns to load out of them. The structs are those of the Arrow C
// data and C stream interfaces, whose layout and guards are fixed.
//
// Ownership: a stream that is exported shares the table; whoever takes it releases it, on any
// thread. A stream that is imported is the caller's, also afterwards. Threads: any; nothing blocks
// but the stream that is imported.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/library/result_table.h"
#include "services/graph/load/sink.h"

#ifndef ARROW_C_DATA_INTERFACE
#define ARROW_C_DATA_INTERFACE

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

#endif

#ifndef ARROW_C_STREAM_INTERFACE
#define ARROW_C_STREAM_INTERFACE

struct ArrowArrayStream {
  int (*get_schema)(ArrowArrayStream*, ArrowSchema* out);
  int (*get_next)(ArrowArrayStream*, ArrowArray* out);
  const char* (*get_last_error)(ArrowArrayStream*);
  void (*release)(ArrowArrayStream*);
  void* private_data;
};

#endif

namespace pulse::graph {

// A stream of all rows, in batches of 65,536. InvalidArgument where a column has no single type, or
// its name, or that of a field below it, has a NUL, at which Arrow's names end.
absl::Status ExportArrow(std::shared_ptr<const ResultTable> table, ArrowArrayStream* out);

// The columns of a stream of structs. InvalidArgument where it is none, or was released, or where a
// column's type is none of these: null, boolean, integers, decimals without a fraction, floats,
// UTF-8, binary, dates, times, timestamps, durations, intervals, structs of points (srid, x, y, z),
// lists of these, and dictionaries of them. OutOfRange: an integer is beyond 64 bits with a sign,
// or a time beyond its day. ArgumentError (syntax/error.h): a text is not UTF-8. Internal: what the
// stream says.
// Called once the columns' names are known, and again when the first row comes; the columns are
// empty. Its error ends the import.
using ArrowCheck = std::function<absl::Status(const NamedColumns& columns, bool rows)>;
absl::StatusOr<NamedColumns> ImportArrow(ArrowArrayStream* stream, uint64_t* rows,
                                         const Interrupted* interrupted = nullptr,
                                         const ArrowCheck& check = nullptr);

}  // namespace pulse::graph
