#include "services/graph/nodes/index_order.h"

#include <algorithm>
#include <mutex>
#include <utility>

namespace pulse::graph {

void IndexOrder::Add(const Entry& entry) {
  const std::unique_lock lock(mu_);
  entries_.insert(entry);
  ++changes_;
}

void IndexOrder::Drop(const Entry& entry) {
  const std::unique_lock lock(mu_);
  entries_.erase(entry);
  ++changes_;
}

void IndexOrder::Complete(std::vector<Entry> entries) {
  std::sort(entries.begin(), entries.end());
  std::vector<OrderPlace> steps;
  for (size_t i = 1; i < kSteps; ++i) {
    if (!entries.empty()) steps.push_back(entries[entries.size() * i / kSteps].place);
  }
  absl::btree_set<Entry> all(entries.begin(), entries.end());
  // Commits wait only for what they have added meanwhile.
  const std::unique_lock lock(mu_);
  all.insert(entries_.begin(), entries_.end());
  entries_.swap(all);
  steps_ = std::move(steps);
  changes_ = 0;
  complete_.store(true, std::memory_order_release);
}

// Ranges that are a little larger than `most` are found to be.
bool IndexOrder::AreMany(const OrderRange& range, size_t most) const {
  const std::shared_lock lock(mu_);
  if (changes_ > entries_.size() / 4) return false;
  const auto first = std::lower_bound(steps_.begin(), steps_.end(), range.first);
  const auto last = std::upper_bound(first, steps_.end(), range.last);
  const auto steps = static_cast<size_t>(last - first);
  return steps > 1 && (steps - 1) * (entries_.size() / kSteps) > most;
}

bool IndexOrder::Find(const OrderRange& range, size_t most, std::vector<NodeId>* out) const {
  if (AreMany(range, most)) return false;
  constexpr size_t kAtOnce = 512;
  Entry from{range.first, 0};
  size_t count = 0;
  while (true) {
    const std::shared_lock lock(mu_);
    auto it = entries_.lower_bound(from);
    for (size_t i = 0; i < kAtOnce; ++i, ++it) {
      if (it == entries_.end() || range.last < it->place) return true;
      if (count++ == most) return false;
      out->push_back(it->node);
    }
    if (it == entries_.end()) return true;
    from = *it;
  }
}

}  // namespace pulse::graph
