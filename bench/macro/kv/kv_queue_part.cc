// `pulse bench kv --part queue`: the queue pair by itself, without a store: bytes and time by batch
// size, one core each side (Figure 8d of the DPU-KV paper); and what moves a transfer, by size, by
// who begins it and by how its end is learnt (Figure 9).
//
// Movers: the copy engine (within one memory), process_vm_readv and writev from either side, and
// the engines of the profiles. An engine of a profile has one latency, whoever begins: it is asked
// from the agent's core. What has no engine of its own is done when its call returns, so it cannot
// go on meanwhile, and nothing could send it an event.
#include <sys/mman.h>
#include <sys/prctl.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <atomic>
#include <cerrno>
#include <csignal>
#include <cstring>
#include <ctime>
#include <thread>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/histogram.h"
#include "base/prefetch.h"
#include "bench/macro/kv/kv_load.h"
#include "bench/macro/kv/packet.h"
#include "bench/macro/kv/priced_queue.h"
#include "mover/copy_engine.h"
#include "mover/mover.h"
#include "nlohmann/json.hpp"
#include "vdpu/dma_link.h"
#include "vdpu/priced_mover.h"

namespace pulse::bench {
namespace {

// The host's half: answers each request with its key. Returns the bytes of the transfer.
size_t Echo(const char* requests, char* responses) {
  kv::BatchHeader header;
  std::memcpy(&header, requests, sizeof(header));
  const size_t request_bytes = header.count * sizeof(kv::RequestDescriptor);
  const size_t response_bytes = header.count * sizeof(kv::ResponseDescriptor);
  for (size_t at = 0; at < request_bytes; at += 64) __builtin_prefetch(requests + at);
  for (size_t at = 0; at < response_bytes; at += 64) PrefetchToWrite(responses + at);
  for (size_t i = 0; i < header.count; ++i) {
    kv::RequestDescriptor request;
    std::memcpy(&request, requests + sizeof(header) + i * sizeof(request), sizeof(request));
    kv::ResponseDescriptor response{};
    response.flags = kv::kInline;
    if (request.op == kv::WireOp::kGet) {
      response.value = request.key;
      response.value_size = 8;
    }
    std::memcpy(responses + sizeof(header) + i * sizeof(response), &response, sizeof(response));
  }
  std::memcpy(responses, &header, sizeof(header));
  return sizeof(header) + response_bytes;
}

struct QueueRun {
  uint64_t requests = 0;
  uint64_t wrong = 0;
  uint64_t batches = 0;
  uint64_t request_bytes = 0;
  uint64_t response_bytes = 0;
  double seconds = 0;
  Histogram round;  // of a batch, when one is under way
};

// Batches of shape.batch; `most` of them under way.
QueueRun RunQueue(const KvShape& shape, uint64_t most) {
  vdpu::DmaLink link(shape.profile);
  PricedQueue queue({}, shape.profile.name.empty() ? nullptr : &link);
  QueueRun run;
  std::atomic<bool> stop{false};
  std::atomic<bool> answered{false};
  std::atomic<uint64_t> response_bytes{0};
  std::thread host([&] {
    // A CPU that this process may not use: the figures would say so by themselves.
    SetThreadAffinity({shape.host_cpus.at(0)}).IgnoreError();
    uint64_t bytes = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      const char* requests = queue.PeekRequests();
      if (requests == nullptr) continue;
      const size_t answer = Echo(requests, queue.ResponseBufferOfOldest());
      queue.Answer(answer);
      bytes += answer;
    }
    response_bytes.store(bytes);
  });
  std::thread agent([&] {
    SetThreadAffinity({shape.agent_cpus.at(0)}).IgnoreError();
    const std::array<char, 8> value{};
    const bool set = shape.set_share > 0;
    std::array<int64_t, 4> begun{};
    uint64_t next = 0;
    uint64_t done = 0;
    uint64_t key = 0;
    uint64_t expected = 0;
    while (!stop.load(std::memory_order_relaxed)) {
      if (const char* responses = queue.PeekResponses(); responses != nullptr) {
        const kv::ResponseReader reader(responses, queue.options().buffer_bytes);
        for (size_t i = 0; i < shape.batch; ++i, ++expected) {
          kv::ResponseDescriptor descriptor;
          std::string_view answer;
          const bool right =
              reader.Read(i, &descriptor, &answer) &&
              (set ? answer.empty()
                   : answer.size() == 8 && std::memcmp(answer.data(), &expected, 8) == 0);
          run.wrong += right ? 0 : 1;
        }
        queue.TakeResponses();
        if (most == 1) run.round.Record(static_cast<uint64_t>(NowNanos() - begun[done % 4]));
        if (done++ == 0) answered.store(true, std::memory_order_relaxed);
        run.requests += shape.batch;
      } else if (next - done < most && queue.HasRoom()) {
        begun[next++ % 4] = most == 1 ? NowNanos() : 0;
        kv::RequestWriter writer = queue.BeginRequests();
        for (size_t i = 0; i < shape.batch; ++i, ++key) {
          writer.Add(set ? kv::WireOp::kSet : kv::WireOp::kGet,
                     {reinterpret_cast<const char*>(&key), 8}, key * 0x9e3779b97f4a7c15,
                     {value.data(), set ? value.size() : 0}, 0);
        }
        const size_t bytes = writer.Finish();
        run.request_bytes += bytes;
        ++run.batches;
        queue.Submit(bytes);
      }
    }
  });
  const int64_t begin = NowNanos();
  std::this_thread::sleep_for(
      std::chrono::nanoseconds(static_cast<int64_t>(shape.seconds / 2 * 1e9)));
  // In a short run on a busy machine the two may not have met yet.
  while (!answered.load(std::memory_order_relaxed)) {
    std::this_thread::sleep_for(std::chrono::milliseconds(1));
  }
  stop.store(true);
  run.seconds = static_cast<double>(NowNanos() - begin) / 1e9;
  agent.join();
  host.join();
  run.response_bytes = response_bytes.load();
  return run;
}

double Saved(double bytes, size_t packet) {
  return 100 * (1 - bytes / static_cast<double>(packet));
}

constexpr size_t kSizes[] = {2, 64, 256, 1024, 2049, 8193, 65536};
constexpr size_t kArena = size_t{1} << 20;

// A process that does nothing but have memory.
class Peer {
 public:
  Peer() = default;
  Peer(const Peer&) = delete;
  Peer& operator=(const Peer&) = delete;
  ~Peer() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
  }
  absl::Status Start() {
    const pid_t parent = getpid();
    pid_ = fork();
    if (pid_ < 0) return ErrnoError(errno, "forking", "the other side's process");
    if (pid_ > 0) return absl::OkStatus();
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    while (getppid() == parent) pause();
    _exit(0);
  }
  pid_t pid() const { return pid_; }

