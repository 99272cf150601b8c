// What the parts of `pulse bench kv` share whose clients are outside of the store: requests that
// are drawn before anything is timed, and a store that has their keys.
#pragma once

#include <algorithm>
#include <cstring>
#include <memory>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "bench/macro/kv/kv_load.h"
#include "bench/macro/workload.h"
#include "services/kv/store.h"

namespace pulse::bench {

// The keys of requests in their order, drawn before anything is timed.
class KvRequests {
 public:
  explicit KvRequests(const KvShape& shape)
      : key_bytes_(shape.key_bytes),
        numbers_(DrawNumbers(shape, kDrawn, 1)),
        keys_(kDrawn * shape.key_bytes),
        sets_(kDrawn) {
    Random random(2);
    for (size_t i = 0; i < kDrawn; ++i) {
      WriteKey(numbers_[i], key_bytes_, &keys_[i * key_bytes_]);
      sets_[i] = random.Unit() < shape.set_share ? 1 : 0;
    }
  }
  const char* key(uint64_t i) const { return &keys_[i % kDrawn * key_bytes_]; }
  bool set(uint64_t i) const { return sets_[i % kDrawn] != 0; }
  // Whether it is what a get of the i-th key finds.
  bool Fits(uint64_t i, const void* value, size_t size) const {
    return size > 0 && std::memcmp(value, &numbers_[i % kDrawn], std::min<size_t>(size, 8)) == 0;
  }
  // A value of the i-th key.
  void WriteValue(uint64_t i, std::string* value) const {
    std::memcpy(value->data(), &numbers_[i % kDrawn], std::min<size_t>(value->size(), 8));
  }

 private:
  static constexpr size_t kDrawn = size_t{1} << 22;
  const size_t key_bytes_;
  const std::vector<uint64_t> numbers_;
  std::vector<char> keys_;
  std::vector<char> sets_;
};

// A store of one partition with all items; each value begins with its number.
absl::StatusOr<std::unique_ptr<kv::KvStore>> OpenKvStore(const KvShape& shape);

}  // namespace pulse::bench
