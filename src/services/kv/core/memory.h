// Memory: the address space of one partition, and how much of it may be in use. It reserves far
// more addresses than memory, so that what grows never has to move; pages of 2 MiB are taken and
// given back, and counted against one limit, which the process therefore obeys.
//
// It is this process's alone, or a piece of a file in memory (tmpfs, memfd), which outlives it.
// Where it is the process's alone, what is counted may also lie in the agent's memory, a file of
// its own that stands for a DPU's. It moves there and back page by page (MoveNext), at the same
// addresses; so the pages from the first to some one lie there.
//
// Ownership: the object owns the mapping and the agent's file; the other one is the caller's.
// Threads: one. Blocking: Give and MoveNext call the kernel. Errors: Open and MoveNext say what the
// kernel refused, and the remedy.
#pragma once

#include <sys/types.h>

#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse::kv {

inline constexpr size_t kPageBytes = size_t{2} << 20;

// Where a partition's memory is; the default: nowhere but in this process.
struct MemoryFile {
  int fd = -1;
  uint64_t offset = 0;  // a multiple of kPageBytes
  bool is_given() const { return fd >= 0; }
};

enum class Side : uint8_t { kHost, kAgent, kBoth };

// Sees to it that bytes of a file have room. False, with errno: the file system has none.
bool TakeRoom(int fd, off_t at, off_t bytes);
// The file has so many bytes at least. Not by two threads at a time: the one with the smaller
// number could make it shorter again. False: see errno.
bool MakeAsLong(int fd, uint64_t bytes);

class Memory {
 public:
  // `limit` bytes of memory at most, in whole pages; `reserve` bytes of addresses, and before them
  // `uncounted` bytes that are not of the limit. A file is made as long as it takes.
  static absl::StatusOr<Memory> Open(uint64_t limit, uint64_t reserve, uint64_t uncounted,
                                     const MemoryFile& file = {});
  Memory(Memory&& other) noexcept;
  Memory& operator=(Memory&&) = delete;
  ~Memory();

  char* uncounted() const { return mapping_; }
  char* base() const { return mapping_ + uncounted_; }
  // The count of pages in use is kept there from now on.
  void CountAt(uint64_t* used_pages) { used_pages_ = used_pages; }
  // Counts so many pages as used. False when the limit does not allow it; then none are.
  bool Take(uint64_t pages) {
    if (pages > limit_pages_ - *used_pages_) return false;
    *used_pages_ += pages;
    return true;
  }
  // Sees to it that `pages` at `first`, which were counted, have memory: a file system may be full,
  // and to write to what it has no room for would end the process. False: it is, and they are given
  // back.
  bool Back(char* first, uint64_t pages);
  // The last Back has failed.
  bool is_refused() const { return refused_; }
  void ForgetRefusal() { refused_ = false; }
  // Gives the memory of pages that were counted back to the system; they read as zeros then.
  void Give(char* first, uint64_t pages);
  // Makes bytes read as zeros, whatever memory they have. Counts nothing.
  void Drop(char* first, uint64_t bytes);

  // Moves what comes next to the agent's file, or back from it: a page, or all addresses up to the
  // next page that is in use. For the time of a copy one page more is taken. False: nothing is
  // left. After an error all is as before, and it may be called again. Not with a MemoryFile, where
  // nothing moves.
  absl::StatusOr<bool> MoveNext(bool to_agent);
  Side side() const;
  // That the agent's file takes.
  uint64_t agent_bytes() const;

  // Of all, beginning with what is uncounted.
  uint64_t bytes() const { return uncounted_ + reserve_; }
  uint64_t limit_pages() const { return limit_pages_; }
  uint64_t used_pages() const { return *used_pages_; }

 private:
  Memory(char* mapping, uint64_t uncounted, uint64_t reserve, uint64_t limit_pages,
         const MemoryFile& file)
      : mapping_(mapping),
        uncounted_(uncounted),
        reserve_(reserve),
        limit_pages_(limit_pages),
        file_(file),
        taken_(file.is_given() ? 0 : reserve / kPageBytes) {}
  uint64_t PageOf(const char* at) const { return static_cast<uint64_t>(at - base()) / kPageBytes; }
  absl::Status MakeAgentFile();
  void MapAgent(uint64_t page, uint64_t pages);
  void PunchAgentPage(uint64_t page);

  char* mapping_;
  uint64_t uncounted_;
  uint64_t reserve_;
  uint64_t limit_pages_;
  MemoryFile file_;
  uint64_t* used_pages_ = nullptr;
  bool refused_ = false;
  // Of the counted addresses: those that may hold something. No others are copied.
  std::vector<bool> taken_;
  UniqueFd agent_;            // made by the first move
  uint64_t agent_pages_ = 0;  // so many lie there, from the first on
};

}  // namespace pulse::kv
