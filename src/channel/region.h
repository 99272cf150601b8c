// Region: memory that host and agent both reach. Shared regions are sealed memfds, so that neither
// side can shrink one under the other (which would be SIGBUS); private regions serve an agent that
// lives in the same process and can use transparent huge pages. PulseDB III-D.
//
// Move-only owner of the mapping and the descriptor. Thread-safe after creation. Does not block.
#pragma once

#include <cstddef>

#include "absl/status/statusor.h"
#include "base/private_memory.h"
#include "base/unique_fd.h"

namespace pulse {

class Region {
 public:
  // A memfd of `bytes` (rounded up to pages), sealed against resizing. Transparent huge pages are
  // asked for; reserved ones (hugetlbfs) are not used, see Map.
  static absl::StatusOr<Region> CreateShared(size_t bytes);
  // Anonymous memory of this process, huge pages advised.
  static absl::StatusOr<Region> CreatePrivate(size_t bytes);
  // Maps a peer's memfd. Refuses one that is not sealed against resizing or is smaller than
  // `bytes`, and one of reserved huge pages: the peer could punch a hole into it, and touching the
  // hole when no such page is left is a SIGBUS. A hole in ordinary memory reads as zeros.
  static absl::StatusOr<Region> Map(UniqueFd fd, size_t bytes);

  char* data() const { return memory_.get(); }
  size_t size() const { return memory_.get_deleter().size; }
  int fd() const { return fd_.get(); }
  bool huge() const { return huge_; }

  // The same without a mapping: a sealed memfd of `bytes`, for who reads and writes it by calls;
  // and whether a peer's is one, as Map asks.
  static absl::StatusOr<UniqueFd> CreateFile(size_t bytes);
  static absl::Status CheckFile(int fd, size_t bytes);

  // Touches every page now, so that nobody faults on the data path. Best effort.
  void Populate() const;
  // Gives up ownership: the memory stays mapped for good, as a peer may still write there.
  void Forget() { (void)memory_.release(); }

 private:
  MappedMemory memory_;
  bool huge_ = false;
  UniqueFd fd_;
};

}  // namespace pulse
