#include "services/graph/load/keys.h"

#include <algorithm>

#include "services/graph/load/columns.h"

namespace pulse::graph {
namespace {

// A table takes at most so many entries for each key.
constexpr uint64_t kDenseEntries = 4;
// A table of hashes has about twice as many places as entries just after it has grown.
constexpr uint64_t kIntKeyBytes = 2 * (sizeof(int64_t) + sizeof(uint32_t) + 5);
constexpr uint64_t kTextKeyBytes = 2 * (sizeof(std::string) + sizeof(uint32_t) + 5);

}  // namespace

bool KeySpace::AddInt(int64_t key, uint32_t row) {
  if (!by_int_.try_emplace(key, row).second) return false;
  least_ = count_ == 0 ? key : std::min(least_, key);
  most_ = count_ == 0 ? key : std::max(most_, key);
  memory_ += kIntKeyBytes;
  ++count_;
  return true;
}

bool KeySpace::AddText(absl::string_view text, uint32_t row) {
  if (!by_text_.try_emplace(std::string(text), row).second) return false;
  memory_ += kTextKeyBytes + (text.size() > 15 ? text.size() + 17 : 0);
  ++count_;
  return true;
}

void KeySpace::Finish() {
  const uint64_t span = static_cast<uint64_t>(most_) - static_cast<uint64_t>(least_);
  if (!ints_ || count_ == 0 || span / kDenseEntries >= count_) return;
  dense_.assign(span + 1, kNoRow);
  for (const auto& [key, row] : by_int_) {
    dense_[static_cast<uint64_t>(key) - static_cast<uint64_t>(least_)] = row;
  }
  absl::flat_hash_map<int64_t, uint32_t>().swap(by_int_);
}

uint32_t KeySpace::Find(absl::string_view text) const {
  if (!ints_) return FindText(text);
  int64_t key = 0;
  return ParseInt(text, &key) ? FindInt(key) : kNoRow;
}

}  // namespace pulse::graph
