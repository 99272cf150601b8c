// The output that is a file of its own in the file system beneath (layout=files). Offsets in the
// output are offsets in the file.
#pragma once

#include <memory>
#include <string>

#include "services/lsm/core/options.h"
#include "services/lsm/core/output_target.h"

namespace pulse::lsm {

// Opens (creates, truncates) `path`; with O_DIRECT if `mode` and the file system allow.
absl::StatusOr<std::shared_ptr<OutputTarget>> OpenPlainTarget(const std::string& path, IoMode mode);

}  // namespace pulse::lsm
