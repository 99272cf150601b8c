// PendingRatio: how much the databases have to compact, as a part of the pending-compaction limit
// (the option debt=): what placement=adaptive may defer while a busy host is spared. By RocksDB's
// own estimate and limits (docs/internals/lsm-placement.md). It also tells which compactions may
// not be slow, because writers are about to stall.
//
// With other placements the limit is 0. Thread-safe. Update takes RocksDB's mutex: not to be called
// with it.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <mutex>
#include <string>
#include <vector>

#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "services/lsm/core/options.h"

namespace pulse::lsm {

class PendingRatio {
 public:
  // `families`: those of the databases. The limit is 0 if one is not of level compaction, for which
  // alone RocksDB estimates, or if there are none.
  PendingRatio(const Options& options,
               const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

  // In bytes to be compacted.
  uint64_t limit() const { return limit_; }
  // The compaction begins with so many tables of level 0 that writers will soon be slowed.
  bool WillStallWriters(const rocksdb::CompactionJobInfo& info) const;
  // A compaction of the database in `home` begins, or has ended.
  void Update(rocksdb::DB* db, const std::string& home, const std::string& family);
  // The database was closed.
  void Forget(const std::string& home);
  // The highest ratio of all databases; 1 and above: at the limit; below 0: unknown.
  double Get() const;

 private:
  const uint64_t limit_;
  std::map<std::string, size_t> stalling_l0_;  // tables, by column family
  mutable std::mutex mu_;
  std::map<std::string, double> ratios_;  // by the database's directory
};

}  // namespace pulse::lsm