 private:
  pid_t pid_ = -1;
};

void SleepUntil(int64_t when) {
  const timespec at{static_cast<time_t>(when / 1'000'000'000),
                    static_cast<long>(when % 1'000'000'000)};
  while (NowNanos() < when) {
    clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &at, nullptr);
  }
}

// How often each size is moved: the paper's 5000 times; fewer where one takes long.
constexpr int kMoves = 5000;

// Nanoseconds of each by `mover`, which waits until it is there.
absl::StatusOr<double> TimePolling(Mover* mover, bool write, size_t size, int moves) {
  const int64_t begin = NowNanos();
  for (int i = 0; i < moves; ++i) {
    PULSE_RETURN_IF_ERROR(write ? mover->Push(0, size) : mover->Pull(0, size));
  }
  return static_cast<double>(NowNanos() - begin) / moves;
}

// ... with the thread asleep until it is.
absl::StatusOr<double> TimeEvents(Mover* mover, bool write, size_t size, int moves) {
  const int64_t begin = NowNanos();
  for (int i = 0; i < moves; ++i) {
    int64_t there_at = 0;
    PULSE_RETURN_IF_ERROR(write ? mover->StartPush(0, size, &there_at)
                                : mover->StartPull(0, size, &there_at));
    SleepUntil(there_at);
  }
  return static_cast<double>(NowNanos() - begin) / moves;
}

// ... one after the other without waiting, but for the last ones.
absl::StatusOr<double> TimeNonBlocking(Mover* mover, bool write, size_t size, int moves) {
  const int64_t begin = NowNanos();
  int64_t last = 0;
  for (int i = 0; i < moves; ++i) {
    int64_t there_at = 0;
    PULSE_RETURN_IF_ERROR(write ? mover->StartPush(0, size, &there_at)
                                : mover->StartPull(0, size, &there_at));
    last = std::max(last, there_at);
  }
  while (NowNanos() < last) CpuPause();
  return static_cast<double>(NowNanos() - begin) / moves;
}

absl::StatusOr<double> TimeCopies(char* from, char* to, size_t size, int moves, size_t depth) {
  PULSE_ASSIGN_OR_RETURN(auto engine, CreateInlineCopyEngine({.depth = depth}));
  std::array<CopyCompletion, 64> done;
  const int64_t begin = NowNanos();
  for (int submitted = 0, polled = 0; polled < moves;) {
    while (submitted < moves && engine->in_flight() < depth) {
      const CopyItem item{from, to, size, 0};
      submitted += static_cast<int>(engine->Submit(&item, 1));
    }
    const size_t n = engine->Poll(done.data(), done.size());
    for (size_t i = 0; i < n; ++i) PULSE_RETURN_IF_ERROR(done[i].status);
    polled += static_cast<int>(n);
  }
  return static_cast<double>(NowNanos() - begin) / moves;
}

}  // namespace

absl::StatusOr<nlohmann::json> RunKvQueueBatches(const KvShape& shape) {
  const QueueRun flood = RunQueue(shape, 4);
  const QueueRun single = RunQueue(shape, 1);
  if (flood.wrong + single.wrong > 0) {
    return absl::InternalError(absl::StrCat(flood.wrong + single.wrong, " responses were wrong"));
  }
  // The host's last answers may not have been taken when all stopped: bytes are of what was sent.
  const auto requests =
      std::max<double>(1, static_cast<double>(flood.batches) * static_cast<double>(shape.batch));
  const double request = static_cast<double>(flood.request_bytes) / requests;
  const double response =
      sizeof(kv::ResponseDescriptor) + sizeof(kv::BatchHeader) / static_cast<double>(shape.batch);
  const bool set = shape.set_share > 0;
  const size_t packet_in = sizeof(PacketHead) + 8 + (set ? 8 : 0);
  const size_t packet_out = sizeof(PacketHead) + (set ? 0 : 8);
  return nlohmann::json{
      {"ops_per_s", static_cast<double>(flood.requests) / flood.seconds},
      {"round_us", static_cast<double>(single.round.ValueAtPercentile(50)) / 1e3},
      {"round_p99_us", static_cast<double>(single.round.ValueAtPercentile(99)) / 1e3},
      {"request_bytes", request},
      {"response_bytes", response},
      {"packet_request_bytes", packet_in},
      {"packet_response_bytes", packet_out},
      {"saved_request_percent", Saved(request, packet_in)},
      {"saved_response_percent", Saved(response, packet_out)}};
}

absl::StatusOr<nlohmann::json> RunKvQueueMovers(const KvShape& shape) {
  // "MOVER-HOW": copy, vmread (from either side), bf2, bf3; polling, event, nonblocking.
  const std::string& name = shape.design;
  const size_t dash = name.rfind('-');
  const std::string mover_name = name.substr(0, dash);
  const std::string how = name.substr(dash + 1);
  const bool write = shape.set_share > 0;
  void* arena =
      mmap(nullptr, 2 * kArena, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
  if (arena == MAP_FAILED) return ErrnoError(errno, "mapping", "memory to move");
  char* const bytes = static_cast<char*>(arena);
  std::memset(bytes, 'a', 2 * kArena);
  Peer peer;
  std::unique_ptr<Mover> mover;
  std::unique_ptr<vdpu::DmaLink> link;
  if (mover_name == "vmread-agent" || mover_name == "vmread-host") {
    PULSE_RETURN_IF_ERROR(peer.Start());
    PULSE_ASSIGN_OR_RETURN(
        mover, Mover::CreateVmRead(peer.pid(), reinterpret_cast<uint64_t>(bytes), kArena));
  } else if (mover_name != "copy") {
    PULSE_ASSIGN_OR_RETURN(const vdpu::Profile profile, vdpu::LoadProfile(mover_name));
    link = std::make_unique<vdpu::DmaLink>(profile);
    mover = vdpu::CreatePricedMover(Mover::CreateShared(bytes, kArena), link.get(), 0);
  }
  PULSE_RETURN_IF_ERROR(
      SetThreadAffinity(mover_name == "vmread-host" ? shape.host_cpus : shape.agent_cpus));
  prctl(PR_SET_TIMERSLACK, 1, 0, 0, 0);  // else sleeps end up to 50 us late
  nlohmann::json result = nlohmann::json::object();
  for (const size_t size : kSizes) {
    const int moves = shape.seconds < 0.1 ? 100 : kMoves;
    char* const from = write ? bytes : bytes + kArena;
    char* const to = write ? bytes + kArena : bytes;
    for (const bool warm_up : {true, false}) {
      const int count = warm_up ? moves / 10 : moves;
      const auto nanos = mover == nullptr
                             ? TimeCopies(from, to, size, count, how == "polling" ? 1 : 64)
                         : how == "polling" ? TimePolling(mover.get(), write, size, count)
                         : how == "event"   ? TimeEvents(mover.get(), write, size, count)
                                            : TimeNonBlocking(mover.get(), write, size, count);
      if (!nanos.ok()) return nanos.status();
      result[absl::StrCat("ns_", size)] = *nanos;
    }
  }
  mover.reset();
  munmap(arena, 2 * kArena);
  return result;
}

}  // namespace pulse::bench
