#include "services/lsm/placement/compression_threads.h"

#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <set>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/log.h"
#include "base/own_threads.h"
#include "services/lsm/placement/thread_migrator.h"

namespace pulse::lsm {
namespace {

constexpr int64_t kSampleNanos = 2'000'000;

// The calling thread's, while it has not ended.
std::shared_ptr<CompressionThreads::Start>& Mine() {
  thread_local std::shared_ptr<CompressionThreads::Start> mine;
  return mine;
}

// Threads that have the agent's CPUs because of a Start: they compress nothing.
struct Starting {
  std::mutex mu;
  std::set<pid_t> threads;
};
Starting& AllStarting() {
  static auto* const starting = new Starting;  // RocksDB's threads outlive main
  return *starting;
}

// The calling thread, if it was adopted.
struct Adopted {
  AtomicCounters* counters = nullptr;
  int64_t counted = 0;

  void Count() {
    const int64_t now = ThreadCpuNanos();
    Add(&counters->agent_compression_nanos,
        static_cast<uint64_t>(now - std::exchange(counted, now)));
  }
  ~Adopted() {
    if (counters != nullptr) Count();
  }
};
thread_local Adopted adopted;

}  // namespace

CompressionThreads::Start::Start(CompressionThreads* threads, const cpu_set_t& former)
    : threads_(threads), thread_(gettid()), former_(former) {
  std::lock_guard lock(AllStarting().mu);
  AllStarting().threads.insert(thread_);
}

void CompressionThreads::Start::End(bool find_threads) {
  std::lock_guard lock(mu_);
  if (std::exchange(ended_, true)) return;
  // First, so that no more than a block is made there.
  if (sched_setaffinity(thread_, sizeof(former_), &former_) != 0) {
    LogOnce("compression threads",
            absl::StrCat("a thread of RocksDB's stays on the agent's CPUs: ", strerror(errno),
                         "; leave compression=agent out where the CPUs that a process may use "
                         "change while it runs"));
  }
  {
    std::lock_guard starting(AllStarting().mu);
    AllStarting().threads.erase(thread_);
  }
  if (find_threads) threads_->FindThreads(thread_);
}

CompressionThreads::CompressionThreads(std::vector<int> cpus, AtomicCounters* counters)
    : cpus_(std::move(cpus)), counters_(counters) {
  CPU_ZERO(&set_);
  for (const int cpu : cpus_) CPU_SET(static_cast<size_t>(cpu), &set_);
}

std::shared_ptr<CompressionThreads::Start> CompressionThreads::Begin() {
  EndMine();
  if (ThreadMigrator::IsMigrated(gettid())) return nullptr;
  const auto refused = [this](absl::string_view why) {
    LogOnce("no compression threads",
            absl::StrCat("blocks are compressed on the host's CPUs, in spite of "
                         "compression=agent: ",
                         why, " (agent_cpus=", FormatCpuList(cpus_), ")"));
    return nullptr;
  };
  cpu_set_t former;
  if (sched_getaffinity(0, sizeof(former), &former) != 0) return refused(strerror(errno));
  if (std::any_of(cpus_.begin(), cpus_.end(),
                  [&](int cpu) { return CPU_ISSET(static_cast<size_t>(cpu), &former); })) {
    return refused(
        "RocksDB's threads may use the agent's CPUs, too; keep the process off them "
        "(taskset)");
  }
  if (const absl::Status moved = SetThreadAffinity(cpus_); !moved.ok()) {
    return refused(moved.message());
  }
  Mine() = std::make_shared<Start>(this, former);
  return Mine();
}

void CompressionThreads::EndMine() {
  std::shared_ptr<Start>& mine = Mine();
  if (mine == nullptr) [[likely]]
    return;
  mine->End();
  mine = nullptr;
}

// On none but these.
bool CompressionThreads::HasAgentsCpus(pid_t thread) const {
  cpu_set_t set, both;
  if (sched_getaffinity(thread, sizeof(set), &set) != 0) return false;
  CPU_AND(&both, &set, &set_);
  return CPU_EQUAL(&both, &set);
}

CompressionThreads* CompressionThreads::TakeMine() {
  const std::shared_ptr<Start> mine = std::exchange(Mine(), nullptr);
  if (mine == nullptr) return nullptr;
  mine->End(/*find_threads=*/false);
  return mine->threads_;
}

void CompressionThreads::Adopt() {
  if (adopted.counters != nullptr) return;
  if (const absl::Status moved = SetThreadAffinity(cpus_); !moved.ok()) {
    LogOnce("no compression threads",
            absl::StrCat("blocks are compressed on the host's CPUs, in spite of "
                         "compression=agent: ",
                         moved.message()));
  }
  adopted.counters = counters_;
}

void CompressionThreads::CountMine() { adopted.Count(); }

void CompressionThreads::FindThreads(pid_t maker) {
  const std::string name = NameOfThread(maker);
  std::lock_guard lock(mu_);
  for (const pid_t thread : OwnThreads()) {
    if (threads_.count(thread) != 0 || !HasAgentsCpus(thread) ||
        ThreadMigrator::IsMigrated(thread) || NameOfThread(thread) != name) {
      continue;
    }
    {
      std::lock_guard starting(AllStarting().mu);
      if (AllStarting().threads.count(thread) != 0) continue;
    }
    threads_[thread] = 0;  // it has begun just now
  }
}

void CompressionThreads::Sample() {
  const int64_t now = NowNanos();
  if (now < next_sample_.load(std::memory_order_relaxed)) return;
  next_sample_.store(now + kSampleNanos, std::memory_order_relaxed);
  SampleNow();
}

void CompressionThreads::SampleNow() {
  std::lock_guard lock(mu_);
  for (auto it = threads_.begin(); it != threads_.end();) {
    const int64_t cpu = ThreadCpuNanos(it->first);
    if (cpu < it->second) {  // it has ended, and maybe another one has its number
      it = threads_.erase(it);
      continue;
    }
    Add(&counters_->agent_compression_nanos, static_cast<uint64_t>(cpu - it->second));
    it->second = cpu;
    ++it;
  }
}

}  // namespace pulse::lsm
