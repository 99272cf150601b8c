// CursorTable: where SCANs are. A cursor is a number that a client brings back; it stands for the
// key that its SCAN goes on from. The table keeps kMost cursors. Those whose successor has been
// used go first, so that a scan of many steps takes no other one's place; then those of the scan
// that has not gone on for the longest time. One that has gone is refused, and the client begins
// again.
//
// Thread-safe; short critical sections only.
#pragma once

#include <cstdint>
#include <iterator>
#include <list>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>

namespace pulse::redis {

class CursorTable {
 public:
  static constexpr size_t kMost = 16384;
  static constexpr size_t kMostBytes = size_t{16} << 20;

  // A number that stands for `key` from now on; not 0. `from`: the cursor that the scan has gone on
  // from, 0 where it has begun.
  uint64_t Put(std::string_view key, uint64_t from = 0) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry* const used = Find(from);
    if (used != nullptr) {
      // A step that is repeated has had a cursor, which nobody has used.
      const Entry* const given = Find(used->after);
      if (given != nullptr && given->key == key) return used->after;
      Demote(used->after);
    }
    uint64_t cursor = 0;
    // Below 2^63, for clients that read it as a signed number. Random, so that a cursor of another
    // run of the server is not taken for one of this.
    while (cursor == 0 || entries_.count(cursor) != 0) cursor = random_() >> 1;
    last_.push_back({cursor, std::string(key), used != nullptr ? from : 0, 0, false});
    entries_.emplace(cursor, std::prev(last_.end()));
    bytes_ += key.size();
    if (used != nullptr) used->after = cursor;
    while (entries_.size() > kMost || (bytes_ > kMostBytes && entries_.size() > 1)) {
      Erase(passed_.empty() ? last_.front().cursor : passed_.front().cursor);
    }
    return cursor;
  }

  // The cursor stays valid: a client may repeat a SCAN whose reply it lost. The one before it is
  // one of the first to go, as the client has had the reply to that.
  bool Get(uint64_t cursor, std::string* key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    Entry* const entry = Find(cursor);
    if (entry == nullptr) return false;
    *key = entry->key;
    Demote(entry->before);
    entry->before = 0;
    return true;
  }

 private:
  struct Entry {
    uint64_t cursor;
    std::string key;
    uint64_t before;  // of the same scan; 0: none
    uint64_t after;
    bool passed = false;
  };

  Entry* Find(uint64_t cursor) {
    const auto it = entries_.find(cursor);
    return it == entries_.end() ? nullptr : &*it->second;
  }
  void Demote(uint64_t cursor) {
    const auto it = entries_.find(cursor);
    if (it == entries_.end() || it->second->passed) return;
    it->second->passed = true;
    passed_.splice(passed_.end(), last_, it->second);
  }
  // Nothing where it has gone.
  void Erase(uint64_t cursor) {
    const auto it = entries_.find(cursor);
    if (it == entries_.end()) return;
    bytes_ -= it->second->key.size();
    (it->second->passed ? passed_ : last_).erase(it->second);
    entries_.erase(it);
  }

  std::mutex mutex_;
  std::mt19937_64 random_{std::random_device{}()};
  // In which they go: all of the first list before any of the second.
  std::list<Entry> passed_;  // their successors were used
  std::list<Entry> last_;
  std::unordered_map<uint64_t, std::list<Entry>::iterator> entries_;
  size_t bytes_ = 0;
};

}  // namespace pulse::redis
