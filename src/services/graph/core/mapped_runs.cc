#include "services/graph/core/mapped_runs.h"

#include <algorithm>
#include <utility>

#include "base/errors.h"
#include "services/graph/model/text.h"

namespace pulse::graph {
namespace {

// Mapping is much faster than a compaction.
constexpr int kMapAttempts = 20;

absl::StatusOr<Manifest> ReadManifest(Files* files, const std::string& path) {
  const std::string name = cypher::Concat(path, "/", kManifestFile);
  PULSE_ASSIGN_OR_RETURN(const std::string bytes, files->Read(name));
  return Manifest::Decode(bytes, name);
}

bool Names(const Manifest& manifest, const std::string& file) {
  return std::any_of(manifest.runs.begin(), manifest.runs.end(),
                     [&file](const ManifestRun& run) { return run.file == file; });
}

}  // namespace

absl::StatusOr<MappedRuns> MapRuns(Files* files, const std::string& path) {
  for (int attempt = 0; attempt < kMapAttempts; ++attempt) {
    MappedRuns mapped;
    PULSE_ASSIGN_OR_RETURN(mapped.manifest, ReadManifest(files, path));
    bool replaced = false;
    for (const ManifestRun& run : mapped.manifest.runs) {
      auto bytes = files->Map(cypher::Concat(path, "/", run.file));
      if (absl::IsNotFound(bytes.status())) {
        // A writer names what it has before it removes what it no longer needs.
        PULSE_ASSIGN_OR_RETURN(const Manifest newest, ReadManifest(files, path));
        replaced = !Names(newest, run.file);
        if (replaced) break;
      } else if (absl::IsResourceExhausted(bytes.status())) {
        return bytes.status();
      }
      mapped.runs.push_back(std::move(bytes));
    }
    if (!replaced) return mapped;
  }
  return absl::AbortedError(cypher::Concat(
      path, ": a writer replaces its runs faster than they can be opened; try again"));
}

}  // namespace pulse::graph
