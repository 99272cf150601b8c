// Reading a database beside its writer, in this process or another: what the manifest named a
// moment ago may be gone, or cut, as the writer has replaced it.
//
// Threads: any. Blocks for what `once` reads.
#pragma once

#include <string>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/clock.h"
#include "services/graph/core/files.h"
#include "services/graph/core/manifest.h"

namespace pulse::graph {

// Reads again as long as the manifest is replaced meanwhile, for ten seconds at most. What is
// missing or damaged although it stays is the caller's to report; the log may also be written to,
// or rolled, beside the first attempts, without a new manifest.
template <typename Once>
absl::Status ReadBesideWriter(Files* files, const std::string& directory, const Once& once) {
  constexpr int kSameManifest = 3;
  constexpr int64_t kMostNanos = 10'000'000'000;
  const std::string manifest = directory + "/" + kManifestFile;
  // That of the attempt before; of the first one it is not known.
  absl::StatusOr<std::string> before = absl::UnknownError("");
  const int64_t began = NowNanos();
  for (int same = 1;;) {
    const absl::Status status = once();
    if (!absl::IsNotFound(status) && !absl::IsDataLoss(status)) return status;
    auto after = files->Read(manifest);
    const bool replaced = after.ok() && (!before.ok() || *after != *before);
    if (!replaced && same++ >= kSameManifest) return status;
    if (NowNanos() - began > kMostNanos) return status;
    before = std::move(after);
  }
}

}  // namespace pulse::graph
