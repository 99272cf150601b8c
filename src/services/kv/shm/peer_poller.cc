#include "services/kv/shm/peer_poller.h"

#include <poll.h>
#include <pthread.h>

#include <algorithm>
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

absl::StatusOr<std::unique_ptr<PeerPoller>> PeerPoller::Start(PeerWork* work,
                                                              const Options& options) {
  PULSE_ASSIGN_OR_RETURN(WakeEvent wake, WakeEvent::Create());
  std::unique_ptr<PeerPoller> poller(new PeerPoller(work, options, std::move(wake)));
  poller->thread_ = std::thread([p = poller.get()] { p->Loop(); });
  pthread_getcpuclockid(poller->thread_.native_handle(), &poller->clock_);
  return poller;
}

PeerPoller::PeerPoller(PeerWork* work, const Options& options, WakeEvent wake)
    : work_(work), options_(options), wake_(std::move(wake)) {}

PeerPoller::~PeerPoller() {
  stopping_.store(true);
  wake_.Set();
  thread_.join();
}

int64_t PeerPoller::cpu_nanos() const { return std::max<int64_t>(0, ClockNanos(clock_)); }

void PeerPoller::SetPeers(const ShmPeers& peers) {
  uint64_t wanted = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    next_ = peers;
    wanted = generation_.fetch_add(1) + 1;
  }
  wake_.Set();
  for (uint64_t seen = taken_up_.load(); seen != wanted; seen = taken_up_.load()) {
    taken_up_.wait(seen);
  }
}

void PeerPoller::TakeUpPeers() {
  ShmPeers former;
  uint64_t generation = 0;
  {
    const std::lock_guard<std::mutex> lock(mutex_);
    former = std::exchange(peers_, next_);
    generation = generation_.load();
  }
  for (const auto& peer : former) {
    if (std::find(peers_.begin(), peers_.end(), peer) == peers_.end()) work_->Leave(peer.get());
  }
  former.clear();
  taken_up_.store(generation);
  taken_up_.notify_all();
}

void PeerPoller::Loop() {
  pthread_setname_np(pthread_self(), options_.name.c_str());
  if (const absl::Status status = SetThreadAffinity(options_.cpus); !status.ok()) {
    LogOnce("shm-cpus", status.message());
  }
  AdaptiveSpin spin(options_.spin_nanos);
  int64_t idle_since = 0;
  int looks = 0;
  while (!stopping_.load(std::memory_order_relaxed)) {
    if (generation_.load(std::memory_order_acquire) != taken_up_.load(std::memory_order_relaxed)) {
      TakeUpPeers();
    }
    if (work_->Serve(peers_) > 0) {
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
  for (const auto& peer : peers_) work_->Leave(peer.get());
}

// A peer that breaks the protocol has to ring, too, to be found out.
void PeerPoller::Sleep() {
  fds_.clear();
  fds_.push_back({wake_.fd(), POLLIN, 0});
  fds_.push_back({work_->wake_fd(), POLLIN, 0});
  for (const auto& peer : peers_) {
    Doorbell& kick = peer->kick(options_.number);
    kick.PrepareSleep();
    fds_.push_back({kick.fd(), POLLIN, 0});
  }
  // A change of peers, or the end, sets the event.
  if (work_->MaySleep() && !work_->HasWork(peers_)) {
    poll(fds_.data(), fds_.size(), -1);  // what interrupts it does no harm
  }
  for (size_t i = 0; i < peers_.size(); ++i) {
    Doorbell& kick = peers_[i]->kick(options_.number);
    kick.LowerFlag();
    if (fds_[i + 2].revents != 0) kick.Drain();
  }
  work_->Woke(fds_[1].revents != 0);
  if (fds_[0].revents != 0) wake_.Clear();
}

}  // namespace pulse::kv
