// One run of `pulse bench ring`: a process of producers, and this one, which takes the messages
// through a mover.
#include <signal.h>
#include <sys/prctl.h>
#include <sys/resource.h>
#include <sys/wait.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <thread>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/histogram.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/ring_bench.h"
#include "bench/rivals/farm_ring.h"
#include "bench/rivals/lock_ring.h"
#include "channel/progress_ring.h"
#include "channel/region.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

constexpr uint16_t kKind = 1;
// A message is eight bytes: its producer, and when it was begun, or 0 when nobody asks.
constexpr int kProducerShift = 56;
constexpr uint64_t kStampMask = (uint64_t{1} << kProducerShift) - 1;
constexpr uint64_t kStampEvery = 16;  // when messages are not waited for; a power of two

// Shared by the two processes, besides the ring. Costs no ring anything.
struct Control {
  alignas(64) std::atomic<bool> go{false};
  std::atomic<bool> stop{false};
  alignas(64) std::atomic<uint64_t> retries{0};
  std::atomic<uint64_t> sent{0};
  struct alignas(64) Ack {
    std::atomic<uint64_t> stamp{0};
  } acks[kMaxRingProducers];
};

struct Run {
  std::string ring;
  int producers = 1;
  MoverKind mover = MoverKind::kVmRead;
  double seconds = 1;
  bool waits = false;  // each producer until its message was taken
  RingShape shape;
  FarmShape farm;
  std::vector<int> host_cpus;
  std::vector<int> agent_cpus;
};

// --- The producers.

template <typename Push>
void Produce(const Run& run, Control* control, uint64_t self, Push push) {
  while (!control->go.load(std::memory_order_acquire)) std::this_thread::yield();
  uint64_t random = self + 1, sent = 0, retries = 0;
  const auto stopped = [control] { return control->stop.load(std::memory_order_relaxed); };
  while (!stopped()) {
    random = random * 6364136223846793005 + 1442695040888963407;
    const bool stamped = run.waits || (random >> 33) % kStampEvery == 0;
    const uint64_t stamp = stamped ? static_cast<uint64_t>(NowNanos()) & kStampMask : 0;
    const uint64_t message = self << kProducerShift | stamp;
    // Whoever is told to retry lets others run: the consumer, or a producer in the middle.
    while (push(message) != PushResult::kDone && !stopped()) {
      ++retries;
      std::this_thread::yield();
    }
    ++sent;
    if (!run.waits) continue;
    auto& ack = control->acks[self].stamp;
    while (ack.load(std::memory_order_acquire) != stamp && !stopped()) std::this_thread::yield();
  }
  control->retries += retries;
  control->sent += sent;
}

template <typename Ring>
void ProduceAll(const Run& run, Control* control, Ring* ring) {
  std::vector<std::thread> threads;
  for (int p = 0; p < run.producers; ++p) {
    threads.emplace_back([&run, control, ring, p] {
      Produce(run, control, static_cast<uint64_t>(p), [ring](const uint64_t& message) {
        return ring->TryPush(kKind, Piece{&message, sizeof(message)});
      });
    });
  }
  for (std::thread& t : threads) t.join();
}

void RunProducers(const Run& run, Control* control, char* region) {
  SetThreadAffinity(run.host_cpus).IgnoreError();  // the parent's worked
  if (run.ring == kRingFarm) {
    FarmProducer ring(region, run.farm);
    control->sent = 1;  // the slots are ready
    ProduceAll(run, control, &ring);
  } else if (run.ring == kRingMutex) {
    LockProducer<std::mutex> ring(region, run.shape);
    ProduceAll(run, control, &ring);
  } else if (run.ring == kRingSpin) {
    LockProducer<SpinLock> ring(region, run.shape);
    ProduceAll(run, control, &ring);
  } else {
    auto ring = MakeProgressProducer(region, run.shape);
    ProduceAll(run, control, &ring);
  }
}

