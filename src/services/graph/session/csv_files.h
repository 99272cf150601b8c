// The files of LOAD CSV: which may be read, and reading them piece by piece.
//
// A file is named by a URL, file:///people.csv, or by a plain name. Below a directory, both are
// within it, and no link leads out of it. Everywhere, a plain name is relative to the process's
// directory and a URL has the whole path; that is for who may read all these files anyway.
//
// A file that changes meanwhile gives the old bytes or the new ones. Records are as load/csv.h has
// them, and no longer than kMostRecordBytes. Threads: OpenCsvFile from any; a reader belongs to
// one. Reading blocks.
#pragma once

#include <cstddef>
#include <memory>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/graph/exchange/directory.h"
#include "services/graph/model/csv_source.h"

namespace pulse::cypher {

using CsvDirectory = graph::AllowedDirectory;

inline constexpr size_t kMostRecordBytes = size_t{64} << 20;

// PermissionDenied, NotFound, InvalidArgument (what is no file, or another kind of URL), or the
// system's errors; messages name the file.
absl::StatusOr<std::unique_ptr<CsvRecords>> OpenCsvFile(const CsvDirectory& directory,
                                                        std::string_view where, char separator);

}  // namespace pulse::cypher
