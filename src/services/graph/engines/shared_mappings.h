// SharedMappings: memory of one host's that an agent has mapped, kept for the next compaction:
// setting up the pages of a mapping costs several times what copying them does. Only memory that
// cannot be cut under its reader is mapped: sealed memfds, of ordinary pages.
//
// Bounded by bytes and by number; the oldest go first. Thread-safe. What is handed out stays mapped
// as long as somebody holds it. Mapping blocks while pages are set up.
#pragma once

#include <sys/types.h>

#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>

namespace pulse::graph::engines {

class SharedMappings {
 public:
  static constexpr size_t kMost = 64;
  explicit SharedMappings(uint64_t most_bytes) : most_bytes_(most_bytes) {}

  struct Mapping {
    char* data = nullptr;  // null: not to be mapped
    uint64_t size = 0;
    std::shared_ptr<const void> owner;
  };
  // A run: `bytes` of memory that is sealed against all change.
  Mapping ForReading(int fd, uint64_t bytes);
  // An output: all of a memory that is sealed against resizing.
  Mapping ForWriting(int fd);

 private:
  struct Entry {
    dev_t device;
    ino_t inode;  // not given to another as long as this is mapped
    bool writable;
    Mapping mapping;
  };
  Mapping Find(dev_t device, ino_t inode, bool writable, uint64_t bytes);
  void Keep(Entry entry);

  const uint64_t most_bytes_;
  std::mutex mu_;
  uint64_t bytes_ = 0;
  std::deque<Entry> entries_;  // the last used in front
};

}  // namespace pulse::graph::engines