// --- The consumer.

class Taker {
 public:
  Taker(const Run& run, Control* control) : run_(run), control_(control) {}

  // `fetch` calls See for every message that it finds.
  template <typename Fetch>
  absl::Status Take(Fetch fetch) {
    const int64_t begin = NowNanos();
    const auto length = static_cast<int64_t>(run_.seconds * 1e9);
    const int64_t measured = begin + length / 4;  // what comes before is a warm-up
    control_->go.store(true, std::memory_order_release);
    int64_t now = begin;
    for (uint64_t rounds = 0; now < begin + length; ++rounds) {
      PULSE_RETURN_IF_ERROR(fetch());
      if (rounds % 64 == 0 || counting_ != (now >= measured)) now = NowNanos();
      if (!counting_ && now >= measured) {
        counting_ = true;
        from_ = now;
        count_ = 0;
      }
    }
    seconds_ = static_cast<double>(NowNanos() - from_) / 1e9;
    return wrong_ == 0 ? absl::OkStatus()
                       : absl::DataLossError(absl::StrCat(wrong_, " messages were wrong"));
  }

  // `at`: when the consumer had it.
  void See(const RingMessage& m, int64_t at) {
    uint64_t message = 0;
    if (m.kind != kKind || m.length != sizeof(message)) {
      ++wrong_;
      return;
    }
    std::memcpy(&message, m.data, sizeof(message));
    const uint64_t producer = message >> kProducerShift;
    const uint64_t stamp = message & kStampMask;
    ++count_;
    if (producer >= static_cast<uint64_t>(run_.producers)) {
      ++wrong_;
      return;
    }
    if (stamp == 0) return;
    if (run_.waits) control_->acks[producer].stamp.store(stamp, std::memory_order_release);
    if (!counting_) return;
    const auto now = static_cast<uint64_t>(at) & kStampMask;
    latency_.Record(now > stamp ? now - stamp : 0);
  }

  nlohmann::json Result(uint64_t calls) const {
    const double n = std::max(1.0, static_cast<double>(count_));
    return {{"messages_per_s", static_cast<double>(count_) / seconds_},
            {"p50_us", static_cast<double>(latency_.ValueAtPercentile(50)) / 1e3},
            {"p99_us", static_cast<double>(latency_.ValueAtPercentile(99)) / 1e3},
            {"stamped", latency_.Count()},
            {"calls", calls},
            {"messages", n}};
  }

 private:
  const Run& run_;
  Control* control_;
  Histogram latency_;
  bool counting_ = false;
  int64_t from_ = 0;
  double seconds_ = 0;
  uint64_t count_ = 0;
  uint64_t wrong_ = 0;
};

template <typename Consumer>
absl::Status TakeBatches(absl::StatusOr<Consumer> made, Taker* taker, uint64_t* calls) {
  if (!made.ok()) return made.status();
  Consumer& ring = *made;
  const absl::Status st = taker->Take([&ring, taker]() -> absl::Status {
    PULSE_ASSIGN_OR_RETURN(const auto some, ring.Fetch());
    if (!some) return absl::OkStatus();
    const int64_t at = NowNanos();  // the whole batch is here
    uint64_t end = 0;
    for (RingMessage m; ring.Next(&m); end = m.end) taker->See(m, at);
    if (end != 0) ring.Release(end);
    return absl::OkStatus();
  });
  *calls = ring.calls();
  return st;
}

absl::Status TakeOneByOne(const Run& run, Mover* mover, Taker* taker, uint64_t* calls) {
  PULSE_ASSIGN_OR_RETURN(auto made, MakeFarmConsumer(mover, run.farm));
  FarmConsumer& ring = made;
  const absl::Status st = taker->Take([&ring, taker]() -> absl::Status {
    RingMessage m;
    PULSE_ASSIGN_OR_RETURN(const auto some, ring.Fetch(&m));
    if (!some) return absl::OkStatus();
    taker->See(m, NowNanos());
    return ring.Release();
  });
  *calls = ring.calls();
  return st;
}

