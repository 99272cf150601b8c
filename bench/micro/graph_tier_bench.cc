// What a second memory tier for sorted runs would cost and save. A run is a mapped file; a reader
// wants a list of 256 bytes somewhere in a chunk that its page tables do not have. Where the chunk
// is, decides: in the page cache (what the store does today); on the device, which is a miss of the
// page cache; in a tier, from which it is moved by a copy plan to a slot in DRAM, which is then
// mapped over the file's pages, so that readers go on with the same addresses; or in a tier that is
// mapped there without a move. The tier is a stand-in: an arena of the same DRAM, whose moves a
// simulated copy engine prices (/1, 16.25 GB/s) or the caller does (/0). Times are of one access;
// `cpu_us` is what this thread had to do.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <sys/mman.h>
#include <unistd.h>

#include <cstdio>
#include <cstdlib>
#include <memory>
#include <random>
#include <string>

#include "base/clock.h"
#include "base/unique_fd.h"
#include "mover/copy_engine.h"
#include "services/graph/runs/copy_plan.h"
#include "vdpu/sim_copy_engine.h"

namespace pulse::graph {
namespace {

constexpr size_t kFile = size_t{256} << 20;
constexpr size_t kList = 256;

template <typename T>
T Must(absl::StatusOr<T> value) {
  if (value.ok()) return *std::move(value);
  std::fprintf(stderr, "graph_tier_bench: %s\n", std::string(value.status().message()).c_str());
  std::exit(1);
}
void Must(bool good, const char* what) {
  if (good) return;
  std::perror(what);
  std::exit(1);
}

char* Map(int fd, size_t bytes, int protection, void* at = nullptr, size_t offset = 0) {
  void* mapped = mmap(at, bytes, protection, MAP_SHARED | (at == nullptr ? 0 : MAP_FIXED), fd,
                      static_cast<off_t>(offset));
  Must(mapped != MAP_FAILED, "mmap");
  return static_cast<char*>(mapped);
}

// A file, a tier with the same bytes, and a slot in DRAM for what comes from it.
struct Place {
  UniqueFd file, tier, slot;
  char* run;    // the file, mapped as a run is
  char* arena;  // the tier
  char* frame;  // the slot

