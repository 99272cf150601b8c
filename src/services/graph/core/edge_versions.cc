#include "services/graph/core/edge_versions.h"

#include <cstdlib>
#include <cstring>
#include <utility>

#include "base/check.h"

namespace pulse::graph {
namespace {

// Of the table, about: an entry of it, and the room that a table leaves.
constexpr uint64_t kEntryBytes = 112;

}  // namespace

EdgeVersions::~EdgeVersions() { Cut(~uint64_t{0}); }

EdgeVersions::Arena::~Arena() { free(current_); }

EdgeVersions::Arena::Block* EdgeVersions::Arena::Make(size_t bytes) {
  auto* block = static_cast<Block*>(aligned_alloc(kBlock, (bytes + kBlock - 1) / kBlock * kBlock));
  PULSE_CHECK(block != nullptr, "out of memory");
  block->live = 0;
  return block;
}

void* EdgeVersions::Arena::Allocate(size_t bytes) {
  bytes = (bytes + 7) / 8 * 8;
  if (bytes > kBlock / 4) {
    // A block of its own; it begins in the first kBlock bytes of it.
    Block* block = Make(sizeof(Block) + bytes);
    block->live = 1;
    return block + 1;
  }
  if (current_ == nullptr || used_ + bytes > kBlock) {
    if (current_ != nullptr && current_->live == 0) free(current_);
    current_ = Make(kBlock);
    used_ = sizeof(Block);
  }
  void* at = reinterpret_cast<char*>(current_) + used_;
  used_ += bytes;
  ++current_->live;
  return at;
}

void EdgeVersions::Arena::Free(void* at) {
  auto* block = reinterpret_cast<Block*>(reinterpret_cast<uintptr_t>(at) / kBlock * kBlock);
  if (--block->live > 0) return;
  if (block == current_) {
    used_ = sizeof(Block);
  } else {
    free(block);
  }
}

uint64_t EdgeVersions::Free(Part* part, Version* version) {
  uint64_t bytes = 0;
  while (version != nullptr) {
    bytes += sizeof(Version) + version->bytes;
    part->arena.Free(std::exchange(version, version->previous));
  }
  return bytes;
}

void EdgeVersions::Add(EdgeId edge, uint64_t begin, bool deleted, std::string_view properties,
                       uint64_t oldest) {
  Part& part = parts_[PartOf(edge)];
  uint64_t freed = 0, taken = sizeof(Version) + properties.size();
  {
    std::lock_guard lock(part.mu);
    const auto [it, fresh] = part.versions.try_emplace(edge / kSlots);
    if (fresh) taken += kEntryBytes;
    Version*& newest = it->second.newest[edge % kSlots];
    auto* version = static_cast<Version*>(part.arena.Allocate(sizeof(Version) + properties.size()));
    *version = {begin, newest, static_cast<uint32_t>(properties.size()), deleted};
    if (!properties.empty()) std::memcpy(version + 1, properties.data(), properties.size());
    newest = version;
    while (version != nullptr && version->begin > oldest) version = version->previous;
    if (version != nullptr) freed = Free(&part, std::exchange(version->previous, nullptr));
  }
  added_.store(added_.load(std::memory_order_relaxed) + taken - freed, std::memory_order_relaxed);
}

void EdgeVersions::Cut(uint64_t sequence) {
  uint64_t freed = 0;
  for (Part& part : parts_) {
    std::lock_guard lock(part.mu);
    for (auto it = part.versions.begin(); it != part.versions.end();) {
      bool left = false;
      for (Version*& slot : it->second.newest) {
        Version* newest = slot;
        if (newest == nullptr) continue;
        if (newest->begin <= sequence) {
          freed += Free(&part, std::exchange(slot, nullptr));
          continue;
        }
        left = true;
        while (newest->previous != nullptr && newest->previous->begin > sequence) {
          newest = newest->previous;
        }
        freed += Free(&part, std::exchange(newest->previous, nullptr));
      }
      if (left) {
        ++it;
        continue;
      }
      freed += kEntryBytes;
      part.versions.erase(it++);
    }
    // A table that was large once is not walked for ever.
    if (part.versions.empty()) absl::flat_hash_map<uint64_t, Slots>().swap(part.versions);
  }
  removed_.fetch_add(freed, std::memory_order_release);
}

}  // namespace pulse::graph
