// FetchInput: what the fetch stage reads ahead: an open file for the agent, and where in it the
// input's bytes are. Movable; closes its descriptor.
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "base/unique_fd.h"

namespace pulse::lsm {

struct FetchInput {
  // Bytes of the input that lie together in the file. Page-aligned, but for the end of the last.
  struct Run {
    uint64_t offset;  // in the input
    uint64_t at;      // in the file
    uint64_t length;
  };

  UniqueFd fd;
  uint64_t size = 0;
  std::vector<Run> runs;       // in order; empty: the input is the file
  std::shared_ptr<void> held;  // what keeps the runs the input's
};

}  // namespace pulse::lsm
