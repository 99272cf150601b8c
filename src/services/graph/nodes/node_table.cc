#include "services/graph/nodes/node_table.h"

#include <algorithm>
#include <bit>

#include "base/check.h"

namespace pulse::graph {

namespace {

bool HasAll(const NodeVersion& version, std::span<const Token> labels) {
  return std::all_of(labels.begin(), labels.end(),
                     [&](Token label) { return version.HasLabel(label); });
}

}  // namespace

NodeVersion* NodeVersion::Make(uint64_t begin, std::span<const Token> labels,
                               std::string_view properties, bool deleted) {
  PULSE_CHECK(properties.size() <= NodeTable::kMaxProperties);
  auto* version = static_cast<NodeVersion*>(
      malloc(sizeof(NodeVersion) + labels.size_bytes() + properties.size()));
  PULSE_CHECK(version != nullptr, "out of memory");
  version->begin_ = begin;
  version->previous_ = nullptr;
  version->label_count_ = static_cast<uint32_t>(labels.size());
  version->bytes_ = static_cast<uint32_t>(properties.size()) & 0x7FFFFFFFu;
  version->deleted_ = deleted;
  char* to = reinterpret_cast<char*>(version + 1);
  if (!labels.empty()) std::memcpy(to, labels.data(), labels.size_bytes());
  if (!properties.empty()) {
    std::memcpy(to + labels.size_bytes(), properties.data(), properties.size());
  }
  return version;
}

NodeTable::Bitmap::~Bitmap() {
  for (uint64_t i = 0; i < end_; ++i) {
    if (const auto* part = parts_.Get(i)) delete part->load(std::memory_order_relaxed);
  }
}

std::atomic<uint64_t>* NodeTable::Bitmap::Make(uint64_t word) {
  std::atomic<Part*>* part = parts_.Make(word >> 16);
  Part* words = part->load(std::memory_order_relaxed);
  if (words == nullptr) {
    words = new Part;
    part->store(words, std::memory_order_release);
    end_ = std::max(end_, (word >> 16) + 1);
  }
  return words->Make(word & 0xFFFF);
}

NodeTable::~NodeTable() {
  for (NodeId page = 0; page < end_; page += nodes_.kPage) {
    const Slot* slots = nodes_.Get(page);
    if (slots == nullptr) continue;
    for (uint64_t i = 0; i < nodes_.kPage; ++i) {
      NodeVersion* version = slots[i].load(std::memory_order_relaxed);
      while (version != nullptr) NodeVersion::Free(std::exchange(version, version->previous_));
    }
  }
  for (Token label = 0; label < label_end_; ++label) {
    const Label* entry = labels_.Get(label);
    if (entry != nullptr) delete entry->nodes.load(std::memory_order_relaxed);
  }
}

uint64_t NodeTable::LabelWord(Token label, NodeId first) const {
  const Label* entry = labels_.Get(label);
  const Bitmap* bitmap = entry == nullptr ? nullptr : entry->nodes.load(std::memory_order_acquire);
  if (bitmap == nullptr) return 0;
  const auto* word = bitmap->Get(first / 64);
  return word == nullptr ? 0 : word->load(std::memory_order_acquire);
}

uint64_t NodeTable::Word(Token label, NodeId first, uint64_t sequence) const {
  const Live* live = live_.Get(first / kLiveNodes);
  if (live == nullptr) return 0;
  const bool any = label == cypher::kNoToken;
  uint64_t word = any ? live->words[first / 64 % kLiveWords].load(std::memory_order_acquire)
                      : LabelWord(label, first);
  if (live->IsAsOf(sequence) && (any || !live->label_lost.load(std::memory_order_relaxed))) {
    return word;
  }
  if (any) word = ~uint64_t{0};
  for (uint64_t left = word; left != 0; left &= left - 1) {
    PrefetchVersion(first + static_cast<NodeId>(std::countr_zero(left)));
  }
  for (uint64_t left = word; left != 0; left &= left - 1) {
    const NodeVersion* version =
        Find(first + static_cast<NodeId>(std::countr_zero(left)), sequence);
    if (version == nullptr || !(any || version->HasLabel(label))) word ^= left & -left;
  }
  return word;
}

NodeTable::Known NodeTable::HasLabel(Token label, NodeId node, uint64_t sequence) const {
  if ((LabelWord(label, node / 64 * 64) >> (node % 64) & 1) == 0) return Known::kNo;
  const Live* live = live_.Get(node / kLiveNodes);
  const bool known = live != nullptr && live->IsAsOf(sequence) &&
                     !live->label_lost.load(std::memory_order_relaxed);
  return known ? Known::kYes : Known::kAskItsVersion;
}

bool NodeTable::EveryVersionHas(Token label) const {
  const Label* entry = labels_.Get(label);
  if (entry == nullptr) return false;
  // A writer may be counting just now; it needs no time to speak of.
  for (int tries = 0; tries < 16; ++tries) {
    const uint64_t before = counting_.load(std::memory_order_acquire);
    const uint64_t have = entry->versions.load(std::memory_order_relaxed);
    const uint64_t all = versions_.load(std::memory_order_relaxed);
    std::atomic_thread_fence(std::memory_order_acquire);
    if (before % 2 == 0 && counting_.load(std::memory_order_relaxed) == before) return have == all;
  }
  return false;
}

// Adds `by` to the counts of a version's labels. One thread at a time; the release fence and the
// last store pair with EveryVersionHas.
void NodeTable::Count(const NodeVersion& version, uint64_t by) {
  if (version.deleted()) return;
  const uint64_t counting = counting_.load(std::memory_order_relaxed);
  counting_.store(counting + 1, std::memory_order_relaxed);
  std::atomic_thread_fence(std::memory_order_release);
  const auto add = [by](std::atomic<uint64_t>* count) {
    count->store(count->load(std::memory_order_relaxed) + by, std::memory_order_relaxed);
  };
  add(&versions_);
  for (const Token label : version.labels()) add(&labels_.Make(label)->versions);
  counting_.store(counting + 2, std::memory_order_release);
}

void NodeTable::Install(NodeId node, NodeVersion* version) {
  Slot* slot = nodes_.Make(node);
  version->previous_ = slot->load(std::memory_order_relaxed);
  const NodeVersion* before = version->previous_;
  if (before != nullptr && before->deleted_) before = nullptr;
  const bool comes_or_goes = (before == nullptr) != version->deleted();
  const bool loses_label = before != nullptr && !HasAll(*version, before->labels());
  // This first, so that who sees a new bit sees that it is new; pairs with Live::IsAsOf().
  Live* live = live_.Make(node / kLiveNodes);
  if (loses_label) live->label_lost.store(true, std::memory_order_relaxed);
  if (comes_or_goes || loses_label || (before != nullptr && !HasAll(*before, version->labels()))) {
    live->changed.store(version->begin_, std::memory_order_relaxed);
  }
  for (const Token label : version->labels()) {
    Label* entry = labels_.Make(label);
    Bitmap* bitmap = entry->nodes.load(std::memory_order_relaxed);
    if (bitmap == nullptr) {
      bitmap = new Bitmap;
      entry->nodes.store(bitmap, std::memory_order_release);
      label_end_ = std::max(label_end_, label + 1);
    }
    bitmap->Make(node / 64)->fetch_or(uint64_t{1} << (node % 64), std::memory_order_release);
  }
  // Before a snapshot can see it.
  Count(*version, 1);
  memory_.fetch_add(version->memory() + (version->previous_ == nullptr ? kSlotBytes : 0),
                    std::memory_order_relaxed);
  slot->store(version, std::memory_order_release);
  if (comes_or_goes) {
    live->words[node / 64 % kLiveWords].fetch_xor(uint64_t{1} << (node % 64),
                                                  std::memory_order_release);
  }
  if (node >= end_.load(std::memory_order_relaxed)) {
    end_.store(node + 1, std::memory_order_release);
  }
}

void NodeTable::Prune(NodeId node, uint64_t oldest, const Drop& drop) {
  Slot* slot = nodes_.Get(node);
  if (slot == nullptr) return;
  NodeVersion* newest = slot->load(std::memory_order_relaxed);
  NodeVersion* seen = newest;
  while (seen != nullptr && seen->begin_ > oldest) seen = seen->previous_;
  if (seen == nullptr || seen->previous_ == nullptr) return;
  NodeVersion* version = std::exchange(seen->previous_, nullptr);
  while (version != nullptr) {
    try {
      if (drop) drop(*version, newest);
    } catch (...) {
      seen->previous_ = version;  // the next one to prune the node tries again
      throw;
    }
    Count(*version, ~uint64_t{0});
    memory_.fetch_sub(version->memory(), std::memory_order_relaxed);
    NodeVersion::Free(std::exchange(version, version->previous_));
  }
}

}  // namespace pulse::graph
