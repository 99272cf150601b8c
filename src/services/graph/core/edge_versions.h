// What memory knows of relationships besides layer 0's records: the properties of each version that
// no run has yet, once by the relationship's identifier, and deletions. A version is complete: who
// finds one that its snapshot sees needs no older one.
//
// Threads: any number read, one at a time adds, one at a time cuts: one lock for each of 64 parts
// of the table, held while one relationship is read or written. Section III-A of the DSA paper
// ("dirty versions").
#pragma once

#include <atomic>
#include <cstdint>
#include <functional>
#include <mutex>
#include <string_view>

#include "absl/container/flat_hash_map.h"
#include "services/graph/core/operations.h"

namespace pulse::graph {

class EdgeVersions {
 public:
  enum class Found : uint8_t { kNone, kDeleted, kVersion };

  EdgeVersions() = default;
  ~EdgeVersions();

  // Calls `use` with the properties where a version is found; they live as long as the call.
  template <typename Use>
  Found Read(EdgeId edge, uint64_t sequence, const Use& use) const {
    if (empty()) return Found::kNone;
    const Part& part = parts_[PartOf(edge)];
    std::lock_guard lock(part.mu);
    const auto it = part.versions.find(edge / kSlots);
    if (it == part.versions.end()) return Found::kNone;
    const Version* version = it->second.newest[edge % kSlots];
    while (version != nullptr && version->begin > sequence) version = version->previous;
    if (version == nullptr) return Found::kNone;
    if (version->deleted) return Found::kDeleted;
    use(version->properties());
    return Found::kVersion;
  }

  // Brings what Read() reads first, or next, of a relationship into the cache.
  void PrefetchEntry(EdgeId edge) const {
    const Part& part = parts_[PartOf(edge)];
    std::lock_guard lock(part.mu);
    part.versions.prefetch(edge / kSlots);
  }
  void PrefetchVersion(EdgeId edge) const {
    const Part& part = parts_[PartOf(edge)];
    std::lock_guard lock(part.mu);
    const auto it = part.versions.find(edge / kSlots);
    if (it != part.versions.end()) __builtin_prefetch(it->second.newest[edge % kSlots]);
  }

  // A newer version than all that are there. Versions that no snapshot from `oldest` on sees are
  // freed.
  void Add(EdgeId edge, uint64_t begin, bool deleted, std::string_view properties, uint64_t oldest);
  // Frees the versions up to `sequence`, which are in runs now and nobody reads from here any more.
  void Cut(uint64_t sequence);

  bool empty() const { return memory() == 0; }
  uint64_t memory() const {
    // In this order: what was removed was added before.
    const uint64_t removed = removed_.load(std::memory_order_acquire);
    return added_.load(std::memory_order_relaxed) - removed;
  }

 private:
  struct Version {
    uint64_t begin;
    Version* previous;
    uint32_t bytes;
    bool deleted;
    std::string_view properties() const { return {reinterpret_cast<const char*>(this + 1), bytes}; }
  };
  // Neighbouring identifiers, which are given and read one after the other.
  static constexpr uint64_t kSlots = 8;
  struct Slots {
    Version* newest[kSlots] = {};
  };
  // Versions one behind the other in blocks; a block goes when its last version does.
  class Arena {
   public:
    Arena() = default;
    ~Arena();
    Arena(const Arena&) = delete;
    Arena& operator=(const Arena&) = delete;
    void* Allocate(size_t bytes);
    void Free(void* at);

   private:
    // A block is aligned to its size, so that what lies in it finds it.
    static constexpr size_t kBlock = size_t{16} << 10;
    struct Block {
      uint64_t live;
    };
    static Block* Make(size_t bytes);
    Block* current_ = nullptr;
    size_t used_ = 0;
  };
  struct alignas(64) Part {
    mutable std::mutex mu;
    absl::flat_hash_map<uint64_t, Slots> versions;
    Arena arena;
  };
  static constexpr size_t kParts = 64;
  // Neighbouring identifiers share a part, so that a reader of a scan stays in its cache.
  static size_t PartOf(EdgeId edge) { return (edge >> 6) % kParts; }
  // A version and those behind it; returns their bytes.
  static uint64_t Free(Part* part, Version* version);

  Part parts_[kParts];
  std::atomic<uint64_t> added_{0};    // by Add(), less what it freed
  std::atomic<uint64_t> removed_{0};  // by Cut()
};

}  // namespace pulse::graph
