// The write-ahead log of the database: opening one whose log may be damaged, and knowing when a
// write to it has failed.
#pragma once

#include <atomic>
#include <memory>
#include <string>

#include "absl/status/status.h"
#include "rocksdb/db.h"
#include "rocksdb/listener.h"
#include "services/redis/serve.h"

namespace pulse::redis {

// Whether a write to the log, or a sync, has failed, and the database has not recovered since: who
// syncs such a log ends the process where RocksDB was built with its assertions, as Debian's is.
// Threads: any.
class LogWatch : public rocksdb::EventListener {
 public:
  bool failed() const { return failed_.load(std::memory_order_acquire); }
  void OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status* error) override;
  void OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) override;

 private:
  std::atomic<bool> failed_{false};
};

// Opens the database at `path`, with all writes up to a place where the log is damaged. Of what a
// crash leaves at the log's end nobody is told; where writes begin behind the damage, `damaged_log`
// says what to do. RocksDB by itself would drop these without a word, and then the log. Blocks.
absl::Status OpenWithLog(const rocksdb::Options& options, const std::string& path,
                         DamagedLog damaged_log, std::unique_ptr<rocksdb::DB>* db);

}  // namespace pulse::redis
