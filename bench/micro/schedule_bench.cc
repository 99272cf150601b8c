// What classes are for: how long a flush's write of 1 MiB takes while a deep compaction keeps the
// device busy with writes of 1 MiB, 256 of them waiting or in flight at any time. With the flush in
// a class of its own; and, to compare, as one more request of the compaction, which is the order of
// arrival. Beside it the bandwidth of the compaction, and what it has alone. Works in the current
// directory, which should be on a real disk.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include "base/clock.h"
#include "channel/region.h"
#include "uring/file_engine.h"

namespace pulse {
namespace {

constexpr uint64_t kWrite = uint64_t{1} << 20;
constexpr uint64_t kFileWrites = 256;
constexpr size_t kBacklog = 256;
// A flush writes once for so many of the compaction's.
constexpr size_t kBetween = 32;
constexpr uint64_t kFlush = 1, kClosed = 2;

class Client : public FileEngine::Client {
 public:
  void OnIoComplete(uint64_t cookie, int64_t result) override {
    if (result < 0) error = result;
    if (cookie == kFlush) {
      flush_nanos += NowNanos() - flush_begun;
      flush_begun = 0;
    } else if (cookie != kClosed) {
      --deep_waiting;
      ++deep_done;
    }
  }
  size_t deep_waiting = 0;
  uint64_t deep_done = 0;
  int64_t flush_begun = 0;
  int64_t flush_nanos = 0;
  int64_t error = 0;
};

UniqueFd Scratch(const char* name) {
  const int flags = O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC;
  UniqueFd fd(open(name, flags | O_DIRECT, 0644));
  if (!fd.valid()) fd.reset(open(name, flags, 0644));
  if (fd.valid() && ftruncate(fd.get(), kFileWrites * kWrite) != 0) fd.reset();
  return fd;
}

void BM_FlushBesideCompaction(benchmark::State& state, bool flushes, bool classes) {
  auto backend = CreateIoBackend({});
  if (!backend.ok()) return state.SkipWithError("no engine");
  FileEngine engine(*std::move(backend));
  Region buffer = *Region::CreatePrivate(2 * kWrite);
  buffer.Populate();
  const int index = engine.backend().RegisterBuffer(buffer.data(), buffer.size());
  UniqueFd deep_fd = Scratch("schedule_bench.deep"), flush_fd = Scratch("schedule_bench.flush");
  if (!deep_fd.valid() || !flush_fd.valid()) {
    return state.SkipWithError("cannot create schedule_bench.* in the current directory");
  }
  Client client;
  IoOrigin compacting(engine.scheduler());
  IoOrigin flushing(engine.scheduler());
  FileEngine::File* deep =
      engine.Open(std::move(deep_fd), &client, true, true, &compacting, IoClass::kBackground);
  FileEngine::File* flush =
      classes ? engine.Open(std::move(flush_fd), &client, true, true, &flushing, IoClass::kCritical)
              : engine.Open(std::move(flush_fd), &client, true, true, &compacting,
                            IoClass::kBackground);
  uint64_t writes = 0, flushed = 0;
  const auto top_up = [&] {
    for (; client.deep_waiting < kBacklog; ++client.deep_waiting) {
      engine.Write(deep, buffer.data(), index, kWrite, writes++ % kFileWrites * kWrite, 0);
    }
  };
  top_up();
  for (auto _ : state) {  // one iteration: a flush's write, and as many of the compaction's
    const uint64_t until = client.deep_done + kBetween;
    if (flushes) {
      client.flush_begun = NowNanos();
      engine.Write(flush, buffer.data() + kWrite, index, kWrite, flushed++ % kFileWrites * kWrite,
                   kFlush);
    }
    while (client.flush_begun != 0 || client.deep_done < until) {
      engine.Poll();
      top_up();
    }
  }
  while (client.deep_waiting > 0) engine.Poll();
  engine.Discard(deep, kClosed);
  engine.Discard(flush, kClosed);
  while (!engine.idle()) engine.Poll();
  if (client.error != 0) state.SkipWithError("an operation failed");
  engine.backend().UnregisterBuffer(index);
  unlink("schedule_bench.deep");
  unlink("schedule_bench.flush");
  state.SetBytesProcessed(static_cast<int64_t>(client.deep_done * kWrite));
  if (flushes) {
    state.counters["flush_ms"] =
        static_cast<double>(client.flush_nanos) / 1e6 / static_cast<double>(state.iterations());
  }
}
BENCHMARK_CAPTURE(BM_FlushBesideCompaction, compaction_alone, false, true)->UseRealTime();
BENCHMARK_CAPTURE(BM_FlushBesideCompaction, order_of_arrival, true, false)->UseRealTime();
BENCHMARK_CAPTURE(BM_FlushBesideCompaction, classes, true, true)->UseRealTime();

// What the scheduler itself costs a request: one class, one origin, as with a lone compaction.
void BM_ScheduleOneClass(benchmark::State& state) {
  IoScheduler scheduler;
  IoOrigin origin(&scheduler);
  IoItem items[64];
  for (auto _ : state) {
    for (IoItem& item : items) scheduler.Push(&item, &origin, IoClass::kBackground, 4096);
    for (size_t n = 0; n < 64; ++n) scheduler.Start(scheduler.Next());
    for (IoItem& item : items) scheduler.Done(&item);
  }
  state.SetItemsProcessed(state.iterations() * 64);
}
BENCHMARK(BM_ScheduleOneClass);

}  // namespace
}  // namespace pulse
