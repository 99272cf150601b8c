// For the tests of what a client's commands do without a server: an executor on a store of its own,
// and one session. For tests only.
#pragma once

#include <cstdint>
#include <memory>

#include "services/kv/store.h"
#include "services/redis/executor.h"

namespace pulse::kv {

struct TestExecutor {
  explicit TestExecutor(uint64_t memory_bytes = uint64_t{32} << 20)
      : store(Open(memory_bytes)),
        executor(store.get(), &facts),
        session(store->watch_table(), &facts.transactions, false) {
    session.SetUser(facts.users.Anonymous(), facts.users.version());
  }
  static std::unique_ptr<KvStore> Open(uint64_t memory_bytes) {
    KvStoreOptions options;
    options.memory_bytes = memory_bytes;
    return *KvStore::Open(options);
  }
  // What `batch` has.
  redis::Executor::Stop Run(bool may_block = true) {
    return executor.Run(&session, &batch, may_block);
  }

  const std::unique_ptr<KvStore> store;
  redis::ServerFacts facts;
  redis::Executor executor;
  redis::Session session;
  redis::RequestBatch batch;
};

}  // namespace pulse::kv
