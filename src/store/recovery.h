// Recovery: from the bytes of the metadata area to the state that they stand for.
//
// The newest valid checkpoint is loaded; then the batches of its generation are replayed, from
// journal half generation % 2, and those of the next generation, from the other half. Where no
// whole batch follows, the journal ends: a cut tears at most the batch that was being written. A
// whole batch of a later sequence anywhere in the journal says that something was lost: DataLoss.
//
// Nothing is written. Thread-safe; blocks on the device.
// Errors: FailedPrecondition (no store, unknown version), DataLoss (names the offset), the
// device's.
#pragma once

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "store/device.h"
#include "store/format.h"
#include "store/state.h"
#include "store/store.h"

namespace pulse::store {

struct Recovered {
  Superblock superblock;
  std::unique_ptr<State> state;
  uint64_t checkpoint_generation = 0;
  // What the journal goes on with.
  uint64_t generation = 0;
  uint64_t last_sequence = 0;
  uint64_t journal_used = 0;  // bytes of the generation's half
  bool clean = false;         // closed after its last change
  uint64_t batches = 0;       // replayed
  // The largest of any checkpoint or batch, also of those that were not used.
  uint64_t highest_generation = 0;
};

// What a salvage did not like; see Recover().
struct Finding {
  uint64_t offset = 0;
  std::string what;
};

// With `findings`, contradictions, damaged checkpoints and a damaged journal are noted there and
// what can be saved is recovered all the same; errors then are only those that leave nothing to
// save.
absl::StatusOr<Recovered> Recover(Device& device, std::vector<Finding>* findings = nullptr);
absl::StatusOr<Recovered> Recover(Device& device, const Superblock& superblock,
                                  std::vector<Finding>* findings);

// `foreign`, if it is set, tells whether it failed because no store begins here.
absl::StatusOr<Superblock> ReadSuperblock(Device& device, bool* foreign = nullptr);

// The superblock's copy within the first `most` bytes. `tick`, if it is set, is called as it goes.
absl::StatusOr<Superblock> FindSuperblockCopy(Device& device, uint64_t most,
                                              const std::function<void()>& tick);

inline Geometry GeometryOf(const Superblock& s) {
  return {s.uuid, s.segment_bytes, s.segments, s.metadata_segments, s.created_ns};
}

// Why the checkpoint in a slot cannot be used, or OK.
absl::Status CheckSlot(Device& device, const Superblock& superblock, int slot);

// Applies records, of a checkpoint or a batch at `offset`, to `state`. With `findings` null,
// DataLoss at the first that does not fit; else notes it and goes on.
absl::Status LoadRecords(const char* data, size_t length, uint64_t records, uint64_t offset,
                         State::Source source, State* state, std::vector<Finding>* findings);

// Writes `state` as the checkpoint of `generation`, and syncs.
struct CheckpointImage {
  uint64_t generation = 0;
  uint64_t last_sequence = 0;
  uint64_t next_id = 0;
  uint64_t records = 0;
  std::string body;
};
CheckpointImage MakeCheckpoint(const State& state, uint64_t generation, uint64_t last_sequence);
absl::Status WriteCheckpoint(Device& device, const Superblock& superblock,
                             const CheckpointImage& image);

// "PATH, offset N: WHAT[; REMEDY]".
absl::Status DamagedAt(const Device& device, uint64_t offset, absl::string_view what);

}  // namespace pulse::store
