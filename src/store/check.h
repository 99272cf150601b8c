// Check(): what is wrong with a store, and what of it can be saved.
//
// All metadata are read, and everything that can be inconsistent is compared: superblock and its
// copy, checkpoints, journal, names and files, lengths and segments, owners of segments. Data are
// not read. Free segments are not recorded anywhere in the format, so none can leak on the device;
// that state and free map agree is checked all the same.
//
// Repair keeps everything that is consistent, and drops the rest. It writes one checkpoint, into
// the slot that is not in use, and then superblocks that were damaged; a cut in between loses
// nothing.
//
// Takes the store's lock. Thread-safe; blocks.
// Errors: as of Store::Open, and DataLoss when there is nothing that could be saved.
#pragma once

#include <cstdint>
#include <functional>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "store/device.h"
#include "store/store.h"

namespace pulse::store {

struct CheckOptions {
  bool repair = false;
  std::function<void()> tick;  // called now and then
};

struct CheckReport {
  struct Line {
    uint64_t offset = 0;
    std::string what;
  };
  std::vector<Line> problems;
  std::vector<Line> notes;  // normal after a power cut
  bool repaired = false;    // the problems were there, and are not any more

  Geometry geometry;
  bool closed = false;   // after its last change
  uint64_t batches = 0;  // that the journal holds after the checkpoint
  uint64_t directories = 0;
  uint64_t files = 0;
  uint64_t segments = 0;  // for data
  uint64_t used = 0;
};

absl::StatusOr<CheckReport> Check(const std::string& path, const CheckOptions& options);
absl::StatusOr<CheckReport> Check(Device& device, const CheckOptions& options);

}  // namespace pulse::store
