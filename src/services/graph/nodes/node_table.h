// The nodes of a graph in memory: for each, its versions from the newest on, and for each label the
// set of nodes that have it in some version. The "nodes table" of section III-A of the DSA paper;
// chain heads are in the chunks of layer 0 (runs/chunk.h).
//
// Whether a node is there at all is told by a bitmap besides: new relationships ask for both ends.
//
// Threads: any number read, without a lock; one at a time installs and prunes. A reader whose
// snapshot is `sequence` never looks behind the newest version that is not newer than it, so that
// what is behind the newest version of the oldest snapshot can be freed at once.
#pragma once

#include <atomic>
#include <cstring>
#include <functional>
#include <span>
#include <string_view>

#include "base/radix_table.h"
#include "services/graph/model/properties.h"

namespace pulse::graph {

using cypher::kNoToken;
using cypher::NodeId;

class NodeVersion {
 public:
  static NodeVersion* Make(uint64_t begin, std::span<const Token> labels,
                           std::string_view properties, bool deleted = false);
  static void Free(NodeVersion* version) { free(version); }

  uint64_t begin() const { return begin_; }
  bool deleted() const { return deleted_; }
  const NodeVersion* previous() const { return previous_; }
  std::span<const Token> labels() const {
    return {reinterpret_cast<const Token*>(this + 1), label_count_};
  }
  std::string_view properties() const {
    return {reinterpret_cast<const char*>(this + 1) + label_count_ * sizeof(Token), bytes_};
  }
  bool HasLabel(Token label) const {
    for (const Token token : labels()) {
      if (token == label) return true;
    }
    return false;
  }
  size_t memory() const { return MemoryOf(label_count_, bytes_); }
  // What the allocator takes for one: 8 bytes beside it, in steps of 16.
  static size_t MemoryOf(size_t labels, size_t property_bytes) {
    const size_t bytes = sizeof(NodeVersion) + labels * sizeof(Token) + property_bytes;
    return (bytes + 8 + 15) / 16 * 16;
  }

 private:
  friend class NodeTable;
  uint64_t begin_;
  NodeVersion* previous_;
  uint32_t label_count_;
  uint32_t bytes_ : 31;
  uint32_t deleted_ : 1;
};
static_assert(sizeof(NodeVersion) == 24);

class NodeTable {
 public:
  static constexpr uint64_t kCapacity = uint64_t{1} << 32;
  // Of the properties of a node, as bytes.
  static constexpr size_t kMaxProperties = (size_t{1} << 31) - 1;
  // Of a node beside its versions.
  static constexpr size_t kSlotBytes = sizeof(void*);

  NodeTable() = default;
  ~NodeTable();

  // The version that a snapshot sees; null where the node is not there.
  const NodeVersion* Find(NodeId node, uint64_t sequence) const {
    const Slot* slot = nodes_.Get(node);
    if (slot == nullptr) return nullptr;
    const NodeVersion* version = slot->load(std::memory_order_acquire);
    while (version != nullptr && version->begin_ > sequence) version = version->previous_;
    return version == nullptr || version->deleted_ ? nullptr : version;
  }
  // Whether Find() finds it, for snapshots from the oldest one on; where no node near it came or
  // went after the snapshot, which is the rule, a bit tells.
  bool Exists(NodeId node, uint64_t sequence) const {
    const Live* live = live_.Get(node / kLiveNodes);
    if (live == nullptr) return false;
    const uint64_t word = live->words[node / 64 % kLiveWords].load(std::memory_order_acquire);
    if (!live->IsAsOf(sequence)) return Find(node, sequence) != nullptr;
    return (word >> (node % 64) & 1) != 0;
  }
  // Brings what Find() reads first into the cache; the node's slot, then its newest version.
  void PrefetchSlot(NodeId node) const { __builtin_prefetch(nodes_.Get(node)); }
  void PrefetchVersion(NodeId node) const {
    if (const Slot* slot = nodes_.Get(node)) {
      __builtin_prefetch(slot->load(std::memory_order_relaxed));
    }
  }
  // The newest one, also one that is a deletion.
  const NodeVersion* Latest(NodeId node) const {
    const Slot* slot = nodes_.Get(node);
    return slot == nullptr ? nullptr : slot->load(std::memory_order_acquire);
  }
  // No node is at or behind it.
  NodeId end() const { return end_.load(std::memory_order_acquire); }
  // Bytes of all versions, and of the slots that have one: what identifiers take that no node got
  // is not there.
  uint64_t memory() const { return memory_.load(std::memory_order_relaxed); }

