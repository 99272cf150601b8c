// Chunk: layer 0 for one direction, 1 MiB of packed records that are chained per node, and the set
// of the nodes that it touches. Section III-A of the DSA paper.
//
// It lies in memory of the caller, of Bytes() bytes aligned to 64, and holds offsets only:
// processes that map it at different addresses share it. A Chunk object is a view and may be
// copied.
//
// Threads: one writer appends; any number of readers, in any process that maps it, walk chains at
// the same time. A record is published when its node's head is; it never changes afterwards.
// Nothing blocks, and a writer that died leaves every published record readable: what it had not
// published is not seen.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <vector>

#include "absl/status/status.h"
#include "absl/status/statusor.h"
#include "services/graph/runs/record.h"

namespace pulse::graph {

inline constexpr uint32_t kChunkRecords = 32768;  // 1 MiB

class Chunk {
 public:
  // `records` is a power of two between 16 and 2^24. 1.5 MiB and 64 bytes for kChunkRecords: the
  // table of nodes has as many slots as there are records, and three quarters of them are used.
  static size_t Bytes(uint32_t records = kChunkRecords);
  // Makes an empty chunk. Nobody reads it meanwhile.
  static Chunk Format(char* memory, Side side, uint32_t records = kChunkRecords);
  // A chunk that Format made, in memory of so many bytes. DataLoss where it is none, or its header
  // does not fit its size.
  static absl::StatusOr<Chunk> Attach(char* memory, size_t bytes);

  Chunk() = default;
  Side side() const;
  uint32_t size() const { return header_->size.load(std::memory_order_acquire); }
  uint32_t capacity() const { return mask_ + 1; }
  uint32_t node_count() const { return header_->nodes.load(std::memory_order_acquire); }
  // Whether `n` more records, of as many nodes that it has not seen, certainly fit.
  bool HasRoom(uint32_t n) const;

  // The writer's. False: full, nothing changed. `record.previous` is set here. `node` is not
  // 2^64-1.
  bool Append(NodeId node, Record record);

  // Brings the entry of a node into the cache, for Append() and Head().
  void Prefetch(NodeId node) const { __builtin_prefetch(&slots_[FirstSlot(node) & mask_]); }
  // The newest record of a node, or kNoRecord. Its chain goes on by `previous`, to ever lower
  // numbers.
  uint32_t Head(NodeId node) const;
  // Of which Head() or `previous` told.
  const Record& record(uint32_t at) const { return records_[at]; }
  void PrefetchRecord(uint32_t at) const {
    if (at <= mask_) __builtin_prefetch(&records_[at]);
  }
  // How many records a node has.
  uint32_t Count(NodeId node) const;

  // All nodes, ascending. Takes time by the records, not by the nodes of the graph.
  void Nodes(std::vector<NodeId>* out) const;

 private:
  struct Header {
    uint64_t magic;
    uint32_t capacity;
    uint32_t side;
    std::atomic<uint32_t> size;
    std::atomic<uint32_t> nodes;
    char unused[40];
  };
  static_assert(sizeof(Header) == 64);
  struct Slot {
    std::atomic<uint64_t> node{0};  // plus 1; 0: empty
    std::atomic<uint32_t> head{kNoRecord};
    std::atomic<uint32_t> count{0};
  };
  static_assert(sizeof(Slot) == 16);

  Chunk(char* memory, uint32_t records);
  // Where the search for a node begins.
  static uint64_t FirstSlot(NodeId node) { return (node + 1) * 0x9e3779b97f4a7c15u >> 32; }
  // The slot of `node`, or the empty one where it would be.
  Slot* SlotOf(NodeId node) const;

  Header* header_ = nullptr;
  Slot* slots_ = nullptr;
  Record* records_ = nullptr;
  uint32_t mask_ = 0;
};

}  // namespace pulse::graph
