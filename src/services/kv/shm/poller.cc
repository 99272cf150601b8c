#include "services/kv/shm/poller.h"

#include <poll.h>
#include <pthread.h>

#include <utility>

#include "base/adaptive_spin.h"
#include "base/clock.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "base/log.h"

namespace pulse::kv {
namespace {

// Looks for requests between two looks at the clock.
constexpr int kLooks = 16;

}  // namespace

absl::StatusOr<std::unique_ptr<ShmPoller>> ShmPoller::Start(KvStore* store,
                                                            const Options& options) {
  PULSE_ASSIGN_OR_RETURN(WakeEvent wake, WakeEvent::Create());
  std::unique_ptr<ShmPoller> poller(new ShmPoller(store, options, std::move(wake)));
  poller->thread_ = std::thread([p = poller.get()] { p->Loop(); });
  return poller;
}

ShmPoller::ShmPoller(KvStore* store, const Options& options, WakeEvent wake)
    : store_(store),
      options_(options),
      partitions_(static_cast<uint32_t>(store->options().partitions)),
      wake_(std::move(wake)) {}

ShmPoller::~ShmPoller() {
  stopping_.store(true);
  wake_.Set();
  thread_.join();
}

void ShmPoller::SetClients(const ShmClients& clients) {
  uint64_t wanted = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    next_ = clients;
    wanted = generation_.fetch_add(1) + 1;
  }
  wake_.Set();
  for (uint64_t seen = taken_up_.load(); seen != wanted; seen = taken_up_.load()) {
    taken_up_.wait(seen);
  }
}

void ShmPoller::TakeUpClients() {
  ShmClients former;
  uint64_t generation = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    former = std::exchange(clients_, next_);
    generation = generation_.load();
  }
  former.clear();
  taken_up_.store(generation);
  taken_up_.notify_all();
}

void ShmPoller::Loop() {
  pthread_setname_np(pthread_self(), "pulse-kv-shm");
  if (const absl::Status status = SetThreadAffinity(options_.cpus); !status.ok()) {
    LogOnce("shm-cpus", status.message());
  }
  AdaptiveSpin spin(options_.spin_nanos);
  int64_t idle_since = 0;
  int looks = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (generation_.load(std::memory_order_acquire) != taken_up_.load(std::memory_order_relaxed)) {
      TakeUpClients();
    }
    if (Serve()) {
      idle_since = 0;
      continue;
    }
    CpuPause();
    if (++looks % kLooks != 0) continue;
    const int64_t now = NowNanos();
    if (idle_since == 0) idle_since = now;
    if (now - idle_since < spin.now()) continue;
    Sleep();
    spin.Slept(NowNanos() - now);
    idle_since = 0;
  }
}

bool ShmPoller::Serve() {
  bool any = false;
  for (const auto& client : clients_) {
    bool answered = false;
    for (uint32_t p = options_.number; p < partitions_; p += options_.threads) {
      answered |= ServeQueue(client.get(), p);
    }
    if (!answered) continue;
    client->Ring();
    any = true;
  }
  return any;
}

bool ShmPoller::ServeQueue(ShmAttachment* client, uint32_t partition) {
  QueuePair& queue = client->queue(partition);
  const char* requests = nullptr;
  switch (queue.FindRequests(&requests)) {
    case QueuePair::Found::kNothing:
      return false;
    case QueuePair::Found::kCorrupt:
      client->Break();  // who accepts clients sees its end, and takes it from us
      return false;
    case QueuePair::Found::kBatch:
      break;
  }
  const QueuePairOptions& o = queue.options();
  const BatchResult result = store_->RunBatch(partition, {requests, queue.ResponseBufferOfOldest(),
                                                          o.buffer_bytes, o.batch, queue.first()});
  if (result.whole) {
    queue.Answer();
  } else {
    queue.AnswerPart(result.answered);
  }
  return true;
}

bool ShmPoller::HasWork() const {
  const char* requests = nullptr;
  for (const auto& client : clients_) {
    for (uint32_t p = options_.number; p < partitions_; p += options_.threads) {
      if (client->queue(p).FindRequests(&requests) == QueuePair::Found::kBatch) return true;
    }
  }
  return false;
}

// A client that breaks the protocol has to ring, too, to be found out.
void ShmPoller::Sleep() {
  fds_.clear();
  fds_.push_back({wake_.fd(), POLLIN, 0});
  for (const auto& client : clients_) {
    Doorbell& kick = client->kick(options_.number);
    kick.PrepareSleep();
    fds_.push_back({kick.fd(), POLLIN, 0});
  }
  // A change of clients, or the end, sets the event.
  if (!HasWork()) poll(fds_.data(), fds_.size(), -1);  // what interrupts it does no harm
  for (size_t i = 0; i < clients_.size(); ++i) {
    Doorbell& kick = clients_[i]->kick(options_.number);
    kick.LowerFlag();
    if (fds_[i + 1].revents != 0) kick.Drain();
  }
  if (fds_[0].revents != 0) wake_.Clear();
}

}  // namespace pulse::kv
