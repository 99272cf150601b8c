// Pool: the threads that do a batch's requests, one request each at a time. Each thread has a CPU
// of the host's or the agent's, and its own engines, which it keeps for its next request.
//
// Thread-safe. Submit does not block; Wait does. Threads start with the first Submit. The
// destructor waits for what is under way.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "services/ops/library/request.h"
#include "services/ops/operation.h"

namespace pulse::ops {

class Pool {
 public:
  Pool(const Processors& processors, size_t most_under_way);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // PULSE_OPS_OK, PULSE_OPS_BUSY, or PULSE_OPS_FAILED if no thread can be started.
  int Submit(Request request);
  // PULSE_OPS_OK with a result, PULSE_OPS_TIMEOUT or PULSE_OPS_NOTHING.
  int Wait(uint32_t timeout_ms, pulse_ops_result* result);
  size_t under_way() const;

 private:
  struct Thread {
    Side side;
    std::vector<int> cpus;
    std::thread thread;
  };
  struct Item {
    Request request;
    Side side;
    bool any_side;
  };

  bool StartThreads();
  void Run(const Thread& thread);
  // The next item for this side.
  std::deque<Item>::iterator Find(Side side);

  const Processors processors_;
  const size_t most_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::vector<Thread> threads_;
  std::deque<Item> items_;
  std::deque<pulse_ops_result> results_;
  size_t under_way_ = 0;
  size_t for_wait_ = 0;  // of these, whose results come by Wait
  uint64_t submitted_ = 0;
  bool stop_ = false;
};

}  // namespace pulse::ops
