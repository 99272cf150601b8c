// CursorTable: where SCANs are. A cursor is a number that a client brings back; it stands for the
// key that its SCAN goes on from. The table keeps the last kMost of them: one that has gone is
// refused, and the client begins again.
//
// Thread-safe; short critical sections only.
#pragma once

#include <cstdint>
#include <deque>
#include <mutex>
#include <random>
#include <string>
#include <string_view>
#include <unordered_map>

namespace pulse::resp {

class CursorTable {
 public:
  static constexpr size_t kMost = 16384;
  static constexpr size_t kMostBytes = size_t{16} << 20;

  // A number that stands for `key` from now on; not 0.
  uint64_t Put(std::string_view key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    uint64_t cursor = 0;
    // Below 2^63, for clients that read it as a signed number. Random, so that a cursor of another
    // run of the server is not taken for one of this.
    while (cursor == 0 || keys_.count(cursor) != 0) cursor = random_() >> 1;
    keys_.emplace(cursor, key);
    order_.push_back(cursor);
    bytes_ += key.size();
    while (order_.size() > kMost || (bytes_ > kMostBytes && order_.size() > 1)) {
      const auto oldest = keys_.find(order_.front());
      bytes_ -= oldest->second.size();
      keys_.erase(oldest);
      order_.pop_front();
    }
    return cursor;
  }

  // Cursors stay valid after their use: a client may repeat a SCAN whose reply it lost.
  bool Get(uint64_t cursor, std::string* key) {
    const std::lock_guard<std::mutex> lock(mutex_);
    const auto it = keys_.find(cursor);
    if (it == keys_.end()) return false;
    *key = it->second;
    return true;
  }

 private:
  std::mutex mutex_;
  std::mt19937_64 random_{std::random_device{}()};
  std::unordered_map<uint64_t, std::string> keys_;
  std::deque<uint64_t> order_;
  size_t bytes_ = 0;
};

}  // namespace pulse::resp
