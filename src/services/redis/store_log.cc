#include "services/redis/store_log.h"

#include <algorithm>
#include <filesystem>
#include <system_error>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/log.h"
#include "services/redis/open_database.h"

namespace pulse::redis {
namespace {

namespace fs = std::filesystem;

absl::Status OpenError(const std::string& path, const rocksdb::Status& status) {
  const std::string text = status.ToString();
  if (status.IsIOError() && absl::StrContains(text, absl::StrCat(path, "/LOCK:"))) {
    return absl::FailedPreconditionError(
        absl::StrCat("--db ", path, " is in use by another process: ", text,
                     "; stop that one, or choose another directory"));
  }
  if (status.IsCorruption()) {
    return absl::DataLossError(
        absl::StrCat("opening --db ", path, ": it is damaged: ", text, "; restore it from a copy"));
  }
  if (status.IsInvalidArgument()) {
    return absl::FailedPreconditionError(absl::StrCat(
        "--db ", path, " is a database of another program: ", text, "; choose another directory"));
  }
  return absl::UnavailableError(
      absl::StrCat("opening --db ", path, ": ", text,
                   "; expected a directory that this process may write, in one that exists"));
}

// Second names of the log's files, which stay when RocksDB deletes the first ones.
absl::Status KeepLog(const std::string& path, const std::string& to) {
  std::error_code error;
  fs::create_directory(to, error);
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (error) break;
    if (entry.path().extension() != ".log") continue;
    fs::create_hard_link(entry.path(), fs::path(to) / entry.path().filename(), error);
    if (error) break;
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("keeping a copy of the damaged log in ", to, ": ", error.message()));
}

}  // namespace

void LogWatch::OnBackgroundError(rocksdb::BackgroundErrorReason reason, rocksdb::Status*) {
  if (reason == rocksdb::BackgroundErrorReason::kWriteCallback) {
    failed_.store(true, std::memory_order_release);
  }
}

void LogWatch::OnErrorRecoveryEnd(const rocksdb::BackgroundErrorRecoveryInfo& info) {
  if (info.new_bg_error.ok()) failed_.store(false, std::memory_order_release);
}

absl::Status OpenWithLog(const rocksdb::Options& options, const std::string& path,
                         DamagedLog damaged_log, std::unique_ptr<rocksdb::DB>* db) {
  rocksdb::Options how = options;
  how.wal_recovery_mode = rocksdb::WALRecoveryMode::kTolerateCorruptedTailRecords;
  rocksdb::Status status = OpenDatabaseAt(how, path, db);
  if (status.ok()) return absl::OkStatus();
  if (!status.IsCorruption()) return OpenError(path, status);
  // It is the log where all but the log can be opened.
  how.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  const std::string damage = status.ToString();
  if (damaged_log == DamagedLog::kRefuse) {
    std::unique_ptr<rocksdb::DB> rest;
    if (!OpenToReadAt(how, path, &rest).ok()) return OpenError(path, status);
    return absl::DataLossError(absl::StrCat(
        "--db ", path, ": the log of the last writes is damaged: ", damage,
        "; restore it from a copy, or start once with --damaged-log cut, which goes on with what "
        "was written before the damage and keeps a copy of the log"));
  }
  const std::string kept = absl::StrCat(path, "/damaged-log-", WallMillis());
  if (absl::Status st = KeepLog(path, kept); !st.ok()) return st;
  status = OpenDatabaseAt(how, path, db);
  if (!status.ok()) return OpenError(path, status);
  Log(LogLevel::kError,
      absl::StrCat("--db ", path, ": the log was damaged: ", damage,
                   "; what was written behind the damage is lost; a copy of the log is in ", kept));
  return absl::OkStatus();
}

}  // namespace pulse::redis
