// PeerPoller: a thread that serves processes that share memory with it. Without work it looks for a
// bounded time, and then sleeps until a peer wakes it.
//
// Threads: SetPeers is for one other thread; it waits until the poller has let the former peers go.
// The destructor ends the thread. PeerWork is called on the thread alone.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/wake_event.h"
#include "services/kv/shm/peer.h"

namespace pulse::kv {

// What the thread does.
class PeerWork {
 public:
  virtual ~PeerWork() = default;
  // Serves each peer a little. Returns how much it has found: 0: nothing.
  virtual size_t Serve(const ShmPeers& peers) = 0;
  virtual bool HasWork(const ShmPeers& peers) = 0;
  // The peer is served no more.
  virtual void Leave(ShmPeer* peer) {}
  // Something else that wakes the thread, or -1: asked whether there is nothing before it sleeps,
  // and told when it does no longer.
  virtual int wake_fd() const { return -1; }
  virtual bool MaySleep() { return true; }
  virtual void Woke(bool readable) {}
};

class PeerPoller {
 public:
  struct Options {
    std::string name;        // of the thread
    uint32_t number = 0;     // of the thread, for ShmPeer::kick
    int64_t spin_nanos = 0;  // for how long it looks before it sleeps, at the most
    std::vector<int> cpus;   // empty: any
  };
  // `work` outlives it.
  static absl::StatusOr<std::unique_ptr<PeerPoller>> Start(PeerWork* work, const Options& options);
  ~PeerPoller();

  void SetPeers(const ShmPeers& peers);
  // CPU time of the thread.
  int64_t cpu_nanos() const;

 private:
  PeerPoller(PeerWork* work, const Options& options, WakeEvent wake);
  void Loop();
  void TakeUpPeers();
  void Sleep();

  PeerWork* const work_;
  const Options options_;
  const WakeEvent wake_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  ShmPeers next_;                        // those of `generation_`
  std::atomic<uint64_t> generation_{0};  // changes of SetPeers
  std::atomic<uint64_t> taken_up_{0};
  // The thread's.
  ShmPeers peers_;
  std::vector<pollfd> fds_;
  std::thread thread_;
  clockid_t clock_{};
};

}  // namespace pulse::kv
