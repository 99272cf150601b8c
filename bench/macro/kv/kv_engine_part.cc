// `pulse bench kv --part engine`: the store alone, on one core, by calls.
#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <type_traits>

#include "absl/container/flat_hash_map.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/kv/kv_load.h"
#include "bench/macro/workload.h"
#include "bench/rivals/kv/mica_cache.h"
#include "nlohmann/json.hpp"
#include "services/kv/core/batch.h"

namespace pulse::bench {
namespace {

constexpr size_t kDrawn = size_t{1} << 22;

// Counts what is not as it was filled.
struct CheckingSink {
  uint64_t hits = 0;
  uint64_t missed = 0;
  uint64_t refused = 0;
  void Got(size_t, const kv::Item* item) {
    if (item == nullptr) {
      ++missed;
      return;
    }
    uint64_t first = 0;
    std::memcpy(&first, item->value_bytes(), 1);
    sum += first;
    ++hits;
  }
  void Stored(size_t, kv::Partition::Result result) {
    refused += result != kv::Partition::Result::kStored ? 1 : 0;
  }
  void Deleted(size_t, bool) {}
  uint64_t sum = 0;
};

struct Drawn {
  std::vector<uint64_t> numbers;
  std::vector<char> keys;
  std::vector<char> sets;  // 1: a SET
  std::string value;
};

Drawn Draw(const KvShape& shape) {
  Drawn drawn;
  drawn.numbers = DrawNumbers(shape, kDrawn, 1);
  drawn.keys.resize(kDrawn * shape.key_bytes);
  drawn.sets.resize(kDrawn);
  Random random(2);
  for (size_t i = 0; i < kDrawn; ++i) {
    WriteKey(drawn.numbers[i], shape.key_bytes, &drawn.keys[i * shape.key_bytes]);
    drawn.sets[i] = random.Unit() < shape.set_share ? 1 : 0;
  }
  drawn.value.assign(shape.value_bytes, 'w');
  return drawn;
}

// Runs `batch(first, count)` over what was drawn, for the time; returns calls a second.
template <class Batch>
double TimeBatches(const KvShape& shape, const Batch& batch) {
  uint64_t done = 0;
  const int64_t begin = NowNanos();
  const auto until = begin + static_cast<int64_t>(shape.seconds * 1e9);
  int64_t now = begin;
  for (size_t at = 0; now < until;) {
    for (int i = 0; i < 64; ++i) {
      if (at + shape.batch > kDrawn) at = 0;
      batch(at, shape.batch);
      at += shape.batch;
    }
    done += 64 * shape.batch;
    now = NowNanos();
  }
  return static_cast<double>(done) / (static_cast<double>(now - begin) / 1e9);
}

uint64_t UsedBytes(const kv::Partition& partition) { return partition.numbers().used_bytes; }
// Its log is a power of two, whatever is in it.
uint64_t UsedBytes(const kv::MicaCache& cache) {
  return cache.index_bytes() + cache.log_units() * 8;
}

template <class Store>
absl::StatusOr<nlohmann::json> RunStore(const KvShape& shape, const Drawn& drawn) {
  PULSE_ASSIGN_OR_RETURN(auto store, FillStore<Store>(shape, 0, 1));
  const uint64_t used = UsedBytes(*store);
  CheckingSink sink;
  std::array<kv::BatchRequest, 256> requests;
  for (kv::BatchRequest& r : requests) r.value = drawn.value;
  const bool together = shape.design != "one";
  const double rate = TimeBatches(shape, [&](size_t first, size_t count) {
    for (size_t i = 0; i < count; ++i) {
      kv::BatchRequest& r = requests[i];
      r.key = {&drawn.keys[(first + i) * shape.key_bytes], shape.key_bytes};
      r.hash = kv::HashKey(r.key);
      r.op = drawn.sets[first + i] != 0 ? kv::Op::kSet : kv::Op::kGet;
    }
    const size_t size = together ? count : 1;
    for (size_t i = 0; i < count; i += size) {
      kv::ExecuteBatch(store.get(), &requests[i], size, kv::MatchOf(*store), &sink);
    }
  });
  if (sink.refused > 0) return absl::InternalError(absl::StrCat(sink.refused, " were refused"));
  if (sink.missed > 0 && std::is_same_v<Store, kv::Partition>) {
    return absl::InternalError(absl::StrCat(sink.missed, " were not found"));
  }
  const auto items = static_cast<double>(shape.items);
  const double payload = items * static_cast<double>(shape.key_bytes + shape.value_bytes);
  const double gets = std::max<double>(1, static_cast<double>(sink.hits + sink.missed));
  return nlohmann::json{{"ops_per_s", rate},
                        {"overhead_bytes", (static_cast<double>(used) - payload) / items},
                        {"missed_percent", 100 * static_cast<double>(sink.missed) / gets},
                        {"gib", static_cast<double>(used) / (1 << 30)}};
}

// What a program uses that has no store.
absl::StatusOr<nlohmann::json> RunHashMap(const KvShape& shape, const Drawn& drawn) {
  absl::flat_hash_map<std::string, std::string> map;
  map.reserve(shape.items);
  std::string key(shape.key_bytes, '\0');
  for (uint64_t number = 0; number < shape.items; ++number) {
    WriteKey(number, key.size(), key.data());
    map.emplace(key, drawn.value);
  }
  uint64_t sum = 0;
  const double rate = TimeBatches(shape, [&](size_t first, size_t count) {
    for (size_t i = first; i < first + count; ++i) {
      const absl::string_view wanted(&drawn.keys[i * shape.key_bytes], shape.key_bytes);
      const auto it = map.find(wanted);
      if (it == map.end()) continue;
      if (drawn.sets[i] != 0) {
        it->second = drawn.value;
      } else {
        sum += static_cast<unsigned char>(it->second[0]);
      }
    }
  });
  if (sum == 1) return absl::InternalError("no value was read");
  return nlohmann::json{{"ops_per_s", rate}};
}

}  // namespace

absl::StatusOr<nlohmann::json> RunKvEngine(const KvShape& shape) {
  PULSE_RETURN_IF_ERROR(SetThreadAffinity(shape.host_cpus));
  const Drawn drawn = Draw(shape);
  if (shape.design == "hash-map") return RunHashMap(shape, drawn);
  return shape.design == "mica" || shape.engine == "mica" ? RunStore<kv::MicaCache>(shape, drawn)
                                                          : RunStore<kv::Partition>(shape, drawn);
}

}  // namespace pulse::bench
