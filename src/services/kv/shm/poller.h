// ShmPoller: a thread that carries out the requests of all shared-memory clients on its share of
// the partitions. Each client has one batch of a partition carried out in a turn, so that none
// keeps the others waiting. Without requests it looks for a bounded time, and then sleeps until a
// client wakes it.
//
// Threads: SetClients is for one other thread; it waits until the poller has let the former clients
// go. The destructor ends the thread.
#pragma once

#include <poll.h>

#include <atomic>
#include <cstdint>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/wake_event.h"
#include "services/kv/shm/attachment.h"
#include "services/kv/store.h"

namespace pulse::kv {

using ShmClients = std::vector<std::shared_ptr<ShmAttachment>>;

class ShmPoller {
 public:
  // Serves the partitions p with p % threads == number.
  struct Options {
    uint32_t number = 0;
    uint32_t threads = 1;
    int64_t spin_nanos = 0;
    std::vector<int> cpus = {};  // empty: any
  };
  static absl::StatusOr<std::unique_ptr<ShmPoller>> Start(KvStore* store, const Options& options);
  ~ShmPoller();

  void SetClients(const ShmClients& clients);

 private:
  ShmPoller(KvStore* store, const Options& options, WakeEvent wake);
  void Loop();
  void TakeUpClients();
  bool Serve();  // false: there was nothing to do
  bool ServeQueue(ShmAttachment* client, uint32_t partition);
  bool HasWork() const;
  void Sleep();

  KvStore* const store_;
  const Options options_;
  const uint32_t partitions_;
  const WakeEvent wake_;
  std::atomic<bool> stopping_{false};
  std::mutex mutex_;
  ShmClients next_;                      // those of `generation_`
  std::atomic<uint64_t> generation_{0};  // changes of SetClients
  std::atomic<uint64_t> taken_up_{0};
  // The thread's.
  ShmClients clients_;
  std::vector<pollfd> fds_;
  std::thread thread_;
};

}  // namespace pulse::kv
