#include "vdpu/sim_copy_engine.h"

#include <algorithm>
#include <random>
#include <utility>
#include <vector>

#include "base/clock.h"
#include "base/errors.h"
#include "mover/thread_copy_engine.h"
#include "vdpu/dma_link.h"

namespace pulse::vdpu {
namespace {

// A copy fails in the end: what an engine reports that has tried.
constexpr char kFault[] = "a page fault of the simulated copy engine";

class SimCopyEngine : public CopyEngine {
 public:
  SimCopyEngine(const SimCopyOptions& options, std::unique_ptr<CopyEngine> threads)
      : options_(options),
        link_([&] {
          Profile profile;
          profile.dma_bandwidth_gb_s = options.bandwidth_gb_s;
          profile.dma_latency_us = options.latency_us;
          profile.dma_operation_us = options.operation_us;
          return profile;
        }()),
        random_(options.seed),
        threads_(std::move(threads)),
        open_(options.depth) {
    for (size_t i = options.depth; i > 0; --i) free_.push_back(i - 1);
  }
  ~SimCopyEngine() override = default;  // the threads finish

  size_t Submit(const CopyItem* items, size_t n) override {
    n = std::min(n, free_.size());
    if (n > 0 && Happens(options_.full)) n = random_() % n;
    for (size_t i = 0; i < n; ++i) {
      const size_t slot = free_.back();
      free_.pop_back();
      Open& open = open_[slot];
      open = {};
      open.completion.tag = items[i].tag;
      CopyItem item = items[i];
      item.tag = slot;
      open.completion.status = CheckCopy(item);
      if (!open.completion.status.ok()) {
        item.length = 0;
      } else if (item.length > 0 && Happens(options_.failing)) {
        item.length = random_() % item.length;
        open.completion.status = absl::UnavailableError(kFault);
      } else if (item.length > 0 && Happens(options_.partial)) {
        item.length = random_() % item.length;
      }
      open.completion.done = item.length;
      open.due = link_.Book(NowNanos(), item.length);
      // As deep as this engine: it takes all.
      threads_->Submit(&item, 1);
    }
    return n;
  }

  size_t Poll(CopyCompletion* out, size_t max) override {
    CopyCompletion copied[kPoll];
    for (size_t n = kPoll; n == kPoll;) {
      n = threads_->Poll(copied, kPoll);
      for (size_t i = 0; i < n; ++i) waiting_.push_back(copied[i].tag);
    }
    const int64_t now = NowNanos();
    size_t given = 0;
    for (size_t i = 0; i < waiting_.size() && given < max;) {
      if (options_.reorder && waiting_.size() - i > 1) {
        std::swap(waiting_[i], waiting_[i + random_() % (waiting_.size() - i)]);
      }
      const size_t slot = waiting_[i];
      if (open_[slot].due > now) {
        ++i;
        continue;
      }
      out[given++] = std::move(open_[slot].completion);
      free_.push_back(slot);
      waiting_.erase(waiting_.begin() + static_cast<std::ptrdiff_t>(i));
    }
    return given;
  }
  size_t in_flight() const override { return open_.size() - free_.size(); }
  size_t depth() const override { return open_.size(); }

 private:
  static constexpr size_t kPoll = 32;
  struct Open {
    CopyCompletion completion;
    int64_t due = 0;
  };
  bool Happens(uint32_t of_thousand) { return of_thousand > 0 && random_() % 1000 < of_thousand; }

  const SimCopyOptions options_;
  DmaLink link_;
  std::mt19937_64 random_;
  std::unique_ptr<CopyEngine> threads_;
  std::vector<Open> open_;  // by slot
  std::vector<size_t> free_;
  std::vector<uint64_t> waiting_;  // slots whose bytes are there, and whose time has not come
};

}  // namespace

absl::StatusOr<std::unique_ptr<CopyEngine>> CreateSimCopyEngine(const SimCopyOptions& options) {
  if (!(options.bandwidth_gb_s > 0) || !(options.latency_us >= 0) || !(options.operation_us >= 0) ||
      options.depth == 0) {
    return absl::InvalidArgumentError(
        "a simulated copy engine needs a rate above 0, times of at least 0, and a depth of at "
        "least 1");
  }
  PULSE_ASSIGN_OR_RETURN(auto threads, CreateThreadCopyEngine({.depth = options.depth}));
  return std::make_unique<SimCopyEngine>(options, std::move(threads));
}

}  // namespace pulse::vdpu
