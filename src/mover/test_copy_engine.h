// A copy engine for tests: holds what it was given until the test says how it ends, in any order,
// wholly, in part or with an error. A destination has nothing of a copy before that, so that who
// relies on bytes too early is found out.
#pragma once

#include <algorithm>
#include <cstdint>
#include <cstring>
#include <utility>
#include <vector>

#include "mover/copy_engine.h"

namespace pulse {

class FakeCopyEngine : public CopyEngine {
 public:
  explicit FakeCopyEngine(size_t depth) : depth_(depth) {}

  size_t Submit(const CopyItem* items, size_t n) override {
    n = std::min(n, depth_ - std::min(depth_, in_flight()));
    for (size_t i = 0; i < n; ++i) {
      if (absl::Status st = CheckCopy(items[i]); !st.ok()) {
        ended_.push_back({items[i].tag, 0, std::move(st)});
      } else {
        open.push_back(items[i]);
      }
    }
    return n;
  }
  size_t Poll(CopyCompletion* out, size_t max) override {
    const size_t n = std::min(max, ended_.size());
    std::move(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(n), out);
    ended_.erase(ended_.begin(), ended_.begin() + static_cast<std::ptrdiff_t>(n));
    return n;
  }
  size_t in_flight() const override { return open.size() + ended_.size(); }
  size_t depth() const override { return depth_; }

  // The open item at `at` ends with its first `done` bytes copied, and with `status`.
  void Finish(size_t at, uint64_t done, absl::Status status = absl::OkStatus()) {
    const CopyItem item = open[at];
    open.erase(open.begin() + static_cast<std::ptrdiff_t>(at));
    done = std::min(done, item.length);
    if (done > 0) std::memcpy(item.destination, item.source, done);
    ended_.push_back({item.tag, done, std::move(status)});
  }
  void FinishWell(size_t at) { Finish(at, open[at].length); }

  std::vector<CopyItem> open;  // in the order of their submission
  // What a test may lower while it runs: an engine that is busy with others.
  void set_depth(size_t depth) { depth_ = depth; }

 private:
  size_t depth_;
  std::vector<CopyCompletion> ended_;
};

}  // namespace pulse
