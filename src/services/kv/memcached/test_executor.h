// For the tests of the commands: an executor with a store of its own, whose clock stands still, and
// the replies to a stream of requests. For tests only.
#pragma once

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <string_view>

#include "absl/strings/str_cat.h"
#include "services/kv/memcached/commands.h"
#include "services/redis/commands/command_suite.h"
#include "services/redis/commands/handlers.h"

namespace pulse::kv::memcached {

inline constexpr uint64_t kMaxValue = 2000;

class MemcachedTest : public testing::TestWithParam<int> {
 protected:
  MemcachedTest() { Open(Policy::kNoEviction, 64); }
  void Open(Policy policy, uint64_t mib, uint64_t max_reply = 100'000) {
    KvStoreOptions options;
    options.partitions = GetParam();
    options.memory_bytes = mib << 20;
    options.policy = policy;
    options.clock = [this] { return now_ms_.load(); };
    options.ticks = false;
    options.seed = 1;
    options.limits.max_reply = max_reply;
    executor_.reset();
    auto store = KvStore::Open(options);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
    executor_ = std::make_unique<Executor>(store_.get(), &counters_,
                                           ExecutorOptions{kMaxValue, now_ms_ - 5'500});
  }
  // The replies to a stream of requests.
  std::string operator()(std::string_view stream, bool may_block = true) {
    RequestSplitter splitter(kMaxValue);
    std::string out;
    while (true) {
      const auto size = splitter.Next(stream);
      if (!size.ok() || *size == 0) {
        EXPECT_EQ(stream, "");
        return out;
      }
      if (!splitter.skipped()) {
        Request request;
        request.Parse(stream.substr(0, *size));
        if (!executor_->Run(request, may_block, &out)) out += "WOULD BLOCK\r\n";
      }
      stream.remove_prefix(*size);
    }
  }
  // A line alone, without the end of its reply.
  std::string Line(std::string_view line) {
    std::string reply = (*this)(absl::StrCat(redis::AbslOf(line), "\r\n"));
    if (reply.size() >= 2) reply.resize(reply.size() - 2);
    return reply;
  }
  std::string Set(std::string_view words, std::string_view data) {
    std::string reply =
        (*this)(absl::StrCat(redis::AbslOf(words), "\r\n", redis::AbslOf(data), "\r\n"));
    if (reply.size() >= 2) reply.resize(reply.size() - 2);
    return reply;
  }
  std::string Put(const std::string& key, std::string_view data) {
    return Set(absl::StrCat("set ", key, " 0 0 ", data.size()), data);
  }
  std::string Get(const std::string& key) {
    const std::string reply = Line("mg " + key + " v");
    return reply.substr(std::min(reply.find("\r\n") + 2, reply.size()));
  }
  uint64_t CasOf(const std::string& key) {
    const std::string reply = Line("mg " + key + " c");
    EXPECT_EQ(reply.substr(0, 4), "HD c") << reply;
    return std::stoull(reply.substr(4));
  }
  std::string Redis(std::string_view line) { return redis::RunLine(store_.get(), line, 2); }

  std::atomic<int64_t> now_ms_{1'700'000'000'000};
  Counters counters_;
  std::unique_ptr<KvStore> store_;
  std::unique_ptr<Executor> executor_;
};

}  // namespace pulse::kv::memcached
