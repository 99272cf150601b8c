// The cache table of offloaded reads: one writer; readers, also beside a writer. DDS section 8.5.
#include <benchmark/benchmark.h>

#include <atomic>
#include <memory>
#include <mutex>
#include <thread>

#include "services/offload/cache_table.h"

namespace pulse::offload {
namespace {

constexpr uint64_t kItems = uint64_t{1} << 20;

uint64_t KeyOf(uint64_t n) { return n * 0x9e3779b97f4a7c15 + 1; }

std::unique_ptr<CacheTable> NewTable(uint32_t item_size) {
  return CacheTable::Create({.key_size = 8, .item_size = item_size, .capacity = kItems}).value();
}

// Filled once, by whichever of a benchmark's threads is first: a table has one writer.
CacheTable* Filled(uint32_t item_size) {
  static std::mutex mu;
  static std::unique_ptr<CacheTable> tables[kMaxItemBytes + 1];
  std::lock_guard lock(mu);
  auto& table = tables[item_size];
  if (table == nullptr) {
    table = NewTable(item_size);
    const char item[kMaxItemBytes] = {};
    for (uint64_t i = 0; i < kItems; ++i) {
      const uint64_t key = KeyOf(i);
      table->Put(&key, item);
    }
  }
  return table.get();
}

// New keys, from empty to what it has room for.
void BM_Insert(benchmark::State& state) {
  const auto item_size = static_cast<uint32_t>(state.range(0));
  const char item[kMaxItemBytes] = {};
  std::unique_ptr<CacheTable> table;
  uint64_t i = kItems;
  for (auto _ : state) {
    if (i == kItems) {
      state.PauseTiming();
      table = NewTable(item_size);
      i = 0;
      // Its pages are there before: they are touched once in a table's life.
      for (uint64_t k = 0; k < kItems; ++k) {
        const uint64_t key = KeyOf(k);
        table->Put(&key, item);
      }
      for (uint64_t k = 0; k < kItems; ++k) {
        const uint64_t key = KeyOf(k);
        table->Erase(&key);
      }
      state.ResumeTiming();
    }
    const uint64_t key = KeyOf(i++);
    table->Put(&key, item);
  }
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Insert)->Arg(8)->Arg(24)->Arg(64)->ArgName("item");

void BM_Find(benchmark::State& state) {
  CacheTable* const table = Filled(static_cast<uint32_t>(state.range(0)));
  char item[kMaxItemBytes];
  uint64_t n = 0x853c49e6748fea9b + static_cast<uint64_t>(state.thread_index());
  uint64_t found = 0;
  for (auto _ : state) {
    n = n * 6364136223846793005 + 1442695040888963407;
    const uint64_t key = KeyOf((n >> 33) % kItems);
    found += table->Find(&key, item);
    benchmark::DoNotOptimize(item);
  }
  if (found == 0) state.SkipWithError("nothing found");
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_Find)->Arg(8)->Arg(24)->Arg(64)->ArgName("item")->UseRealTime();
BENCHMARK(BM_Find)->Arg(24)->ArgName("item")->Threads(2)->UseRealTime();

void BM_FindBesideWriter(benchmark::State& state) {
  CacheTable* const table = Filled(24);
  std::atomic<bool> stop{false};
  std::thread writer([&] {
    const char item[24] = {};
    for (uint64_t i = 0; !stop.load(std::memory_order_relaxed); ++i) {
      const uint64_t key = KeyOf(i % kItems);
      table->Put(&key, item);
    }
  });
  char item[24];
  uint64_t n = 1;
  for (auto _ : state) {
    n = n * 6364136223846793005 + 1442695040888963407;
    const uint64_t key = KeyOf((n >> 33) % kItems);
    benchmark::DoNotOptimize(table->Find(&key, item));
  }
  stop = true;
  writer.join();
  state.SetItemsProcessed(state.iterations());
}
BENCHMARK(BM_FindBesideWriter)->UseRealTime();

}  // namespace
}  // namespace pulse::offload
