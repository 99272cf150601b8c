// What tests of the embedded store share. For tests only.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include "gtest/gtest.h"
#include "pulse/kv.h"

namespace pulse {

inline constexpr uint64_t kMiB = uint64_t{1} << 20;
inline constexpr int64_t kStart = 1'700'000'000'000;

// A store whose time stands still unless the test moves it.
struct Fixture {
  explicit Fixture(KvOptions options = {.memory_bytes = 32 * kMiB}) {
    options.clock = [this] { return now_ms.load(); };
    auto opened = Kv::Open(options);
    EXPECT_TRUE(opened.ok()) << opened.status();
    store = *std::move(opened);
  }
  std::atomic<int64_t> now_ms{kStart};
  std::unique_ptr<Kv> store;
};

inline std::string Value(KvCalls& calls, std::string_view key) {
  std::string value;
  const absl::Status status = calls.Get(key, &value);
  return status.ok() ? value : absl::IsNotFound(status) ? "(none)" : status.ToString();
}

inline std::vector<std::string> Batch(KvCalls& calls, const std::vector<std::string_view>& keys,
                                      absl::StatusCode expected = absl::StatusCode::kOk) {
  std::vector<std::string> values(keys.size(), "(left out)");
  const absl::Status status =
      calls.GetBatch(keys, [&](size_t i, std::optional<std::string_view> value) {
        values[i] = value.has_value() ? std::string(*value) : "(none)";
      });
  EXPECT_EQ(status.code(), expected) << status;
  return values;
}

inline std::string KeyIn(const Kv& store, int partition, const std::string& prefix = "key") {
  for (int i = 0;; ++i) {
    std::string key = prefix + std::to_string(i);
    if (store.PartitionOf(key) == partition) return key;
  }
}

}  // namespace pulse
