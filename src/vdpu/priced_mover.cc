#include "vdpu/priced_mover.h"

#include <sys/prctl.h>

#include <algorithm>
#include <ctime>
#include <utility>

#include "base/clock.h"
#include "base/errors.h"
#include "vdpu/cpu_throttle.h"

namespace pulse::vdpu {
namespace {

// A sleep of less would take longer than it should.
constexpr int64_t kSpinNanos = 20'000;

void WaitUntil(int64_t when) {
  if (when == 0) return;
  const CpuThrottle::Exempt polling;
  // Once a thread: the kernel else lets sleeps end up to 50 us late.
  thread_local const int precise = prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);
  (void)precise;
  while (true) {
    const int64_t now = NowNanos();
    if (now >= when) return;
    if (when - now <= kSpinNanos) {
      CpuPause();
      continue;
    }
    const int64_t wake = when - kSpinNanos / 2;
    const timespec at{static_cast<time_t>(wake / 1'000'000'000),
                      static_cast<long>(wake % 1'000'000'000)};
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);  // interrupted: looks again
  }
}

class PricedMover : public Mover {
 public:
  PricedMover(std::unique_ptr<Mover> mover, DmaLink* link, int64_t setup_nanos, MoverClock clock)
      : mover_(std::move(mover)),
        link_(*link),
        clock_(std::move(clock)),
        open_at_(Now() + setup_nanos) {}

  char* local() const override { return mover_->local(); }
  size_t size() const override { return mover_->size(); }
  MoverKind kind() const override { return mover_->kind(); }

  absl::Status StartPull(uint64_t offset, uint64_t length, int64_t* there_at) override {
    *there_at = Book(length);
    return Copy([&] { return mover_->Pull(offset, length); });
  }
  absl::Status StartPush(uint64_t offset, uint64_t length, int64_t* there_at) override {
    *there_at = Book(length);
    return Copy([&] { return mover_->Push(offset, length); });
  }
  // What is pulled is as old as a DMA read's, and what is pushed appears no earlier than a write's.
  absl::Status Pull(uint64_t offset, uint64_t length) override {
    const int64_t there_at = Book(length);
    PULSE_RETURN_IF_ERROR(Copy([&] { return mover_->Pull(offset, length); }));
    Wait(there_at);
    return absl::OkStatus();
  }
  absl::Status Push(uint64_t offset, uint64_t length) override {
    Wait(Book(length));
    return Copy([&] { return mover_->Push(offset, length); });
  }
  absl::Status PullSpans(const MoverSpan* spans, size_t n) override {
    const int64_t there_at = Book(Total(spans, n));
    PULSE_RETURN_IF_ERROR(Copy([&] { return mover_->PullSpans(spans, n); }));
    Wait(there_at);
    return absl::OkStatus();
  }
  absl::Status PushSpans(const MoverSpan* spans, size_t n) override {
    Wait(Book(Total(spans, n)));
    return Copy([&] { return mover_->PushSpans(spans, n); });
  }

 private:
  static uint64_t Total(const MoverSpan* spans, size_t n) {
    uint64_t bytes = 0;
    for (size_t i = 0; i < n; ++i) bytes += spans[i].length;
    return bytes;
  }

  int64_t Now() const { return clock_.now == nullptr ? NowNanos() : clock_.now(); }
  void Wait(int64_t when) const {
    if (clock_.wait_until == nullptr) return WaitUntil(when);
    if (when != 0) clock_.wait_until(when);
  }

  // When a transfer of `bytes` that begins now is there; 0 for none.
  int64_t Book(uint64_t bytes) {
    if (bytes == 0) return 0;
    const int64_t there_at = link_.Book(Now(), bytes);
    return std::max(there_at, open_at_ + link_.Alone(bytes));
  }

  template <typename Call>
  static absl::Status Copy(const Call& call) {
    const CpuThrottle::Exempt engine;
    return call();
  }

  std::unique_ptr<Mover> mover_;
  DmaLink& link_;
  const MoverClock clock_;
  const int64_t open_at_;
};

}  // namespace

std::unique_ptr<Mover> CreatePricedMover(std::unique_ptr<Mover> mover, DmaLink* link,
                                         int64_t setup_nanos, MoverClock clock) {
  return std::make_unique<PricedMover>(std::move(mover), link, setup_nanos, std::move(clock));
}

}  // namespace pulse::vdpu