  // Whether all versions that are kept, deletions aside, have the label; then every node of any
  // snapshot has. False also while others install and prune all the time.
  bool EveryVersionHas(Token label) const;
  // 64 nodes from `first` on, a multiple of 64: which of them a snapshot, from the oldest one on,
  // sees with the label (kNoToken: at all).
  uint64_t Word(Token label, NodeId first, uint64_t sequence) const;
  // Whether a snapshot sees the node with the label, as far as bits tell.
  enum class Known : uint8_t { kNo, kYes, kAskItsVersion };
  Known HasLabel(Token label, NodeId node, uint64_t sequence) const;
  // Which of the 64 have the label in some version.
  uint64_t LabelWord(Token label, NodeId first) const;

  // The table owns the version.
  void Install(NodeId node, NodeVersion* version);
  // Frees what no snapshot from `oldest` on sees; `drop` is called before, with what remains.
  using Drop = std::function<void(const NodeVersion& dropped, const NodeVersion* newest)>;
  void Prune(NodeId node, uint64_t oldest, const Drop& drop);

 private:
  using Slot = std::atomic<NodeVersion*>;
  // Of few nodes it takes 5 KB: a label may be on one alone.
  class Bitmap {
   public:
    ~Bitmap();
    // The word of 64 nodes; null where it was not made.
    const std::atomic<uint64_t>* Get(uint64_t word) const {
      const auto* part = parts_.Get(word >> 16);
      const Part* words = part == nullptr ? nullptr : part->load(std::memory_order_acquire);
      return words == nullptr ? nullptr : words->Get(word & 0xFFFF);
    }
    std::atomic<uint64_t>* Make(uint64_t word);

   private:
    using Part = RadixTable<std::atomic<uint64_t>, 8, 8>;
    RadixTable<std::atomic<Part*>, 6, 4> parts_;
    uint64_t end_ = 0;  // no part is at or behind it
  };

  struct Label {
    std::atomic<Bitmap*> nodes;      // that have it in some version
    std::atomic<uint64_t> versions;  // that have it
  };

  // Which nodes there are in the newest state, 4096 together, and the last commit with which one of
  // them came, went, or changed its labels.
  static constexpr uint64_t kLiveWords = 64, kLiveNodes = 64 * kLiveWords;
  struct Live {
    std::atomic<uint64_t> changed;
    std::atomic<bool> label_lost;  // by one of them, at any time: the bit in Label::nodes stays
    std::atomic<uint64_t> words[kLiveWords];

    // Whether the bits of these nodes that were read before, acquiring, are what a snapshot sees.
    bool IsAsOf(uint64_t sequence) const {
      return changed.load(std::memory_order_relaxed) <= sequence;
    }
  };

  void Count(const NodeVersion& version, uint64_t by);

  RadixTable<Slot, 20, 12> nodes_;
  RadixTable<Live, 14, 6> live_;
  RadixTable<Label, 12, 10> labels_;
  // Deletions aside. It and those of labels change between two increments of counting_, so that a
  // reader knows whether it saw all of them at one moment.
  std::atomic<uint64_t> versions_{0};
  std::atomic<uint64_t> counting_{0};
  std::atomic<NodeId> end_{0};
  std::atomic<uint64_t> memory_{0};
  Token label_end_ = 0;
};

}  // namespace pulse::graph
