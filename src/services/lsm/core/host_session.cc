#include "services/lsm/core/host_session.h"

#include <poll.h>
#include <unistd.h>

#include <algorithm>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/shortage.h"
#include "services/lsm/core/host_agent.h"

namespace pulse::lsm {
namespace {

// A leader looks up at least this often, so that a lost wake-up could only cost time.
constexpr int kPollMs = 1000;
// Before it sleeps, a waiter spins this long: most answers are nearly there.
constexpr int64_t kSpinNanos = 5'000;

}  // namespace

absl::StatusOr<std::shared_ptr<HostSession>> HostSession::Open(const Options& options) {
  Options o = options;
  bool may_fall_back = false;
  absl::StatusOr<std::unique_ptr<AgentLink>> link =
      o.socket_path.empty() ? StartEmbeddedAgent(o) : ConnectToAgent(o, -1, &may_fall_back);
  if (!link.ok() && o.fallback_embedded && may_fall_back) {
    Log(LogLevel::kWarn,
        absl::StrCat(link.status().message(), ". Using an embedded agent (fallback=embedded)"));
    o.socket_path.clear();
    link = StartEmbeddedAgent(o);
  }
  if (!link.ok()) return link.status();
  std::shared_ptr<HostSession> s(new HostSession(o));
  if (!o.trace.empty()) {
    // Now, since it replaces an earlier one, which an attempt without an agent should not.
    PULSE_ASSIGN_OR_RETURN(s->timeline_, trace::Timeline::Open(o.trace));
  }
  s->current_ = std::make_shared<AgentConnection>();
  s->current_->link = *std::move(link);
  for (WakeEvent* event : {&s->wake_leader_, &s->wake_watch_, &s->stopping_}) {
    PULSE_ASSIGN_OR_RETURN(*event, WakeEvent::Create());
  }
  PULSE_RETURN_IF_ERROR(StartThread(
      "a session", [session = s.get()] { session->Watch(); }, &s->watch_));
  return s;
}

HostSession::~HostSession() {
  if (watch_.joinable()) {
    stopping_.Set();
    watch_.join();
  }
  const AtomicCounters& c = counters_;
  const auto ms = [](uint64_t nanos) { return nanos / 1'000'000; };
  Log(LogLevel::kInfo,
      absl::StrCat("session closed: ", c.files_persisted.load(), " files, ",
                   c.bytes_persisted.load() >> 20, " MiB persisted, ", c.bytes_inline.load() >> 20,
                   " MiB inline, ", c.bytes_fetched.load() >> 20, " MiB fetched; waits: queue ",
                   c.backpressure_waits.load(), " (", ms(c.backpressure_nanos), " ms), barrier ",
                   c.barrier_waits.load(), " (", ms(c.barrier_nanos), " ms), fetch ",
                   c.fetch_waits.load(), " (", ms(c.fetch_wait_nanos), " ms); fetch misses ",
                   c.fetch_misses.load(), "; agents lost ", c.failovers.load(), ", ",
                   ms(agentless_nanos()), " ms without one"));
}

HostSession::Connection HostSession::connection() {
  std::lock_guard lock(mu_);
  return current_;
}

HostSession::Occupancy HostSession::occupancy() {
  std::lock_guard lock(mu_);
  Occupancy sum;
  if (current_ == nullptr) return sum;
  DrainLocked(current_.get());  // what has been answered waits no more
  sum.streams = current_->leased;
  for (const auto& q : current_->queues) {
    if (q == nullptr) continue;
    // The agent's counter first: the producer's only grows meanwhile.
    const uint64_t given_back = q->queue.reclaimed();
    const uint64_t handed_out = q->position.load(std::memory_order_relaxed);
    sum.bytes += std::min(handed_out - std::min(given_back, handed_out), q->queue.arena_bytes());
    sum.requests += q->queue.untaken();
  }
  return sum;
}

uint64_t HostSession::agentless_nanos() {
  std::lock_guard lock(mu_);
  uint64_t n = counters_.agentless_nanos.load(std::memory_order_relaxed);
  if (agentless_since_ != 0) n += NowNanos() - agentless_since_;
  return n;
}

absl::StatusOr<StreamQueue*> HostSession::AddQueue(const Connection& c, uint64_t arena_bytes) {
  uint32_t id;
  {
    std::lock_guard lock(mu_);
    id = static_cast<uint32_t>(std::find(c->taken.begin(), c->taken.end(), false) -
                               c->taken.begin());
    if (id >= c->link->max_queues()) {
      return absl::ResourceExhaustedError(
          absl::StrCat("the agent allows ", c->link->max_queues(), " queues a session"));
    }
    if (id == c->taken.size()) {
      c->taken.push_back(true);
      c->queues.push_back(nullptr);
    }
    c->taken[id] = true;
    ++c->attaching;
  }
  auto q = AttachQueue(c, id, arena_bytes);
  std::lock_guard lock(mu_);
  --c->attaching;
  if (!q.ok()) {
    c->taken[id] = false;
    if (absl::IsDeadlineExceeded(q.status())) SuspectLocked(c.get(), q.status());
  }
  return q;
}

absl::StatusOr<StreamQueue*> HostSession::AttachQueue(const Connection& c, uint32_t id,
                                                      uint64_t arena_bytes) {
  auto sq = std::make_unique<StreamQueue>();
  PULSE_ASSIGN_OR_RETURN(sq->region, c->link->CreateRegion(QueueRegionBytes(arena_bytes)));
  PULSE_ASSIGN_OR_RETURN(sq->queue, HostQueue::Init(sq->region, id, arena_bytes));
  PULSE_RETURN_IF_ERROR(c->link->Attach(id, arena_bytes, sq->region));
  std::lock_guard lock(mu_);
  c->queues[id] = std::move(sq);
  return c->queues[id].get();
}

void HostSession::NotePressure(uint32_t level) {
  if (std::max(level, stall_.load(std::memory_order_relaxed)) == 0) return;
  std::lock_guard lock(mu_);
  PublishPressureLocked(std::max(level, stall_.load(std::memory_order_relaxed)));
}

void HostSession::AddStalls(uint32_t level, int64_t families) {
  if (families == 0) return;
  std::lock_guard lock(mu_);
  stalls_[level] += families;
  const uint32_t now = stalls_[wire::kPressureStopped] > 0   ? wire::kPressureStopped
                       : stalls_[wire::kPressureDelayed] > 0 ? wire::kPressureDelayed
                                                             : wire::kPressureNone;
  stall_.store(now, std::memory_order_relaxed);
  PublishPressureLocked(now);
}

void HostSession::PublishPressureLocked(uint32_t level) {
  if (current_ == nullptr) return;
  current_->link->control()->pressure.value.store(wire::PressureWord(level, ++pressure_count_),
                                                  std::memory_order_relaxed);
}

absl::StatusOr<HostSession::Lease> HostSession::LeaseQueue(bool prefer_idle) {
  Connection c;
  {
    std::lock_guard lock(mu_);
    c = current_;
    if (c == nullptr) return absl::UnavailableError("there is no agent at the moment");
    if (!c->free_streams.empty()) {
      const auto idle = [](const StreamQueue* q) {
        return q->queue.reclaimed() == q->position.load(std::memory_order_relaxed);
      };
      auto chosen = c->free_streams.end() - 1;
      if (prefer_idle) {
        const auto found = std::find_if(c->free_streams.rbegin(), c->free_streams.rend(), idle);
        if (found != c->free_streams.rend()) chosen = found.base() - 1;
      }
      StreamQueue* q = *chosen;
      c->free_streams.erase(chosen);
      ++c->leased;
      return Lease{std::move(c), q};
    }
    if (c->leased >= static_cast<size_t>(options_.max_streams)) {
      return absl::ResourceExhaustedError(
          absl::StrCat("all ", options_.max_streams, " streams are in use"));
    }
    ++c->leased;
  }
  auto q = AddQueue(c, options_.queue_bytes);
  if (!q.ok()) {
    std::lock_guard lock(mu_);
    --c->leased;
    return q.status();
  }
  return Lease{std::move(c), *q};
}

void HostSession::ReturnQueueLocked(const Lease& lease) {
  lease.connection->free_streams.push_back(lease.queue);
  --lease.connection->leased;
}

void HostSession::Prewarm() {
  {
    std::lock_guard lock(mu_);
    if (prewarm_) return;
    prewarm_ = true;
  }
  wake_watch_.Set();
}

uint32_t HostSession::Register(AgentConnection* c, CompletionTarget* target) {
  std::lock_guard lock(mu_);
  while (c->targets.count(c->next_file) != 0 || c->next_file == 0) ++c->next_file;
  c->targets[c->next_file] = target;
  return c->next_file++;
}

absl::Status HostSession::Push(const Connection& c, StreamQueue* queue, const wire::Descriptor& d) {
  if (queue->queue.TryPush(d)) return absl::OkStatus();
  c->link->kick().Ring();
  std::unique_lock lock(mu_);
  bool pushed = false;
  // Asked more than once also after it has come true: once pushed is enough.
  Wait(lock, c, [&] {
    if (!pushed && !c->dead) pushed = queue->queue.TryPush(d);
    return pushed;
  });
  return pushed ? absl::OkStatus() : absl::UnavailableError("the agent is gone");
}

void HostSession::NotifyLocked() {
  cv_.notify_all();
  if (sleeping_leaders_ > 0) wake_leader_.Set();
}

void HostSession::DrainLocked(AgentConnection* c) {
  if (c->dead) return;
  bool any = false;
  bool corrupt = false;
  for (size_t i = 0; i < c->queues.size(); ++i) {
    StreamQueue* q = c->queues[i].get();
    if (q == nullptr) continue;
    wire::Completion completion;
    while (q->queue.TryPop(&completion)) {
      any = true;
      const auto it = c->targets.find(completion.file);
      if (it != c->targets.end()) it->second->OnCompletion(completion);
    }
    corrupt |= q->queue.corrupt();
  }
  if (corrupt) SuspectLocked(c, absl::InternalError("it corrupted a completion ring"));
  if (any) cv_.notify_all();
}

void HostSession::RescueLaterLocked(CompletionTarget* target) {
  rescues_.push_back(target);
  wake_watch_.Set();
}

void HostSession::SuspectLocked(AgentConnection* c, const absl::Status& why) {
  if (c->suspect || c->dead) return;
  c->suspect = true;
  Log(LogLevel::kError, absl::StrCat("parting with the agent: ", why.message()));
  wake_watch_.Set();
}

bool HostSession::SomethingArrived(const AgentConnection& c) {
  for (const auto& q : c.queues) {
    if (q != nullptr && q->queue.HasCompletions()) return true;
  }
  return false;
}

void HostSession::WaitOnce(std::unique_lock<std::mutex>& lock, AgentConnection* c,
                           absl::FunctionRef<bool()> done) {
  if (c->leader) {
    ++c->followers;
    cv_.wait_for(lock, std::chrono::milliseconds(kPollMs));
    --c->followers;
    return;
  }
  c->leader = true;
  AgentLink& link = *c->link;
  link.control()->urgent.value.store(1, std::memory_order_relaxed);
  const int64_t spin_until = NowNanos() + kSpinNanos;
  bool arrived = false;
  do {
    CpuPause();
    arrived = SomethingArrived(*c);
  } while (!arrived && NowNanos() < spin_until);
  if (!arrived) {
    Doorbell& bell = link.notify();
    bell.PrepareSleep();
    // done() again, too: space is given back after the completion that announces it.
    if (!SomethingArrived(*c) && !done()) {
      pollfd fds[3] = {
          {bell.fd(), POLLIN, 0}, {link.closed_fd(), POLLIN, 0}, {wake_leader_.fd(), POLLIN, 0}};
      ++sleeping_leaders_;
      lock.unlock();
      poll(fds, 3, kPollMs);
      lock.lock();
      --sleeping_leaders_;
      if (fds[2].revents != 0) wake_leader_.Clear();
    }
    bell.FinishSleep();
  }
  link.control()->urgent.value.store(0, std::memory_order_relaxed);
  c->leader = false;
  if (c->followers > 0) cv_.notify_all();
}

}  // namespace pulse::lsm
