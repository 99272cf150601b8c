// Reading what ExportGraph wrote: into a store by its bulk load, as `pulse graph load` does, or
// into any database by one transaction. The files are CSV, and may be edited; counts that differ
// from the schema file's are an error.
//
// Any thread; blocks.
#pragma once

#include <functional>
#include <string_view>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/exchange/directory.h"
#include "services/graph/exchange/export.h"
#include "services/graph/load/load.h"
#include "services/graph/model/database.h"

namespace pulse::graph {

// An export, open.
struct OpenedExport {
  LoadOptions load;  // its descriptors are those of `files`
  std::vector<cypher::IndexDefinition> indexes;
  uint64_t nodes = 0, edges = 0;
  uint64_t bytes = 0;
  std::vector<UniqueFd> files;

  // DataLoss where the files had other counts than the schema file says.
  absl::Status CheckCounts(const LoadReport& report) const;
};

// Reads the schema file, and opens the others. `option` as OpenDirectory has it.
absl::StatusOr<OpenedExport> OpenExport(const AllowedDirectory& allowed, std::string_view where,
                                        std::string_view option);

struct ImportOptions {
  // The most that the files and what was read of them may take of memory; more is
  // ResourceExhausted, as is what is beyond the transaction's own limit. 0: no limit.
  uint64_t memory_bytes = 0;
  std::function<bool()> stopped = {};  // as of ExportOptions
};

// Indexes and constraints first, then everything by one transaction; an error takes all of it back.
// FailedPrecondition where the database is not empty, or breaks a constraint.
absl::StatusOr<ExchangeReport> ImportDatabase(const OpenedExport& from,
                                              const ImportOptions& options,
                                              cypher::Database* database);

}  // namespace pulse::graph