absl::StatusOr<nlohmann::json> Consume(const Run& run, pid_t host, Control* control,
                                       const Region& region) {
  std::unique_ptr<Mover> mover;
  if (run.mover == MoverKind::kShared) {
    mover = Mover::CreateShared(region.data(), region.size());
  } else {
    auto made =
        Mover::CreateVmRead(host, reinterpret_cast<uintptr_t>(region.data()), region.size());
    if (!made.ok()) return made.status();
    mover = *std::move(made);
  }
  PULSE_RETURN_IF_ERROR(SetThreadAffinity(run.agent_cpus));
  while (run.ring == kRingFarm && control->sent == 0) usleep(100);
  Taker taker(run, control);
  uint64_t calls = 0;
  if (run.ring == kRingFarm) {
    PULSE_RETURN_IF_ERROR(TakeOneByOne(run, mover.get(), &taker, &calls));
  } else if (run.ring == kRingProgress) {
    PULSE_RETURN_IF_ERROR(
        TakeBatches(MakeProgressConsumer(mover.get(), run.shape), &taker, &calls));
  } else {
    PULSE_RETURN_IF_ERROR(TakeBatches(MakeLockConsumer(mover.get(), run.shape), &taker, &calls));
  }
  return taker.Result(calls);
}

}  // namespace

absl::StatusOr<nlohmann::json> RunRingJob(const nlohmann::json& spec) {
  Run run;
  run.ring = spec.at("ring").get<std::string>();
  run.producers = spec.at("producers").get<int>();
  run.seconds = spec.at("seconds").get<double>();
  run.waits = spec.at("waits").get<bool>();
  run.shape = {spec.at("capacity").get<uint64_t>(), spec.at("limit").get<uint64_t>()};
  run.farm = {spec.at("slots").get<uint32_t>()};
  run.host_cpus = spec.at("host_cpus").get<std::vector<int>>();
  run.agent_cpus = spec.at("agent_cpus").get<std::vector<int>>();
  PULSE_ASSIGN_OR_RETURN(run.mover, ParseMoverKind(spec.at("mover").get<std::string>()));
  if (run.producers < 1 || run.producers > kMaxRingProducers || !Valid(run.shape) ||
      !Valid(run.farm)) {
    return absl::InvalidArgumentError("a ring or a number of producers that cannot be");
  }
  PULSE_ASSIGN_OR_RETURN(auto region,
                         Region::CreateShared(std::max(RingBytes(run.shape), RingBytes(run.farm))));
  region.Populate();
  PULSE_ASSIGN_OR_RETURN(auto shared, Region::CreateShared(sizeof(Control)));
  auto* control = new (shared.data()) Control;

  const pid_t parent = getpid();
  const pid_t host = fork();
  if (host < 0) return ErrnoError(errno, "starting", "the producers", "raise the process limit");
  if (host == 0) {
    prctl(PR_SET_PDEATHSIG, SIGKILL);
    if (getppid() != parent) _exit(1);
    RunProducers(run, control, region.data());
    _exit(0);
  }
  auto result = Consume(run, host, control, region);
  control->stop = true;
  control->go = true;
  rusage usage = {};
  int status = 0;
  while (wait4(host, &status, 0, &usage) < 0 && errno == EINTR) {
  }
  if (!result.ok()) return result;
  if (status != 0) return absl::InternalError("the producers ended with an error");
  (*result)["retries"] = control->retries.load();
  (*result)["producer_switches"] = usage.ru_nvcsw + usage.ru_nivcsw;
  (*result)["producer_sys_s"] = static_cast<double>(usage.ru_stime.tv_sec) +
                                static_cast<double>(usage.ru_stime.tv_usec) / 1e6;
  return result;
}

}  // namespace pulse::bench
