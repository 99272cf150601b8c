#include "services/ops/virtual_engine.h"

#include <algorithm>
#include <bit>
#include <chrono>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"

namespace pulse::ops {

namespace {

EngineTraits Pipeline(EngineTraits traits) {
  traits.pipeline = true;
  return traits;
}

}  // namespace

VirtualEngine::VirtualEngine(EngineTraits traits, const Price& price, Replay replay)
    : Engine(Pipeline(std::move(traits))), price_(price), replay_(std::move(replay)) {}

VirtualEngine::Tasks VirtualEngine::TasksFor(uint64_t input, uint64_t output) const {
  const uint64_t most = price_.largest_buffer;
  const uint64_t larger = std::max<uint64_t>({input, output, 1});
  if (larger <= most) return {1, 0, larger, larger};
  if (price_.too_large == TooLarge::kRefuse) return {};
  Tasks tasks;
  tasks.size = most;
  // The input in as many pieces as it takes to fit; their outputs are taken to be alike.
  uint64_t pieces = (std::max<uint64_t>(input, 1) + most - 1) / most;
  while ((output + pieces - 1) / pieces > most) {
    // The first one runs until its output is full, and all are tried smaller.
    tasks.bytes += most;
    ++tasks.retried;
    pieces *= 2;
  }
  tasks.count = pieces;
  tasks.bytes += larger;
  return tasks;
}

int64_t VirtualEngine::ContextNanos(uint64_t size) const {
  if (!made_) return price_.setup_nanos;
  const bool fits = price_.setting == Setting::kStatic || context_ == size ||
                    (price_.setting == Setting::kKept && size < context_);
  return fits ? 0 : price_.reconfigure_nanos;
}

int64_t VirtualEngine::NanosBefore(uint64_t bytes) const {
  const std::lock_guard lock(mutex_);
  // A context that another lane's chunk has asked for is not there yet.
  return std::max<int64_t>(0, ready_at_ - NowNanos()) +
         ContextNanos(std::min<uint64_t>(std::max<uint64_t>(bytes, 1), price_.largest_buffer));
}

absl::Status VirtualEngine::Process(int lane, const Chunk& chunk, Result& result) {
  // What handing the result out takes is part of the price, not added to it.
  const int64_t now = NowNanos();
  PULSE_RETURN_IF_ERROR(replay_(chunk, result));
  std::unique_lock lock(mutex_);
  const Tasks tasks = TasksFor(chunk.size(), result.payload().size());
  if (tasks.count == 0) {
    ++counters_.refused;
    return absl::UnimplementedError(absl::StrCat(traits().name, " has buffers of ",
                                                 price_.largest_buffer, " bytes; chunk ",
                                                 chunk.number, " needs larger ones"));
  }
  const int64_t context = ContextNanos(tasks.size);
  if (context > 0 && made_) ++counters_.reconfigured;
  made_ = true;
  if (price_.setting != Setting::kKept) {
    context_ = tasks.size;
  } else if (tasks.size > context_) {
    // With room for what does not become smaller.
    context_ = std::bit_ceil(tasks.size + tasks.size / 16);
  }
  const auto work =
      static_cast<int64_t>(static_cast<double>(tasks.bytes) / price_.bytes_per_second * 1e9);
  // Tasks of one chunk follow each other: a piece's latency is hidden by the one before it.
  const int64_t begin = std::max(free_at_, now) + context;
  if (context > 0) ready_at_ = begin;
  free_at_ = begin + work;
  const int64_t done = free_at_ + price_.latency_nanos;
  counters_.tasks += tasks.count + tasks.retried;
  counters_.retried += tasks.retried;
  if (tasks.count > 1) ++counters_.split;
  counters_.setup_nanos += context;
  counters_.work_nanos += work;
  result.before_nanos = context > 0 ? context : std::max<int64_t>(0, ready_at_ - now);
  for (int64_t left = done - now; left > 0 && !interrupted_; left = done - NowNanos()) {
    wake_.wait_for(lock, std::chrono::nanoseconds(left));
  }
  return interrupted_ ? absl::CancelledError("interrupted") : absl::OkStatus();
}

void VirtualEngine::Begin() {
  const std::lock_guard lock(mutex_);
  interrupted_ = false;
}

void VirtualEngine::Interrupt() {
  {
    const std::lock_guard lock(mutex_);
    interrupted_ = true;
  }
  wake_.notify_all();
}

VirtualEngine::Counters VirtualEngine::counters() const {
  const std::lock_guard lock(mutex_);
  return counters_;
}

}  // namespace pulse::ops
