// CompactionDebt: how much databases have to compact, of what they may leave for later; and which
// compactions are not to be late. RocksDB's own estimate and limits
// (docs/internals/lsm-placement.md).
//
// Of placement=adaptive; else nothing may be left. Thread-safe. Note takes RocksDB's mutex: not to
// be called with it.
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

class CompactionDebt {
 public:
  // `families`: those of the databases. What others there are may be of a style that tells nothing:
  // then nothing may be left.
  CompactionDebt(const Options& options,
                 const std::vector<rocksdb::ColumnFamilyDescriptor>& families);

  // In bytes to be compacted; 0: nothing.
  uint64_t limit() const { return limit_; }
  // It begins with so many tables of level 0 that writers will soon wait for it.
  bool IsPressing(const rocksdb::CompactionJobInfo& info) const;
  // A compaction of the database in `home` begins, or has ended.
  void Note(rocksdb::DB* db, const std::string& home, const std::string& family);
  // The database was closed.
  void Forget(const std::string& home);
  // The worst of all, as a part of the limit; below 0: not known.
  double Owed() const;

 private:
  const uint64_t limit_;
  std::map<std::string, size_t> many_l0_;  // tables, by column family
  mutable std::mutex mu_;
  std::map<std::string, double> owed_;  // by the database's directory
};

}  // namespace pulse::lsm
