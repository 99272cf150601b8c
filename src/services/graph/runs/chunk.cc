#include "services/graph/runs/chunk.h"

#include <algorithm>
#include <cstring>
#include <new>

#include "base/check.h"

namespace pulse::graph {
namespace {

constexpr uint64_t kChunkMagic = 0x4b4e554843455355;
constexpr uint32_t kMinRecords = 16;
constexpr uint32_t kMaxRecords = uint32_t{1} << 24;
// A dense set of bits is walked where there are at most so many words for each node.
constexpr uint64_t kWordsPerNode = 4;

bool IsCapacity(uint32_t records) {
  return records >= kMinRecords && records <= kMaxRecords && (records & (records - 1)) == 0;
}

}  // namespace

size_t Chunk::Bytes(uint32_t records) {
  return sizeof(Header) + records * (sizeof(Slot) + sizeof(Record));
}

Chunk::Chunk(char* memory, uint32_t records)
    : header_(reinterpret_cast<Header*>(memory)),
      slots_(reinterpret_cast<Slot*>(memory + sizeof(Header))),
      records_(reinterpret_cast<Record*>(memory + sizeof(Header) + records * sizeof(Slot))),
      mask_(records - 1) {}

Chunk Chunk::Format(char* memory, Side side, uint32_t records) {
  PULSE_CHECK(IsCapacity(records), "a chunk's capacity is a power of two");
  PULSE_CHECK(reinterpret_cast<uintptr_t>(memory) % 64 == 0, "a chunk is aligned");
  auto* header = new (memory) Header;
  header->magic = kChunkMagic;
  header->capacity = records;
  header->side = static_cast<uint32_t>(side);
  header->nodes.store(0, std::memory_order_relaxed);
  Chunk chunk(memory, records);
  for (uint32_t i = 0; i < records; ++i) new (&chunk.slots_[i]) Slot;
  header->size.store(0, std::memory_order_release);
  return chunk;
}

absl::StatusOr<Chunk> Chunk::Attach(char* memory, size_t bytes) {
  if (bytes < sizeof(Header) || reinterpret_cast<uintptr_t>(memory) % 64 != 0) {
    return absl::DataLossError("a chunk of the graph's layer 0 is too small for its header");
  }
  const auto* header = reinterpret_cast<const Header*>(memory);
  const uint32_t records = header->capacity;
  if (header->magic != kChunkMagic || !IsCapacity(records) || Bytes(records) > bytes ||
      header->side > 1 || header->size.load() > records || header->nodes.load() > records) {
    return absl::DataLossError("a chunk of the graph's layer 0 has a header that is none");
  }
  return Chunk(memory, records);
}

Side Chunk::side() const { return static_cast<Side>(header_->side); }

bool Chunk::HasRoom(uint32_t n) const {
  return n <= capacity() - header_->size.load(std::memory_order_relaxed) &&
         n <= capacity() - capacity() / 4 - header_->nodes.load(std::memory_order_relaxed);
}

Chunk::Slot* Chunk::SlotOf(NodeId node) const {
  const uint64_t key = node + 1;
  for (uint64_t at = FirstSlot(node);; ++at) {
    Slot* slot = &slots_[at & mask_];
    const uint64_t found = slot->node.load(std::memory_order_acquire);
    if (found == key || found == 0) return slot;
  }
}

bool Chunk::Append(NodeId node, Record record) {
  const uint32_t at = header_->size.load(std::memory_order_relaxed);
  if (at == capacity()) return false;
  Slot* slot = SlotOf(node);
  const bool is_new = slot->node.load(std::memory_order_relaxed) == 0;
  const uint32_t nodes = header_->nodes.load(std::memory_order_relaxed);
  // Some slots stay empty, where searches end.
  if (is_new && nodes >= capacity() - capacity() / 4) return false;
  record.previous = slot->head.load(std::memory_order_relaxed);
  records_[at] = record;
  // A reader that finds the slot by its node may find it without a record yet. Pairs with the
  // acquiring loads of SlotOf() and Head().
  if (is_new) {
    slot->node.store(node + 1, std::memory_order_release);
    header_->nodes.store(nodes + 1, std::memory_order_release);
  }
  header_->size.store(at + 1, std::memory_order_release);
  slot->count.store(slot->count.load(std::memory_order_relaxed) + 1, std::memory_order_relaxed);
  slot->head.store(at, std::memory_order_release);
  return true;
}

uint32_t Chunk::Head(NodeId node) const {
  // A chunk that was begun, and has nothing yet, costs no look at its table.
  if (size() == 0) return kNoRecord;
  const Slot* slot = SlotOf(node);
  if (slot->node.load(std::memory_order_acquire) == 0) return kNoRecord;
  return slot->head.load(std::memory_order_acquire);
}

uint32_t Chunk::Count(NodeId node) const {
  const Slot* slot = SlotOf(node);
  if (slot->node.load(std::memory_order_acquire) == 0) return 0;
  return slot->count.load(std::memory_order_relaxed);
}

void Chunk::Nodes(std::vector<NodeId>* out) const {
  out->clear();
  for (uint32_t i = 0; i <= mask_; ++i) {
    // Most are empty.
    if (slots_[i].node.load(std::memory_order_relaxed) == 0) continue;
    const uint64_t key = slots_[i].node.load(std::memory_order_acquire);
    if (key != 0 && slots_[i].head.load(std::memory_order_acquire) != kNoRecord) {
      out->push_back(key - 1);
    }
  }
  if (out->empty()) return;
  const auto [least, greatest] = std::minmax_element(out->begin(), out->end());
  const uint64_t base = *least;
  const uint64_t words = (*greatest - base) / 64 + 1;
  if (words > kWordsPerNode * capacity()) {
    std::sort(out->begin(), out->end());
    return;
  }
  std::vector<uint64_t> bits(words);
  for (const NodeId node : *out) bits[(node - base) / 64] |= uint64_t{1} << ((node - base) % 64);
  out->clear();
  for (uint64_t w = 0; w < words; ++w) {
    for (uint64_t left = bits[w]; left != 0; left &= left - 1) {
      out->push_back(base + w * 64 + static_cast<uint64_t>(__builtin_ctzll(left)));
    }
  }
}

}  // namespace pulse::graph
