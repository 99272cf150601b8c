// All runs of a database, mapped at one moment, for who reads files beside the store: a check.
//
// A writer may compact meanwhile, and removes the runs that it has merged. What was mapped can be
// read all the same; what was gone before it could be mapped is of a manifest that was replaced,
// and all is mapped again. A run that is not there, and that the newest manifest names, is missing.
//
// Blocks on I/O. Threads: any.
#pragma once

#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "services/graph/core/files.h"
#include "services/graph/core/manifest.h"

namespace pulse::graph {

struct MappedRuns {
  Manifest manifest;
  // In the manifest's order; NotFound: missing. Other errors: why it cannot be read.
  std::vector<absl::StatusOr<RunBytes>> runs;
};

// NotFound: there is no manifest. DataLoss: it is damaged. Aborted: a writer replaced runs each
// time. ResourceExhausted: for want of memory or descriptors. Others: the manifest cannot be read.
absl::StatusOr<MappedRuns> MapRuns(Files* files, const std::string& path);

}  // namespace pulse::graph
