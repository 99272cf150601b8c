// KeySampler: which key RANDOMKEY returns. RocksDB keeps keys in order and cannot count to the n-th
// one, so a key is chosen in two steps: a position, and then one of the keys of a window that
// begins there (kWindow keys, or about kWindowBytes of values; it goes on at the first key behind
// the last one), each with the same probability. Positions come from two sources in turn by chance:
//
//   by size  a byte of the database, each with the same probability, whose key is found by
//            bisection over RocksDB's size estimates: consecutive calls see all parts of it.
//   cursor   where the window of the last such call ended: every key is in one window of each
//            round through the database, and so none starves, whatever the keys and values.
//
// A database of at most kWindow small keys is one window: the choice is uniform. In a larger one, a
// key's probability grows with the size of the records around it.
//
// What has expired is passed over. A call looks at no more than kMostWindows windows: where all of
// these keys have expired and are not compacted yet, it finds none, and the next call goes on.
// Deleted keys that are not compacted yet are skipped by RocksDB and not counted, as in a SCAN.
//
// Threads: thread-safe; the lock is held for a few instructions only. Blocking: Choose reads from
// the device.
#pragma once

#include <cstdint>
#include <mutex>
#include <optional>
#include <random>
#include <string>

namespace pulse::redis {

class StoreView;

class KeySampler {
 public:
  static constexpr uint64_t kWindow = 512;
  static constexpr size_t kWindowBytes = size_t{1} << 20;
  static constexpr int kMostWindows = 16;

  explicit KeySampler(uint64_t seed) : random_(seed) {}

  // A key that exists, or none. False: the view would block, or has failed.
  bool Choose(StoreView* view, std::optional<std::string>* key);

 private:
  std::mutex mutex_;
  std::mt19937_64 random_;
  std::string cursor_;  // from here on; after the last key: all keys again
};

}  // namespace pulse::redis
