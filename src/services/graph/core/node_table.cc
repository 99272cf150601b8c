#include "services/graph/core/node_table.h"

#include <algorithm>

#include "base/check.h"

namespace pulse::graph {

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

NodeTable::~NodeTable() {
  for (NodeId node = 0; node < end_; ++node) {
    const Slot* slot = nodes_.Get(node);
    NodeVersion* version = slot == nullptr ? nullptr : slot->load(std::memory_order_relaxed);
    while (version != nullptr) NodeVersion::Free(std::exchange(version, version->previous_));
  }
  for (Token label = 0; label < label_end_; ++label) {
    const auto* bitmap = labels_.Get(label);
    if (bitmap != nullptr) delete bitmap->load(std::memory_order_relaxed);
  }
}

uint64_t NodeTable::LabelWord(Token label, NodeId first) const {
  const auto* slot = labels_.Get(label);
  const Bitmap* bitmap = slot == nullptr ? nullptr : slot->load(std::memory_order_acquire);
  if (bitmap == nullptr) return 0;
  const auto* word = bitmap->Get(first / 64);
  return word == nullptr ? 0 : word->load(std::memory_order_acquire);
}

void NodeTable::Install(NodeId node, NodeVersion* version) {
  for (const Token label : version->labels()) {
    std::atomic<Bitmap*>* slot = labels_.Make(label);
    Bitmap* bitmap = slot->load(std::memory_order_relaxed);
    if (bitmap == nullptr) {
      bitmap = new Bitmap;
      slot->store(bitmap, std::memory_order_release);
      label_end_ = std::max(label_end_, label + 1);
    }
    bitmap->Make(node / 64)->fetch_or(uint64_t{1} << (node % 64), std::memory_order_release);
  }
  Slot* slot = nodes_.Make(node);
  version->previous_ = slot->load(std::memory_order_relaxed);
  memory_.fetch_add(version->memory(), std::memory_order_relaxed);
  slot->store(version, std::memory_order_release);
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
    if (drop) drop(*version, newest);
    memory_.fetch_sub(version->memory(), std::memory_order_relaxed);
    NodeVersion::Free(std::exchange(version, version->previous_));
  }
}

}  // namespace pulse::graph
