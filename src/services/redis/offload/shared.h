// What all connections of an OffloadedResp share. Private to offload_*.
#pragma once

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <utility>

#include "base/worker_pool.h"
#include "services/redis/offload/dirty_table.h"
#include "services/redis/offload/fence.h"
#include "services/redis/offload/resp.h"
#include "services/redis/offload/value_cache.h"

namespace pulse::redis {

struct OffloadShared {
  // The table's hash of a key is that of the engine, so that each key is hashed once.
  OffloadShared(const OffloadOptions& given, std::unique_ptr<ValueCache> cache)
      : options(given),
        table(&clock, given.dirty_words, kv::HashSeed(), given.broken),
        values(std::move(cache)) {}

  const OffloadOptions options;
  CatchUpClock clock;
  DirtyTable table;
  const std::unique_ptr<ValueCache> values;
  OffloadCounters counters;
  std::string agent_id;   // of this agent's connections to the host, and a number
  std::string directory;  // DirectoryIdentity() of the database's
  // The host's, as of the newest connection to it. Another one may know other users.
  std::atomic<uint64_t> run{0};
  std::atomic<uint64_t> last_connection{0};
  std::atomic<size_t> queued{0};  // batches for the pool
  // What a client may ask for whom the host does not know is little then.
  std::atomic<bool> wants_password{options.wants_password};
  // In the order in which they may go: the pool reads the view, the view and the fence_client the
  // table.
  std::unique_ptr<ReadView> view;
  const Secondary* secondary = nullptr;  // the view, where no test has put another in its place
  std::unique_ptr<FenceClient> fence_client;
  std::unique_ptr<WorkerPool> pool;

  // Of a key, now.
  DirtyTable::Version VersionOf(DirtyTable::Slot slot) const {
    DirtyTable::Version version = table.VersionOf(slot);
    version.generation = view->Generation();
    return version;
  }

  static void Count(std::atomic<uint64_t>* counter, uint64_t by = 1) {
    counter->fetch_add(by, std::memory_order_relaxed);
  }
  // Also of the section in INFO.
  std::string Info() const;
};

std::unique_ptr<net::Flow> NewOffloadFlow(std::shared_ptr<OffloadShared> shared,
                                          net::Connection* connection);

}  // namespace pulse::redis
