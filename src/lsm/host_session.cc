#include "lsm/host_session.h"

#include <poll.h>
#include <pthread.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse::lsm {
namespace {

// A leader looks up at least this often, so that a lost wake-up could only cost time.
constexpr int kPollMs = 1000;
// Before it sleeps, a waiter spins this long: most answers are nearly there.
constexpr int64_t kSpinNanos = 5'000;

}  // namespace

absl::StatusOr<std::shared_ptr<HostSession>> HostSession::Open(const Options& options) {
  std::shared_ptr<HostSession> s(new HostSession(options));
  auto link = options.socket_path.empty() ? StartEmbeddedAgent(options) : ConnectToAgent(options);
  if (!link.ok()) return link.status();
  s->link_ = *std::move(link);
  return s;
}

HostSession::~HostSession() {
  if (prewarm_.joinable()) prewarm_.join();
  const AtomicCounters& c = counters_;
  const auto ms = [](uint64_t nanos) { return nanos / 1'000'000; };
  Log(LogLevel::kInfo,
      absl::StrCat("session closed: ", c.files_persisted.load(), " files, ",
                   c.bytes_persisted.load() >> 20, " MiB persisted, ", c.bytes_inline.load() >> 20,
                   " MiB inline, ", c.bytes_fetched.load() >> 20, " MiB fetched; waits: queue ",
                   c.backpressure_waits.load(), " (", ms(c.backpressure_nanos), " ms), barrier ",
                   c.barrier_waits.load(), " (", ms(c.barrier_nanos), " ms), fetch ",
                   c.fetch_waits.load(), " (", ms(c.fetch_wait_nanos), " ms); fetch misses ",
                   c.fetch_misses.load()));
}

absl::StatusOr<StreamQueue*> HostSession::AddQueue(uint64_t arena_bytes) {
  uint32_t id;
  {
    std::lock_guard lock(mu_);
    id = static_cast<uint32_t>(queues_.size());
    if (id >= link_->max_queues()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the agent allows ", link_->max_queues(), " queues a session"));
    }
    queues_.push_back(nullptr);  // reserve the number
  }
  auto sq = std::make_unique<StreamQueue>();
  auto region = link_->CreateRegion(QueueRegionBytes(arena_bytes));
  absl::Status st = region.status();
  if (st.ok()) {
    sq->region = *std::move(region);
    auto queue = HostQueue::Init(sq->region, id, arena_bytes);
    st = queue.status();
    if (st.ok()) {
      sq->queue = *queue;
      st = link_->Attach(id, arena_bytes, sq->region);
    }
  }
  if (!st.ok()) return st;  // the number stays unused
  std::lock_guard lock(mu_);
  queues_[id] = std::move(sq);
  return queues_[id].get();
}

absl::StatusOr<StreamQueue*> HostSession::LeaseQueue() {
  {
    std::lock_guard lock(mu_);
    if (dead()) return absl::UnavailableError("the agent is gone");
    if (!free_queues_.empty()) {
      StreamQueue* q = free_queues_.back();
      free_queues_.pop_back();
      ++leased_;
      return q;
    }
    if (leased_ >= static_cast<size_t>(options_.max_streams)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("all ", options_.max_streams, " streams are in use"));
    }
    ++leased_;
  }
  auto q = AddQueue(options_.queue_bytes);
  if (!q.ok()) {
    std::lock_guard lock(mu_);
    --leased_;
  }
  return q;
}

void HostSession::Prewarm() {
  std::call_once(prewarm_once_, [this] {
    prewarm_ = std::thread([this] {
      pthread_setname_np(pthread_self(), "pulse-ag-warm");
      SetThreadAffinity(options_.agent_cpus).IgnoreError();  // checked when the agent started
      auto q = AddQueue(options_.queue_bytes);
      if (!q.ok()) return;  // whoever needs a queue meets the same error, and reports it
      std::lock_guard lock(mu_);
      free_queues_.push_back(*q);
    });
  });
}

void HostSession::ReturnQueue(StreamQueue* queue) {
  std::lock_guard lock(mu_);
  free_queues_.push_back(queue);
  --leased_;
}

uint32_t HostSession::Register(CompletionTarget* target) {
  std::lock_guard lock(mu_);
  while (targets_.count(next_file_) != 0 || next_file_ == 0) ++next_file_;
  targets_[next_file_] = target;
  return next_file_++;
}

void HostSession::UnregisterLocked(uint32_t file) { targets_.erase(file); }

absl::Status HostSession::Push(StreamQueue* queue, const wire::Descriptor& d) {
  if (queue->queue.TryPush(d)) return absl::OkStatus();
  Ring();
  std::unique_lock lock(mu_);
  bool pushed = false;
  Wait(lock, [&] { return pushed = queue->queue.TryPush(d); });
  return pushed ? absl::OkStatus() : absl::UnavailableError("the agent is gone");
}

void HostSession::DrainLocked() {
  bool any = false;
  for (auto& q : queues_) {
    if (q == nullptr) continue;
    wire::Completion c;
    while (q->queue.TryPop(&c)) {
      any = true;
      const auto it = targets_.find(c.file);
      if (it != targets_.end()) it->second->OnCompletion(c);
    }
    if (q->queue.corrupt() && !dead()) {
      Log(LogLevel::kError, "the agent corrupted a completion ring; going on without it");
      DieLocked();
    }
  }
  if (any && followers_ > 0) cv_.notify_all();
}

bool HostSession::SomethingArrived() const {
  for (const auto& q : queues_) {
    if (q != nullptr && q->queue.HasCompletions()) return true;
  }
  return false;
}

void HostSession::WaitOnce(std::unique_lock<std::mutex>& lock, absl::FunctionRef<bool()> done) {
  if (leader_) {
    ++followers_;
    cv_.wait_for(lock, std::chrono::milliseconds(kPollMs));
    --followers_;
    return;
  }
  leader_ = true;
  link_->control()->urgent.value.store(1, std::memory_order_relaxed);
  const int64_t spin_until = NowNanos() + kSpinNanos;
  bool arrived = false;
  do {
    CpuPause();
    arrived = SomethingArrived();
  } while (!arrived && NowNanos() < spin_until);
  if (!arrived) {
    Doorbell& bell = link_->notify();
    bell.PrepareSleep();
    // done() again, too: space is given back after the completion that announces it.
    if (!SomethingArrived() && !done()) {
      pollfd fds[2] = {{bell.fd(), POLLIN, 0}, {link_->death_fd(), POLLRDHUP, 0}};
      lock.unlock();
      poll(fds, link_->death_fd() >= 0 ? 2 : 1, kPollMs);
      lock.lock();
      if (!dead() && link_->CheckDead()) {
        // What the agent answered before it died still counts.
        DrainLocked();
        DieLocked();
      }
    }
    bell.FinishSleep();
  }
  link_->control()->urgent.value.store(0, std::memory_order_relaxed);
  leader_ = false;
  if (followers_ > 0) cv_.notify_all();
}

void HostSession::DieLocked() {
  if (dead()) return;
  Add(&counters_.failovers, 1);
  Log(LogLevel::kWarn,
      absl::StrCat("lost the agent", options_.socket_path.empty() ? "" : " at ",
                   options_.socket_path,
                   "; the host finishes its work itself, and does all further I/O inline"));
  dead_.store(true, std::memory_order_release);
  // Targets may unregister themselves while they finish.
  std::vector<CompletionTarget*> targets;
  for (const auto& [file, target] : targets_) targets.push_back(target);
  for (CompletionTarget* t : targets) t->OnAgentDeath();
  cv_.notify_all();
}

}  // namespace pulse::lsm
