// The I/O engines and their rivals side by side on FileEngine: direct writes of 1 MiB at a depth of
// four, ending in one sync_close a file of 16 MiB. Works in the current directory, which should be
// on a real disk.
#include <benchmark/benchmark.h>
#include <fcntl.h>
#include <unistd.h>

#include <string>

#include "bench/rivals/engines.h"
#include "channel/region.h"
#include "uring/file_engine.h"

namespace pulse {
namespace {

constexpr uint64_t kWrite = uint64_t{1} << 20;
constexpr uint64_t kFile = 16 * kWrite;

class Counter : public FileEngine::Client {
 public:
  void OnIoComplete(uint64_t, int64_t result) override {
    ++done;
    if (result < 0) error = result;
  }
  size_t done = 0;
  int64_t error = 0;
};

template <typename Create>
void BM_PersistFile(benchmark::State& state, Create create) {
  auto backend = create(IoBackendOptions{});
  if (!backend.ok()) {
    state.SkipWithError("engine not available here");
    return;
  }
  FileEngine engine(*std::move(backend));
  Region buffer = *Region::CreatePrivate(4 * kWrite);
  buffer.Populate();
  const int index = engine.backend().RegisterBuffer(buffer.data(), buffer.size());
  const std::string path = "engine_bench.tmp";
  for (auto _ : state) {
    int flags = O_CREAT | O_TRUNC | O_WRONLY | O_CLOEXEC;
    UniqueFd fd(open(path.c_str(), flags | O_DIRECT, 0644));
    if (!fd.valid()) fd.reset(open(path.c_str(), flags, 0644));
    if (!fd.valid()) {
      state.SkipWithError("cannot create engine_bench.tmp in the current directory");
      return;
    }
    Counter counter;
    FileEngine::File* f = engine.Open(std::move(fd), &counter, true);
    engine.Fallocate(f, kFile, 0);
    size_t issued = 1;
    for (uint64_t offset = 0; offset < kFile; offset += kWrite) {
      while (issued - counter.done >= 4) engine.Poll();
      engine.Write(f, buffer.data() + offset % buffer.size(), index, kWrite, offset, 0);
      ++issued;
    }
    engine.SyncClose(f, kFile, 0);
    ++issued;
    while (counter.done < issued) engine.Poll();
    if (counter.error != 0) state.SkipWithError("an operation failed");
  }
  const auto* polled = dynamic_cast<const rivals::PollBackend*>(&engine.backend());
  if (polled != nullptr && !polled->polling()) {
    state.SkipWithError("the engine fell back to another one");
  }
  engine.backend().UnregisterBuffer(index);
  unlink(path.c_str());
  state.SetBytesProcessed(state.iterations() * static_cast<int64_t>(kFile));
}
BENCHMARK_CAPTURE(BM_PersistFile, io_uring, CreateUringBackend)->UseRealTime();
BENCHMARK_CAPTURE(BM_PersistFile, io_uring_poll, rivals::CreatePollBackend)->UseRealTime();
BENCHMARK_CAPTURE(BM_PersistFile, libaio, rivals::CreateAioBackend)->UseRealTime();
BENCHMARK_CAPTURE(BM_PersistFile, threads, CreateThreadBackend)->UseRealTime();

}  // namespace
}  // namespace pulse
