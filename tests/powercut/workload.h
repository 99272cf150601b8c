// A random life of a small database on the simulated disk: writes of all kinds, flushes,
// compactions, ingestion, checkpoints, column families, closing and opening. The seed chooses the
// options, too.
#pragma once

#include <cstdint>
#include <memory>
#include <string>

#include "powercut/history.h"
#include "powercut/op_log.h"
#include "powercut/sim_disk.h"
#include "rocksdb/env.h"
#include "rocksdb/options.h"

namespace pulse::powercut {

enum class Engine : uint8_t {
  kStock,    // RocksDB's own file system
  kThreads,  // the plug-in; the agent's I/O passes the C library
  kUring,    // the plug-in; the agent's I/O is recorded by RecordingBackend
};

struct RunConfig {
  Engine engine = Engine::kThreads;
  uint64_t seed = 1;
  int steps = 1500;
  std::string uri_options;  // added to the plug-in's
  bool pool = false;        // tables are in a pool on the same disk
  SimDiskOptions disk;

  std::string ToString() const;
};

// What came of it, with all that is needed to make crash images and judge them.
struct RecordedRun {
  OpLog log;
  size_t begin = 0;  // the operations before this one made what was on the disk at the start
  History history;
  std::string failure;     // of an operation, though the disk was healthy
  bool two_paths = false;  // the database has tables in directory "db2", too
  bool wal_dir = false;    // its logs are in directory "wal"
  bool pool = false;       // its tables are in the pool of this name
  std::string root;        // where the disk was: a pool knows directories by their paths

  template <typename Archive>
  void Visit(Archive& a) {
    a(log, begin, history, failure, two_paths, wal_dir, pool, root);
  }
};

// Runs it in directory `root`, which must exist and be empty. The database is in root/db.
RecordedRun RunWorkload(const RunConfig& config, const std::string& root);

// A new pool on the disk at `root`. False if it cannot be made.
bool MakePool(const std::string& root);

// More options for a URI: tables in that pool.
std::string PoolOptions(const std::string& root);

// The plug-in on the pool of the disk at `root`; null if it cannot be opened, for *why.
std::unique_ptr<rocksdb::Env> OpenPool(const std::string& root, std::string* why);

// Options to open a database of these workloads with, without the plug-in.
rocksdb::Options StockOptions();

}  // namespace pulse::powercut
