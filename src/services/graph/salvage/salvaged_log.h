// The commits of a damaged log, also those behind a damage, and the frames of a damaged checkpoint.
// Internal.
//
// One thread. Blocks on I/O.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <string_view>

#include "absl/status/statusor.h"
#include "services/graph/core/files.h"
#include "services/graph/salvage/notes.h"

namespace pulse::graph {

struct SalvagedLog {
  bool whole = true;
  uint64_t last_sequence = 0;
};

// Calls `apply` for each commit that can be read, in order, of the segments from `first_segment`
// on, or, where it is 0, of those that there are. What ends the last segment without having been
// durable is the end that a kill leaves, and is left out, as opening leaves it out.
absl::StatusOr<SalvagedLog> ReadSalvagedLog(
    Files* files, const std::string& directory, uint64_t first_segment, SalvageNotes* notes,
    const std::function<void(uint64_t sequence, std::string_view payload)>& apply);

// ReadCheckpoint() of a damaged one: each frame whose checksum fits; `damaged` is told of stretches
// between them, with their bytes [begin, end), in order with `apply`. True: nothing is damaged.
bool ReadDamagedCheckpoint(std::string_view bytes,
                           const std::function<void(std::string_view)>& apply,
                           const std::function<void(size_t begin, size_t end)>& damaged);

}  // namespace pulse::graph
