// SharedMappings: memory of one host's that an agent has mapped, kept for the next compaction:
// setting up the pages of a mapping costs several times what copying them does. Only memory that
// cannot be cut under its reader is mapped: sealed memfds, of ordinary pages.
//
// Bounded by number, and by bytes of all hosts together; a host's oldest go first. Thread-safe.
// What is handed out stays mapped as long as somebody holds it. Mapping blocks while pages are set
// up.
#pragma once

#include <sys/types.h>

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <mutex>
#include <utility>

namespace pulse::graph::engines {

// What all hosts' mappings may take together, of those that are kept.
struct MappingBudget {
  explicit MappingBudget(uint64_t bytes) : most(bytes) {}
  const uint64_t most;
  std::atomic<uint64_t> used{0};
};

class SharedMappings {
 public:
  static constexpr size_t kMost = 64;
  explicit SharedMappings(std::shared_ptr<MappingBudget> budget) : budget_(std::move(budget)) {}
  ~SharedMappings();
  SharedMappings(const SharedMappings&) = delete;
  SharedMappings& operator=(const SharedMappings&) = delete;

  struct Mapping {
    char* data = nullptr;  // null: not to be mapped
    uint64_t size = 0;
    std::shared_ptr<const void> owner;
  };
  // A run: `bytes` of memory that is sealed against all change.
  Mapping ForReading(int fd, uint64_t bytes);
  // An output: all of a memory that is sealed against resizing, of at most `most` bytes: its pages
  // are made here, whether its owner has touched them or not.
  Mapping ForWriting(int fd, uint64_t most);

 private:
  struct Entry {
    dev_t device;
    ino_t inode;  // not given to another as long as this is mapped
    bool writable;
    Mapping mapping;
  };
  Mapping Find(dev_t device, ino_t inode, bool writable, uint64_t bytes);
  void Keep(Entry entry);

  const std::shared_ptr<MappingBudget> budget_;
  std::mutex mu_;
  std::deque<Entry> entries_;  // the last used in front
};

}  // namespace pulse::graph::engines
