// The channel's costs: a ring entry within one thread and across two, a doorbell that finds nobody
// asleep, a wake-up, an arena copy by ordinary and by streaming stores, a
// mover's pull.
#include <benchmark/benchmark.h>
#include <poll.h>
#include <unistd.h>

#include <atomic>
#include <thread>
#include <vector>

#include "base/stream_copy.h"
#include "channel/doorbell.h"
#include "channel/queue_pair.h"
#include "channel/region.h"
#include "mover/mover.h"

namespace pulse {
namespace {

constexpr uint64_t kArena = uint64_t{32} << 20;

struct Pair {
  Region region = *Region::CreatePrivate(QueueRegionBytes(kArena));
  HostQueue host = *HostQueue::Init(region, 0, kArena);
  AgentQueue agent = *AgentQueue::Attach(region, kArena);
};

void BM_RingPushPop(benchmark::State& state) {
  Pair p;
  wire::Descriptor d{};
  for (auto _ : state) {
    p.host.TryPush(d);
    p.agent.TryPop(&d);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_RingPushPop);

// Host pushes, a second thread answers: one round trip an iteration.
void BM_RingRoundTrip(benchmark::State& state) {
  Pair p;
  std::atomic<bool> stop{false};
  std::thread agent([&] {
    wire::Descriptor d;
    while (!stop.load(std::memory_order_relaxed)) {
      if (p.agent.TryPop(&d)) p.agent.TryPush(wire::Completion{d.tag, 0, d.opcode, d.file, 0});
    }
  });
  wire::Descriptor d{};
  wire::Completion c;
  for (auto _ : state) {
    p.host.TryPush(d);
    while (!p.host.TryPop(&c)) {
    }
  }
  stop = true;
  agent.join();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_RingRoundTrip)->UseRealTime();

void BM_DoorbellAwake(benchmark::State& state) {
  std::atomic<uint32_t> flag{0};
  auto ends = *Doorbell::CreatePair();
  Doorbell bell(std::move(ends.ring), &flag);
  for (auto _ : state) bell.Ring();
}
BENCHMARK(BM_DoorbellAwake);

void BM_DoorbellWakeUp(benchmark::State& state) {
  std::atomic<uint32_t> flag{0};
  std::atomic<uint64_t> woken{0};
  std::atomic<bool> stop{false};
  auto ends = *Doorbell::CreatePair();
  Doorbell bell(std::move(ends.ring), &flag);
  Doorbell pillow(std::move(ends.sleep), &flag);
  std::thread sleeper([&] {
    while (!stop.load()) {
      pillow.PrepareSleep();
      pollfd p{pillow.fd(), POLLIN, 0};
      poll(&p, 1, -1);
      pillow.FinishSleep();
      woken.fetch_add(1);
    }
  });
  for (auto _ : state) {
    const uint64_t before = woken.load();
    while (flag.load() == 0) {
    }
    bell.Ring();
    while (woken.load() == before) {
    }
  }
  stop = true;
  bell.Kick();
  sleeper.join();
}
BENCHMARK(BM_DoorbellWakeUp)->UseRealTime();

// A 4 KiB block into a 32 MiB arena, as Append does.
template <void (*Copy)(char*, const char*, size_t)>
void BM_ArenaCopy(benchmark::State& state) {
  Region arena = *Region::CreatePrivate(kArena);
  arena.Populate();
  std::vector<char> block(4201, 'x');
  size_t at = 0;
  for (auto _ : state) {
    if (at + block.size() > kArena) at = 0;
    Copy(arena.data() + at, block.data(), block.size());
    at += block.size();
  }
  StreamFence();
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(block.size()));
}
void Plain(char* to, const char* from, size_t n) { std::memcpy(to, from, n); }
BENCHMARK(BM_ArenaCopy<Plain>);
BENCHMARK(BM_ArenaCopy<StreamCopy>);

void BM_VmReadPull(benchmark::State& state) {
  Region arena = *Region::CreatePrivate(kArena);
  arena.Populate();
  auto mover = Mover::CreateVmRead(getpid(), reinterpret_cast<uintptr_t>(arena.data()), kArena);
  if (!mover.ok()) {
    state.SkipWithError("process_vm_readv is not allowed here");
    return;
  }
  const uint64_t length = static_cast<uint64_t>(state.range(0));
  uint64_t at = 0;
  for (auto _ : state) {
    if (at + length > kArena) at = 0;
    if (!(*mover)->Pull(at, length).ok()) state.SkipWithError("pull failed");
    at += length;
  }
  state.SetBytesProcessed(state.iterations() * state.range(0));
}
BENCHMARK(BM_VmReadPull)->Arg(4 << 10)->Arg(256 << 10)->Arg(1 << 20);

}  // namespace
}  // namespace pulse
