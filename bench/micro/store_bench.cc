// The store's metadata: operations per second, what a commit takes alone and with others, and
// opening a store with many files. The store is a sparse file in PULSE_BENCH_DIR, or the working
// directory; its latencies are those of that disk.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <string>
#include <vector>

#include "store/file_device.h"
#include "store/store.h"

namespace pulse::store {
namespace {

void Must(const absl::Status& status) {
  if (status.ok()) return;
  std::fprintf(stderr, "store_bench: %s\n", std::string(status.message()).c_str());
  std::exit(1);
}

// A store of its own, which goes away with the object.
class Scratch {
 public:
  explicit Scratch(uint64_t files) {
    const char* dir = std::getenv("PULSE_BENCH_DIR");
    path_ = std::string(dir == nullptr ? "." : dir) + "/store-bench-" + std::to_string(getpid());
    CreateOptions options;
    options.segment_bytes = 4096;
    // A segment for each file, and room for their names.
    options.metadata_bytes = files * 400 + (uint64_t{8} << 20);
    options.size = options.metadata_bytes + files * 4096 + (uint64_t{8} << 20);
    const int fd = open(path_.c_str(), O_CREAT | O_TRUNC | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || ftruncate(fd, static_cast<off_t>(options.size)) != 0) {
      Must(absl::InternalError("no file " + path_));
    }
    close(fd);
    auto device = FileDevice::Open(path_, /*read_only=*/false);
    Must(device.status());
    Must(Format(**device, options));
  }
  Scratch(const Scratch&) = delete;
  Scratch& operator=(const Scratch&) = delete;
  ~Scratch() { unlink(path_.c_str()); }

  std::shared_ptr<Store> Open() const {
    auto store = Store::Open(path_);
    Must(store.status());
    return *std::move(store);
  }

 private:
  std::string path_;
};

std::string Name(int64_t i) { return "table-" + std::to_string(i) + ".sst"; }

void MakeFiles(Store& store, int64_t n) {
  Must(store.CreateDirectory("d"));
  for (int64_t i = 0; i < n; ++i) {
    const auto file = store.CreateFile("d", Name(i));
    Must(file.status());
    Must(store.Reserve(*file, 4096));
    Must(store.Wrote(*file, 0, 4000));
  }
  Must(store.Commit());
}

// A file's whole life, without waiting for the disk.
void BM_CreateReserveWriteUnlink(benchmark::State& state) {
  const Scratch scratch(10'000);
  const auto store = scratch.Open();
  Must(store->CreateDirectory("d"));
  int64_t i = 0;
  for (auto _ : state) {
    const std::string name = Name(++i);
    const auto file = store->CreateFile("d", name);
    Must(file.status());
    Must(store->Reserve(*file, 4096));
    Must(store->Wrote(*file, 0, 4000));
    Must(store->Unlink("d", name));
  }
  state.SetItemsProcessed(4 * state.iterations());
}
BENCHMARK(BM_CreateReserveWriteUnlink);

void BM_LookupAndMap(benchmark::State& state) {
  const Scratch scratch(10'000);
  const auto store = scratch.Open();
  MakeFiles(*store, 10'000);
  std::vector<Extent> extents;
  int64_t i = 0;
  for (auto _ : state) {
    const auto file = store->Lookup("d", Name(i = (i + 7919) % 10'000));
    extents.clear();
    Must(store->MapRead(*file, 0, 4096, &extents));
    benchmark::DoNotOptimize(extents.data());
  }
  state.SetItemsProcessed(2 * state.iterations());
}
BENCHMARK(BM_LookupAndMap);

// One change and its commit, by each of some threads.
void BM_Commit(benchmark::State& state) {
  static std::unique_ptr<Scratch> scratch;
  static std::shared_ptr<Store> store;
  if (state.thread_index() == 0) {
    scratch = std::make_unique<Scratch>(100'000);
    store = scratch->Open();
    Must(store->CreateDirectory("d"));
  }
  int64_t i = 0;
  const std::string prefix = std::to_string(state.thread_index()) + "-";
  for (auto _ : state) {
    const std::string name = prefix + std::to_string(++i);
    Must(store->CreateFile("d", name).status());
    Must(store->Commit());
    if (i > 100) Must(store->Unlink("d", prefix + std::to_string(i - 100)));
  }
  state.SetItemsProcessed(state.iterations());
  if (state.thread_index() == 0) {
    const Usage usage = store->usage();
    state.counters["commits_per_batch"] =
        usage.batches == 0
            ? 0
            : static_cast<double>(usage.commits) / static_cast<double>(usage.batches);
    store.reset();
    scratch.reset();
  }
}
BENCHMARK(BM_Commit)->Threads(1)->Threads(8)->UseRealTime()->Unit(benchmark::kMicrosecond);

// Many files, durable; time per store, not per file.
void BM_CreateManyFiles(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    auto scratch = std::make_unique<Scratch>(state.range(0));
    auto store = scratch->Open();
    state.ResumeTiming();
    MakeFiles(*store, state.range(0));
    state.PauseTiming();
    store.reset();
    scratch.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.range(0) * state.iterations());
}

void BM_ListManyFiles(benchmark::State& state) {
  const Scratch scratch(state.range(0));
  const auto store = scratch.Open();
  MakeFiles(*store, state.range(0));
  for (auto _ : state) {
    const auto list = store->List("d");
    Must(list.status());
    benchmark::DoNotOptimize(list->data());
  }
  state.SetItemsProcessed(state.range(0) * state.iterations());
}

void BM_UnlinkManyFiles(benchmark::State& state) {
  for (auto _ : state) {
    state.PauseTiming();
    auto scratch = std::make_unique<Scratch>(state.range(0));
    auto store = scratch->Open();
    MakeFiles(*store, state.range(0));
    state.ResumeTiming();
    for (int64_t i = 0; i < state.range(0); ++i) Must(store->Unlink("d", Name(i)));
    Must(store->Commit());
    state.PauseTiming();
    store.reset();
    scratch.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.range(0) * state.iterations());
}

// Opening: reading the checkpoint and replaying what the journal has after it.
void BM_RecoverManyFiles(benchmark::State& state) {
  const Scratch scratch(state.range(0));
  MakeFiles(*scratch.Open(), state.range(0));
  for (auto _ : state) {
    auto store = scratch.Open();
    state.PauseTiming();
    if (store->usage().files != static_cast<uint64_t>(state.range(0))) {
      Must(absl::InternalError("files were lost"));
    }
    store.reset();
    state.ResumeTiming();
  }
  state.SetItemsProcessed(state.range(0) * state.iterations());
}

void Sizes(benchmark::internal::Benchmark* b) {
  b->Arg(10'000)->Arg(1'000'000)->Iterations(1)->UseRealTime()->Unit(benchmark::kMillisecond);
}
BENCHMARK(BM_CreateManyFiles)->Apply(Sizes);
BENCHMARK(BM_ListManyFiles)->Apply(Sizes);
BENCHMARK(BM_UnlinkManyFiles)->Apply(Sizes);
BENCHMARK(BM_RecoverManyFiles)->Apply(Sizes);

}  // namespace
}  // namespace pulse::store
