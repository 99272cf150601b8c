// KeySpace: the keys of the nodes of one label, or of one of Neo4j's ID spaces, and their rows.
// Keys are integers where all of them are, and found by their value; else they are texts. One
// thread writes; any number read afterwards.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/string_view.h"
#include "services/graph/model/value.h"

namespace pulse::graph {

inline constexpr uint32_t kNoRow = ~uint32_t{0};

class KeySpace {
 public:
  KeySpace(std::string name, bool ints) : name_(std::move(name)), ints_(ints) {}

  const std::string& name() const { return name_; }
  bool ints() const { return ints_; }
  uint64_t size() const { return count_; }
  // About.
  uint64_t memory() const { return memory_; }

  // False: the key is there already. `text` is copied.
  bool AddInt(int64_t key, uint32_t row);
  bool AddText(absl::string_view text, uint32_t row);
  // Before Finish().
  bool HasInt(int64_t key) const { return by_int_.contains(key); }
  bool HasText(absl::string_view text) const { return by_text_.contains(text); }
  // After the last key: a table by value, where keys are dense.
  void Finish();

  uint32_t FindInt(int64_t key) const {
    if (!dense_.empty()) {
      const uint64_t at = static_cast<uint64_t>(key) - static_cast<uint64_t>(least_);
      return at < dense_.size() ? dense_[at] : kNoRow;
    }
    const auto found = by_int_.find(key);
    return found == by_int_.end() ? kNoRow : found->second;
  }
  uint32_t FindText(absl::string_view text) const {
    const auto found = by_text_.find(text);
    return found == by_text_.end() ? kNoRow : found->second;
  }
  // A field's text, whatever the kind.
  uint32_t Find(absl::string_view text) const;

 private:
  const std::string name_;
  const bool ints_;
  uint64_t count_ = 0;
  uint64_t memory_ = 0;
  int64_t least_ = 0, most_ = 0;
  std::vector<uint32_t> dense_;
  absl::flat_hash_map<int64_t, uint32_t> by_int_;
  absl::flat_hash_map<std::string, uint32_t> by_text_;
};

}  // namespace pulse::graph