  Place() {
    const char* folder = std::getenv("PULSE_BENCH_DIR");
    std::string path = std::string(folder == nullptr ? "/var/tmp" : folder) + "/tier_XXXXXX";
    file = UniqueFd(mkstemp(path.data()));
    Must(file.valid(), path.c_str());
    unlink(path.c_str());
    tier = UniqueFd(memfd_create("tier", 0));
    slot = UniqueFd(memfd_create("slot", 0));
    Must(ftruncate(tier.get(), kFile) == 0, "ftruncate");
    Must(ftruncate(slot.get(), size_t{1} << 20) == 0, "ftruncate");
    arena = Map(tier.get(), kFile, PROT_READ | PROT_WRITE);
    frame = Map(slot.get(), size_t{1} << 20, PROT_READ | PROT_WRITE);
    std::mt19937_64 random(1);
    for (size_t i = 0; i < kFile; i += sizeof(uint64_t)) {
      *reinterpret_cast<uint64_t*>(arena + i) = random();
    }
    for (size_t done = 0; done < kFile;) {
      const ssize_t n = write(file.get(), arena + done, kFile - done);
      Must(n > 0, "write");
      done += static_cast<size_t>(n);
    }
    Must(fdatasync(file.get()) == 0, "fdatasync");
    run = Map(file.get(), kFile, PROT_READ);
    std::fill(frame, frame + (size_t{1} << 20), 1);
  }
};

Place& ThePlace() {
  static Place place;
  return place;
}

// The loop of all: prepare(chunk) is not timed, reach(chunk) and the list's bytes are.
template <typename Prepare, typename Reach>
void Accesses(benchmark::State& state, const Prepare& prepare, const Reach& reach) {
  Place& place = ThePlace();
  const auto chunk_bytes = static_cast<size_t>(state.range(0)) << 10;
  std::mt19937_64 random(7);
  int64_t cpu = 0;
  for (auto _ : state) {
    const size_t at = random() % (kFile / chunk_bytes) * chunk_bytes;
    const size_t list = random() % (chunk_bytes / kList) * kList;
    prepare(at, chunk_bytes);
    const int64_t began = NowNanos(), cpu_began = ThreadCpuNanos();
    reach(at, chunk_bytes);
    uint64_t sum = 0;
    for (size_t i = 0; i < kList; i += sizeof(uint64_t)) {
      sum += *reinterpret_cast<volatile const uint64_t*>(place.run + at + list + i);
    }
    benchmark::DoNotOptimize(sum);
    cpu += ThreadCpuNanos() - cpu_began;
    state.SetIterationTime(static_cast<double>(NowNanos() - began) * 1e-9);
    Must(
        std::equal(place.arena + at + list, place.arena + at + list + kList, place.run + at + list),
        "other bytes");
  }
  state.counters["cpu_us"] =
      static_cast<double>(cpu) * 1e-3 / static_cast<double>(state.iterations());
  Map(place.file.get(), kFile, PROT_READ, place.run);
}

// The file again, without entries of the page tables.
void Unmapped(size_t at, size_t bytes) {
  Place& place = ThePlace();
  Map(place.file.get(), bytes, PROT_READ, place.run + at, at);
}

void BM_InThePageCache(benchmark::State& state) {
  Accesses(
      state,
      [](size_t at, size_t bytes) {
        Place& place = ThePlace();
        Must(readahead(place.file.get(), static_cast<off_t>(at), bytes) == 0, "readahead");
        // Waits until it is there.
        std::string there(bytes, 0);
        Must(pread(place.file.get(), there.data(), bytes, static_cast<off_t>(at)) > 0, "pread");
        Unmapped(at, bytes);
      },
      [](size_t, size_t) {});
}

// What the kernel reads around a page that misses: as the device is set (/0), or that page (/1).
void Advise(benchmark::State& state) {
  const int advice = state.range(1) == 0 ? MADV_NORMAL : MADV_RANDOM;
  Must(madvise(ThePlace().run, kFile, advice) == 0, "madvise");
}

void BM_OnTheDevice(benchmark::State& state) {
  Accesses(
      state,
      [&state](size_t, size_t) {
        // All of it: what is mapped around a page, and what shares a large folio with it, stays.
        Unmapped(0, kFile);
        Advise(state);
        Must(posix_fadvise(ThePlace().file.get(), 0, 0, POSIX_FADV_DONTNEED) == 0, "posix_fadvise");
      },
      [](size_t, size_t) {});
}

// Pages stay, but for what the process's memory has no room for: it has to be bounded from outside,
// to what the tier takes here and a part of the file (a memory cgroup).
void BM_WithinALimit(benchmark::State& state) {
  Advise(state);
  Accesses(
      state, [](size_t, size_t) {}, [](size_t, size_t) {});
}

// Copied to DRAM, and mapped over the file's pages.
void BM_MovedFromTheTier(benchmark::State& state) {
  const auto engine =
      state.range(1) == 0 ? Must(CreateInlineCopyEngine({})) : Must(vdpu::CreateSimCopyEngine({}));
  Accesses(state, Unmapped, [&](size_t at, size_t bytes) {
    Place& place = ThePlace();
    CopyPlan plan;
    plan.Add(place.arena + at, place.frame, bytes);
    PlanExecutor executor(engine.get());
    executor.Start(plan);
    Must(executor.Wait().ok(), "copy");
    Map(place.slot.get(), bytes, PROT_READ, place.run + at);
  });
}

// Read where it is: what the kernel's own tiering does with pages of a slower node, too.
void BM_MappedFromTheTier(benchmark::State& state) {
  Accesses(state, Unmapped, [](size_t at, size_t bytes) {
    Map(ThePlace().tier.get(), bytes, PROT_READ, ThePlace().run + at, at);
  });
}

void Sizes(benchmark::internal::Benchmark* b) { b->Arg(4)->Arg(64)->Arg(1024)->UseManualTime(); }
void SizesAndEngines(benchmark::internal::Benchmark* b) {
  b->ArgsProduct({{4, 64, 1024}, {0, 1}})->UseManualTime();
}

BENCHMARK(BM_InThePageCache)->Apply(Sizes)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_OnTheDevice)
    ->Args({4, 0})
    ->Args({4, 1})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_WithinALimit)
    ->Args({4, 0})
    ->Args({4, 1})
    ->UseManualTime()
    ->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_MovedFromTheTier)->Apply(SizesAndEngines)->Unit(benchmark::kMicrosecond);
BENCHMARK(BM_MappedFromTheTier)->Apply(Sizes)->Unit(benchmark::kMicrosecond);

}  // namespace
}  // namespace pulse::graph
