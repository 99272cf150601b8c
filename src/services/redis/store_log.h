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

// Opens the database at `path`. RocksDB by itself would drop what follows a damage of the log
// without a word, and then the log. What a crash leaves at the log's end is no damage; nor does
// RocksDB see one of a length within the last 32 KiB. Blocks.
absl::Status OpenWithLog(const rocksdb::Options& options, const std::string& path,
                         DamagedLog damaged_log, std::unique_ptr<rocksdb::DB>* db);

}  // namespace pulse::redis
