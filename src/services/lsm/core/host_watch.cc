// The session's watching thread: the agent's death, its silence, its successor; and the numbers
// that it publishes for those who watch (channel/host_numbers.h).
#include <poll.h>
#include <pthread.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/shortage.h"
#include "base/trace.h"
#include "channel/host_numbers.h"
#include "link/retry_policy.h"
#include "services/lsm/core/host_agent.h"
#include "services/lsm/core/host_numbers.h"
#include "services/lsm/core/host_session.h"

namespace pulse::lsm {
namespace {

// How often the numbers for those who watch are written.
constexpr int kPublishMs = 250;

}  // namespace

void HostSession::Watch() {
  pthread_setname_np(pthread_self(), "pulse-ag-watch");
  if (options_.socket_path.empty()) {
    SetThreadAffinity(options_.agent_cpus).IgnoreError();  // checked when the agent started
  }
  AgentHeartbeat heartbeat(options_.agent_deadline_ms);
  RetryPolicy retry;
  int64_t attached = NowNanos();
  int64_t published = 0;
  Connection published_to;
  while (true) {
    const Connection c = connection();
    const bool embedded = options_.socket_path.empty();
    pollfd fds[3] = {{stopping_.fd(), POLLIN, 0},
                     {wake_watch_.fd(), POLLIN, 0},
                     {c == nullptr ? -1 : c->link->death_fd(), POLLRDHUP, 0}};
    const int beat_ms = heartbeat.interval_ms();
    int timeout = embedded ? -1 : c == nullptr ? retry.delay_ms() : beat_ms;
    if (c != nullptr && IsWatched()) {
      timeout = timeout < 0 ? kPublishMs : std::min(timeout, kPublishMs);
    }
    poll(fds, 3, timeout);
    if (fds[0].revents != 0) {
      if (!warm_.joinable()) return;
      if (c != nullptr) c->link->Close();  // nobody is left to ask anything of it
      warm_.join();
      return;
    }
    if (fds[1].revents != 0) wake_watch_.Clear();
    std::vector<CompletionTarget*> rescues;
    {
      std::lock_guard lock(mu_);
      rescues.swap(rescues_);
    }
    for (CompletionTarget* target : rescues) target->Rescue(OutstandingWork::kNone);
    if (c != nullptr) {
      if (CheckAgent(c, &heartbeat)) {
        WarmUp(c);
        if (const int64_t now = NowNanos();
            IsWatched() && (c != published_to || now - published >= kPublishMs * 900'000)) {
          Publish(c);
          NotePressure(wire::kPressureNone);  // a stall that lasts does not fade
          published = now;
          published_to = c;
        }
      } else {
        published_to = nullptr;
        heartbeat.Reset();
        retry.OnLost(NowNanos() - attached);
      }
    } else if (!embedded) {
      if (TryReconnect()) {
        attached = NowNanos();
      } else {
        retry.OnFailedAttempt();
      }
    }
  }
}

// False when the agent was lost, and all that it left undone is finished.
bool HostSession::CheckAgent(const Connection& c, AgentHeartbeat* heartbeat) {
  bool suspect;
  bool busy;
  {
    std::lock_guard lock(mu_);
    suspect = c->suspect;
    busy = !c->targets.empty() || c->attaching > 0;
  }
  if (c->link->Gone()) {
    c->link->WaitForExit();
    LoseAgent(c, OutstandingWork::kNone, absl::UnavailableError("it is gone"));
    return false;
  }
  if (suspect) {
    LoseAgent(c, OutstandingWork::kAnything, absl::InternalError("it is not to be trusted"));
    return false;
  }
  const int64_t now = NowNanos();
  if (options_.socket_path.empty() || !heartbeat->Due(now)) return true;
  if (!heartbeat->Look(now, c->link->Progress(), busy)) {
    LoseAgent(c, OutstandingWork::kUnanswered,
              absl::DeadlineExceededError(absl::StrCat("it has shown no sign of life for ",
                                                       options_.agent_deadline_ms, " ms")));
    return false;
  }
  if (busy) c->link->Ping();
  return true;
}

void HostSession::LoseAgent(const Connection& c, OutstandingWork work, const absl::Status& why) {
  std::vector<CompletionTarget*> rescues;
  {
    std::lock_guard lock(mu_);
    // What the agent answered before still counts.
    DrainLocked(c.get());
    if (c->suspect && work == OutstandingWork::kUnanswered) work = OutstandingWork::kAnything;
    Add(&counters_.failovers, 1);
    c->dead.store(true, std::memory_order_release);
    if (current_ == c) {
      current_ = nullptr;
      prewarmed_ = false;
      agentless_since_ = NowNanos();
    }
    // Before asking who needs rescue: from here on no file can be passed to the agent, and of each
    // that was, its writer has taken note.
    c->link->Close();
    for (const auto& [file, target] : c->targets) {
      if (target->OnAgentDeath()) rescues.push_back(target);
    }
    c->targets.clear();
    cv_.notify_all();
  }
  trace::Instant("agent lost", why.message());
  Log(LogLevel::kWarn,
      absl::StrCat("lost the agent", options_.socket_path.empty() ? "" : " at ",
                   options_.socket_path, ": ", why.message(), "; the host finishes ",
                   rescues.size(), " of its files, and writes by itself until there is one again"));
  for (CompletionTarget* target : rescues) target->Rescue(work);
}

bool HostSession::TryReconnect() {
  auto link = ConnectToAgent(options_, stopping_.fd());
  if (!link.ok()) {
    // No agent is the expected case; say only what an operator could not see by himself.
    if (ErrnoOf(link.status()) != ENOENT && ErrnoOf(link.status()) != ECONNREFUSED &&
        !absl::IsCancelled(link.status())) {
      LogOnce(absl::StrCat("reconnect ", link.status().message()),
              absl::StrCat("cannot use the agent again: ", link.status().message()));
    }
    return false;
  }
  auto c = std::make_shared<AgentConnection>();
  c->link = *std::move(link);
  int64_t gap;
  {
    std::lock_guard lock(mu_);
    current_ = c;
    gap = NowNanos() - agentless_since_;
    agentless_since_ = 0;
    Add(&counters_.agentless_nanos, gap);
    Add(&counters_.reconnects, 1);
  }
  trace::Instant("agent back", options_.socket_path);
  Log(LogLevel::kInfo, absl::StrCat("an agent is back at ", options_.socket_path, " after ",
                                    gap / 1'000'000, " ms; new outputs go through it"));
  return true;
}

// On a thread of its own: the agent may hang while it attaches the queue, which this one must see.
void HostSession::WarmUp(const Connection& c) {
  {
    std::lock_guard lock(mu_);
    if (!prewarm_ || prewarmed_) return;
    prewarmed_ = true;
  }
  if (warm_.joinable()) warm_.join();  // for an agent that was lost: its link is closed
  const auto warm_up = [this, c] {
    pthread_setname_np(pthread_self(), "pulse-ag-warm");
    auto q = AddQueue(c, options_.queue_bytes);
    if (!q.ok()) return;  // whoever needs a queue meets the same error, and reports it
    std::lock_guard lock(mu_);
    c->free_streams.push_back(*q);
  };
  // Without it, whoever needs a queue makes one.
  StartThread("an agent's first queue", warm_up, &warm_).IgnoreError();
}

void HostSession::Publish(const Connection& c) {
  HostNumbersCopy n;
  const auto set = [&n](HostNumber number, const std::atomic<uint64_t>& counter) {
    n[number] = counter.load(std::memory_order_relaxed);
  };
  set(HostNumber::kFilesPersisted, counters_.files_persisted);
  set(HostNumber::kBytesPersisted, counters_.bytes_persisted);
  set(HostNumber::kBytesInline, counters_.bytes_inline);
  set(HostNumber::kBackpressureWaits, counters_.backpressure_waits);
  set(HostNumber::kBackpressureNanos, counters_.backpressure_nanos);
  set(HostNumber::kBarrierWaits, counters_.barrier_waits);
  set(HostNumber::kBarrierNanos, counters_.barrier_nanos);
  set(HostNumber::kBytesFetched, counters_.bytes_fetched);
  set(HostNumber::kFetchWaits, counters_.fetch_waits);
  set(HostNumber::kFetchWaitNanos, counters_.fetch_wait_nanos);
  set(HostNumber::kFetchMisses, counters_.fetch_misses);
  set(HostNumber::kFailovers, counters_.failovers);
  set(HostNumber::kReconnects, counters_.reconnects);
  n[HostNumber::kAgentlessNanos] = agentless_nanos();
  const Occupancy now = occupancy();
  n[HostNumber::kStreams] = now.streams;
  n[HostNumber::kQueuedBytes] = now.bytes;
  n[HostNumber::kQueuedRequests] = now.requests;
  {
    std::lock_guard lock(mu_);
    const int64_t time = NowNanos();
    n[HostNumber::kTime] = static_cast<uint64_t>(time);
    n[HostNumber::kSyncs] = sync_times_.count();
    n[HostNumber::kSyncNanos] = sync_times_.nanos();
    n[HostNumber::kOutputsOpen] = open_outputs_.now();
    n[HostNumber::kOutputOpenNanos] = open_outputs_.Nanos(time);
    n[HostNumber::kQueueMemory] = (c->leased + c->free_streams.size()) * options_.queue_bytes;
    n[HostNumber::kDatabases] = databases_.size();
    n.names = databases_;
  }
  WriteHostNumbers(c->link->control(), n);
}

}  // namespace pulse::lsm
