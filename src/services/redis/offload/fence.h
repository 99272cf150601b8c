// FenceClient: learns from the host that commands of a lost connection can run no more, and settles
// their keys then. Each connection to the host has an id of its own (PULSE.HELLO, answered before
// any command is sent), and PULSE.FENCE on a fresh connection is answered when the host has no
// connection of that id and no command of it under way; a host that was started anew has none.
// Without an answer, it is asked again, for as long as it takes: the keys stay dirty meanwhile.
//
// Threads: Add from any; never blocks. One thread of its own, which blocks on the host's socket.
// Memory: a word for each command that was in flight, bounded by the director's limits.
#pragma once

#include <atomic>
#include <condition_variable>
#include <functional>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "services/redis/offload/dirty_table.h"

namespace pulse::redis {

class FenceClient {
 public:
  // Followed by a prefix, an id that stands for all connections that exist when the host is asked,
  // except those whose ids have this prefix.
  static constexpr const char* kAllExcept = "!";

  // `settled` is called after slots were settled, on the client's own thread.
  FenceClient(std::string host, DirtyTable* table, std::function<void()> settled);
  ~FenceClient();

  // Settles `slots` once the host has no connection of this id and no command of it.
  void AwaitFence(std::string id, std::vector<DirtyTable::Slot> slots);
  // Fences that the host has answered.
  uint64_t fences() const { return fences_.load(std::memory_order_relaxed); }

 private:
  struct LostConnection {
    std::string id;
    std::vector<DirtyTable::Slot> slots;
  };
  void Run();
  absl::Status RequestFence(const std::string& id);

  const std::string host_;
  DirtyTable* const table_;
  const std::function<void()> settled_;
  std::mutex mu_;
  std::condition_variable wake_;
  std::vector<LostConnection> lost_;
  bool stop_ = false;
  std::atomic<uint64_t> fences_{0};
  std::thread thread_;
};

}  // namespace pulse::redis
