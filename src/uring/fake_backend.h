// A scripted IoBackend for tests of FileEngine: records what the engine starts, completes it when
// and how the test says. Not thread-safe.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <deque>
#include <functional>
#include <map>
#include <vector>

#include "uring/io_backend.h"

namespace pulse {

// Records what the engine starts; completes it when the test says so.
class FakeBackend : public IoBackend {
 public:
  bool Enqueue(const IoRequest& r) override {
    if (in_flight_ >= depth) return false;
    ++in_flight_;
    queued_.push_back(r);
    return true;
  }
  void Submit() override {
    for (const IoRequest& r : queued_) {
      open.push_back(r);
      if (on_start) on_start(r);
    }
    queued_.clear();
  }
  size_t Harvest(IoResult* out, size_t max) override {
    size_t n = 0;
    for (; n < max && !done_.empty(); ++n) {
      out[n] = done_.front();
      done_.pop_front();
      --in_flight_;
    }
    return n;
  }
  int wait_fd() const override { return -1; }
  size_t in_flight() const override { return in_flight_; }
  EngineKind kind() const override { return EngineKind::kThreads; }
  int RegisterFile(int fd) override {
    if (!registers_files) return -1;
    registered.insert({next_index, fd});
    return next_index++;
  }
  void UnregisterFile(int index) override { registered.erase(index); }

  // Completes open[at] with `result`. What closes, closes, whatever the result.
  void Finish(size_t at, int64_t result) {
    ASSERT_LT(at, open.size()) << "nothing to complete";
    const IoRequest r = open[at];
    open.erase(open.begin() + static_cast<ptrdiff_t>(at));
    if (r.op == IoOp::kClose || r.op == IoOp::kSyncClose) {
      EXPECT_EQ(close(r.fd), 0) << "closed twice";
    }
    done_.push_back({r.tag, result});
  }
  // As asked: all bytes, or 0.
  void FinishWell(size_t at) {
    ASSERT_LT(at, open.size()) << "nothing to complete";
    const IoRequest& r = open[at];
    const bool moves = r.op == IoOp::kRead || r.op == IoOp::kWrite;
    Finish(at, moves ? static_cast<int64_t>(r.length) : 0);
  }

  size_t depth = 64;
  bool registers_files = true;
  std::vector<IoRequest> open;  // started and not completed
  std::function<void(const IoRequest&)> on_start;
  std::map<int, int> registered;
  int next_index = 0;

 private:
  std::vector<IoRequest> queued_;
  std::deque<IoResult> done_;
  size_t in_flight_ = 0;
};

}  // namespace pulse
