// The tests on layout=pool. With PULSE_TEST_LAYOUT=pool in the environment, every "pulse://" of
// this process has its tables in one pool, by way of PULSE_OPTIONS; the helpers of test_support.h
// and test_db.h then look into it where they would look at plain files. ctest runs lsm_test both
// ways.
#pragma once

#include <optional>
#include <string>

#include "rocksdb/env.h"

namespace pulse::lsm::test {

bool OnPool();
const std::string& PoolPath();

// For what is read without the plug-in: null, for RocksDB's own, or on a pool a plug-in that nobody
// else uses.
rocksdb::Env* StockEnv();
// The bytes of a file of the pool, or nothing when it has none of this path.
std::optional<std::string> ReadFromPool(const std::string& path);
// The path of the output that an agent writes through this descriptor of the pool.
std::string PathInPool(int fd);
// Makes a pool of its own for a test; small segments.
void CreatePool(const std::string& path, uint64_t size, uint64_t segment_bytes = 128 << 10);

}  // namespace pulse::lsm::test

// For what says something about plain files only.
#define PULSE_SKIP_ON_POOL(why)                    \
  if (::pulse::lsm::test::OnPool()) {              \
    GTEST_SKIP() << "with layout=pool: " << (why); \
  }
