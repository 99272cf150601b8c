// The in-memory store's server on a port of the kernel's choice, as `pulse kv` puts it together.
// For tests only.
#pragma once

#include <gtest/gtest.h>

#include <memory>
#include <string>
#include <vector>

#include "base/cpu_list.h"
#include "services/kv/memcached/flow.h"
#include "services/kv/store.h"
#include "services/redis/commands/cluster.h"
#include "services/redis/designs.h"
#include "services/redis/test_server.h"

namespace pulse::kv {

class KvServerTest : public testing::Test {
 protected:
  // `agent` false: it has no CPUs.
  void Open(int threads = 1, bool agent = true) {
    OpenOn(threads, MyCpus(), agent ? MyCpus() : std::vector<int>());
  }
  // Host and agent have a CPU each, where there are two.
  void OpenApart(int threads) {
    const std::vector<int> cpus = MyCpus();
    OpenOn(threads, {cpus.front()}, {cpus.back()});
  }
  void OpenOn(int threads, const std::vector<int>& host_cpus, const std::vector<int>& agent_cpus) {
    options_.threads = threads;
    designs_ = std::make_unique<redis::Designs>(threads, host_cpus, agent_cpus, no_dual_);
    options_.designs = designs_.get();
    options_.cluster = cluster_.get();
    options_.keyspace = [this, threads](const redis::KeyspaceLimits& limits)
        -> absl::StatusOr<std::unique_ptr<redis::Keyspace>> {
      KvStoreOptions store;
      store.memory_bytes = memory_bytes_;
      store.agent_memory_bytes = agent_memory_bytes_;
      store.partitions = threads;
      store.limits = limits;
      store.designs = designs_.get();
      store.cluster = cluster_.get();
      auto opened = KvStore::Open(store);
      if (!opened.ok()) return opened.status();
      store_ = opened->get();
      memcached::ExecutorOptions of_memcached;
      of_memcached.max_value = (*opened)->options().limits.max_value;
      of_memcached.endpoints = cluster_.get();
      memcached_ = std::make_unique<memcached::Executor>(store_, &counters_, of_memcached);
      return opened;
    };
    options_.other.is_it = &memcached::LooksLikeMemcached;
    options_.other.make = [this](net::Connection* connection, WorkerPool* workers) {
      return std::make_unique<memcached::MemcachedFlow>(memcached_.get(), workers, designs_.get(),
                                                        connection);
    };
    options_.other.counts = [this] { return counters_.Totals(); };
    auto server = redis::Server::Open(options_);
    ASSERT_TRUE(server.ok()) << server.status();
    server_ = *std::move(server);
  }
  ~KvServerTest() override {
    if (server_ != nullptr) {
      EXPECT_TRUE(server_->Stop().ok());
    }
  }
  uint16_t port() const { return server_->port(); }

  uint64_t memory_bytes_ = uint64_t{64} << 20;
  uint64_t agent_memory_bytes_ = 0;
  std::string no_dual_;
  redis::ServeOptions options_;
  std::unique_ptr<redis::Designs> designs_;  // these outlive the server
  std::unique_ptr<redis::Cluster> cluster_;  // made by a test that needs one, before Open
  memcached::Counters counters_;
  std::unique_ptr<memcached::Executor> memcached_;
  std::unique_ptr<redis::Server> server_;
  KvStore* store_ = nullptr;  // the server's
};

}  // namespace pulse::kv
