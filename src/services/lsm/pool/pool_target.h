// The output that is a file of the pool (layout=pool). The agent writes at offsets of the device;
// the host keeps the store's metadata, and enters the output's size once its data is durable. The
// file's name is there from the start, its size is 0 until then.
#pragma once

#include <memory>
#include <string>

#include "services/lsm/core/output_target.h"
#include "services/lsm/pool/pool.h"

namespace pulse::lsm {

// A new file at `path`, which is canonical, in place of one that is there.
absl::StatusOr<std::shared_ptr<OutputTarget>> CreatePoolTarget(std::shared_ptr<Pool> pool,
                                                               const std::string& path, IoMode io);

}  // namespace pulse::lsm
