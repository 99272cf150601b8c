// A Store in a scratch directory, with a clock that the test moves. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <memory>
#include <string>

#include "base/testing.h"
#include "services/redis/commands/command_suite.h"
#include "services/redis/store.h"

namespace pulse::redis {

class TestStore {
 public:
  TestStore() : scratch_("resp-db") {
    options_.path = scratch_.get();
    options_.cache_bytes = 8 << 20;
    options_.sync = SyncMode::kNo;
    options_.seed = 1;
    options_.clock = [this] { return now_ms.load(); };
    Open();
  }
  ~TestStore() {
    store_.reset();
    std::filesystem::remove_all(scratch_.get());
  }

  void Reopen() {
    ASSERT_TRUE(store_->Close().ok());
    Open();
  }

  std::string operator()(std::string_view line, int protocol = 2) {
    return RunLine(store_.get(), line, protocol);
  }

  Store* operator->() { return store_.get(); }
  Store* get() { return store_.get(); }
  const std::string& path() const { return scratch_.get(); }
  StoreOptions& options() { return options_; }

  std::atomic<int64_t> now_ms{1'700'000'000'000};

 private:
  void Open() {
    auto store = Store::Open(options_);
    ASSERT_TRUE(store.ok()) << store.status();
    store_ = *std::move(store);
  }

  testing_util::ScratchPath scratch_;
  StoreOptions options_;
  std::unique_ptr<Store> store_;
};

}  // namespace pulse::redis
