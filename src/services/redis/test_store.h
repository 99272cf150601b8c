// A Store in a scratch directory, with a clock that the test moves. For tests only.
#pragma once

#include <gtest/gtest.h>

#include <atomic>
#include <filesystem>
#include <initializer_list>
#include <memory>
#include <string>

#include "base/testing.h"
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

  // One request, as a line; the reply with "\r\n" as blanks, but for the last.
  std::string operator()(std::string_view line, int protocol = 2) {
    Request request;
    if (!request.Parse(std::string(line) + "\r\n").ok()) return "no request";
    const CommandInfo* command = FindCommand(request[0]);
    if (command == nullptr || !command->ArityFits(request.size())) return "no command";
    std::string out;
    ReplyWriter reply(&out, protocol);
    CommandCounts counts;
    if (store_->Run(*command, request.arguments(), true, &reply, &counts) !=
        Store::RunResult::kDone) {
      return "would block";
    }
    return Plain(out);
  }

  static std::string Plain(std::string_view reply) {
    std::string text;
    for (size_t i = 0; i < reply.size(); ++i) {
      if (reply[i] == '\r' && i + 1 < reply.size() && reply[i + 1] == '\n') continue;
      text.push_back(reply[i] == '\n' && i > 0 && reply[i - 1] == '\r' ? ' ' : reply[i]);
    }
    if (!text.empty() && text.back() == ' ') text.pop_back();
    return text;
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

struct Step {
  const char* request;
  const char* reply;
};

// Each request, in turn, with its reply.
inline void Play(TestStore& store, std::initializer_list<Step> steps) {
  for (const Step& step : steps) EXPECT_EQ(store(step.request), step.reply) << step.request;
}

}  // namespace pulse::redis
