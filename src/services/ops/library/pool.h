// Pool: the threads that do a batch's requests, one request each at a time. Each thread has a CPU
// of the host's or the agent's, and its own engines, which it keeps for its next request. An agent
// in another process has a thread for each of its own, and one more, which wait for it
// (agent_lanes.h).
//
// Where either side may do a request, one takes it only if it would finish it no later than the
// other would finish all that waits, by what both have needed for such requests: the scheduler's
// rule (scheduler.h), for requests in place of chunks.
//
// Thread-safe. Submit does not block; Wait does. Threads start with the first Submit. The
// destructor waits for what is under way.
#pragma once

#include <condition_variable>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <thread>
#include <vector>

#include "absl/status/status.h"
#include "services/ops/library/agent_lanes.h"
#include "services/ops/library/request.h"
#include "services/ops/operation.h"
#include "services/ops/rates.h"

namespace pulse::ops {

class Pool {
 public:
  // `numbers` outlives the pool.
  Pool(const Processors& processors, size_t most_under_way, PlacementNumbers* numbers);
  ~Pool();
  Pool(const Pool&) = delete;
  Pool& operator=(const Pool&) = delete;

  // PULSE_OPS_OK, PULSE_OPS_BUSY, or PULSE_OPS_FAILED if threads cannot be started now.
  int Submit(Request request);
  // PULSE_OPS_OK with a result, PULSE_OPS_TIMEOUT or PULSE_OPS_NOTHING.
  int Wait(uint32_t timeout_ms, pulse_ops_result* result);
  size_t under_way() const;

  struct Counts {
    uint64_t submitted = 0;
    uint64_t done_by_host = 0;  // requests, failed ones, too, by threads of each side
    uint64_t done_by_agent = 0;
    uint64_t agent_chunks = 0;     // that an agent in another process did
    uint64_t fallback_chunks = 0;  // that the host did in its place
    bool agent_lost = false;
  };
  Counts counts() const;

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
    RateKey kind;
  };
  struct SideRates {
    Rate host;
    Rate agent;
  };

  // False: they cannot be started, and none is left. Unlocks meanwhile.
  bool StartThreads(std::unique_lock<std::mutex>& lock);
  void JoinThreads();
  void Run(const Thread& thread);
  // A request ended, on a thread of this side. Where it succeeded, rates and metrics have it by who
  // did it: the host, if any of its chunks (`fallen_back`) was done in the agent's place.
  void Done(Side thread, uint64_t fallen_back, const RateKey& kind, const pulse_ops_request& raw,
            bool succeeded, int64_t start);
  // The next item for this side.
  std::deque<Item>::iterator Find(Side side);
  bool IsWorthwhile(const Item& item, Side side);
  size_t ThreadsOf(Side side) const;

  const Processors processors_;
  const size_t most_;
  PlacementNumbers* const numbers_;
  // Of an agent in another process; null: there is none.
  const std::unique_ptr<AgentLanes> lanes_;
  mutable std::mutex mutex_;
  std::condition_variable work_;
  std::condition_variable done_;
  std::vector<Thread> threads_;
  std::deque<Item> items_;
  std::deque<pulse_ops_result> results_;
  size_t under_way_ = 0;
  size_t for_wait_ = 0;  // of these, whose results come by Wait
  std::map<RateKey, SideRates> rates_;
  uint64_t waiting_bytes_ = 0;  // of items_
  uint64_t submitted_ = 0;
  uint64_t done_by_host_ = 0;
  uint64_t done_by_agent_ = 0;
  bool loss_reported_ = false;  // of the agent
  bool stop_ = false;           // threads end when nothing waits
};

}  // namespace pulse::ops
