#include "services/redis/store_log.h"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <cstring>
#include <ctime>
#include <filesystem>
#include <fstream>
#include <string_view>
#include <system_error>
#include <utility>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/crc32c.h"
#include "base/log.h"
#include "base/unique_fd.h"
#include "rocksdb/env.h"
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

// The log's files, the oldest first.
std::vector<fs::path> LogFiles(const std::string& path) {
  std::vector<fs::path> files;
  std::error_code error;
  for (const auto& entry : fs::directory_iterator(path, error)) {
    if (entry.path().extension() == ".log") files.push_back(entry.path());
  }
  // Numbers of six digits, and then of more.
  std::sort(files.begin(), files.end(), [](const fs::path& a, const fs::path& b) {
    const auto& x = a.native();
    const auto& y = b.native();
    return x.size() != y.size() ? x.size() < y.size() : x < y;
  });
  return files;
}

// Looks for a write that begins behind a place where the log is damaged. RocksDB's format: blocks
// of 32 KiB; in them records of a checksum (4), a length (2), a kind (1) and bytes: a whole write,
// or the first, a middle or the last part of one.
class DamageScan {
 public:
  static constexpr size_t kBlock = 32 << 10;

  // The next block of a log, or its last piece. True: there is one.
  bool TakeBlock(std::string_view block) {
    while (block.size() >= kHeader) {
      uint32_t stored = 0;
      uint16_t length = 0;
      std::memcpy(&stored, block.data(), sizeof(stored));
      std::memcpy(&length, block.data() + 4, sizeof(length));
      const auto kind = static_cast<uint8_t>(block[6]);
      if (kHeader + length > block.size() || kind < kWhole || kind > kLast) {
        damaged_ = true;
        return false;
      }
      const bool sound = MaskedCrc32c(Crc32c(block.data() + 6, size_t{1} + length)) == stored;
      // The parts of one write may have come to the device in any order.
      if (sound && damaged_ && (kind == kWhole || kind == kFirst)) return true;
      damaged_ = damaged_ || !sound;
      block.remove_prefix(kHeader + length);
    }
    return false;
  }

 private:
  static constexpr size_t kHeader = 7;
  enum Kind : uint8_t { kWhole = 1, kFirst = 2, kMiddle = 3, kLast = 4 };

  bool damaged_ = false;
};

bool IsDamagedBeforeItsEnd(const std::string& path) {
  DamageScan scan;
  std::string block(DamageScan::kBlock, 0);
  for (const fs::path& file : LogFiles(path)) {
    std::ifstream in(file, std::ios::binary);
    while (in.read(block.data(), DamageScan::kBlock), in.gcount() > 0) {
      if (scan.TakeBlock({block.data(), static_cast<size_t>(in.gcount())})) return true;
    }
  }
  return false;
}

// Second names of the log's files, or copies, which stay when RocksDB deletes the first ones.
absl::Status KeepLog(const std::string& path, const std::string& to) {
  std::error_code error;
  fs::create_directory(to, error);
  for (const fs::path& file : LogFiles(path)) {
    if (error) break;
    const fs::path kept = fs::path(to) / file.filename();
    fs::create_hard_link(file, kept, error);
    if (error) fs::copy_file(file, kept, error);
  }
  if (!error) return absl::OkStatus();
  return absl::UnavailableError(
      absl::StrCat("keeping a copy of the damaged log in ", to, ": ", error.message()));
}

// What RocksDB tells of itself, LOG beside the tables. RocksDB's own writer of it ends the process
// at the next line where one could not be written, as on a full disk; this one drops lines.
class InfoLog : public rocksdb::Logger {
 public:
  explicit InfoLog(UniqueFd fd) : fd_(std::move(fd)) {}
  using rocksdb::Logger::Logv;
  void Logv(const char* format, va_list arguments) override {
    char text[2048];
    const int64_t millis = WallMillis();
    const time_t seconds = millis / 1000;
    struct tm now;
    gmtime_r(&seconds, &now);
    size_t size = std::strftime(text, sizeof(text), "%Y/%m/%d-%H:%M:%S", &now);
    size += static_cast<size_t>(
        snprintf(text + size, sizeof(text) - size, ".%03d ", static_cast<int>(millis % 1000)));
    const int more = vsnprintf(text + size, sizeof(text) - size - 1, format, arguments);
    if (more > 0) size = std::min(size + static_cast<size_t>(more), sizeof(text) - 2);
    if (text[size - 1] != '\n') text[size++] = '\n';
    if (write(fd_.get(), text, size) < 0) return;
  }

 private:
  const UniqueFd fd_;
};

std::shared_ptr<rocksdb::Logger> OpenInfoLog(const std::string& path) {
  std::error_code error;
  fs::create_directory(path, error);
  const std::string name = path + "/LOG";
  fs::rename(name, name + ".old", error);
  UniqueFd fd(open(name.c_str(), O_WRONLY | O_CREAT | O_APPEND | O_CLOEXEC, 0644));
  // Without one RocksDB would make its own.
  if (!fd.valid()) fd = UniqueFd(open("/dev/null", O_WRONLY | O_CLOEXEC));
  return std::make_shared<InfoLog>(std::move(fd));
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
  how.info_log = OpenInfoLog(path);
  // Nothing is torn where it was closed, or killed with its machine alive.
  how.wal_recovery_mode = rocksdb::WALRecoveryMode::kAbsoluteConsistency;
  rocksdb::Status status = OpenDatabaseAt(how, path, db);
  if (status.ok()) return absl::OkStatus();
  if (!status.IsCorruption()) return OpenError(path, status);
  const std::string damage = status.ToString();
  // All up to the damage, and nothing behind it.
  how.wal_recovery_mode = rocksdb::WALRecoveryMode::kPointInTimeRecovery;
  {
    std::unique_ptr<rocksdb::DB> rest;
    status = OpenToReadAt(how, path, &rest);
  }
  if (!status.ok()) return OpenError(path, status);  // it is not the log alone
  const bool lost = IsDamagedBeforeItsEnd(path);
  if (lost && damaged_log == DamagedLog::kRefuse) {
    return absl::DataLossError(absl::StrCat(
        "--db ", path, ": the log of the last writes is damaged: ", damage,
        "; restore it from a copy, or start once with --damaged-log cut, which goes on with what "
        "was written before the damage and keeps a copy of the log"));
  }
  const std::string kept = absl::StrCat(path, "/damaged-log-", WallMillis());
  if (lost) {
    if (absl::Status st = KeepLog(path, kept); !st.ok()) return st;
  }
  status = OpenDatabaseAt(how, path, db);
  if (!status.ok()) return OpenError(path, status);
  if (!lost) return absl::OkStatus();
  Log(LogLevel::kError,
      absl::StrCat("--db ", path, ": the log was damaged: ", damage,
                   "; what was written behind the damage is lost; a copy of the log is in ", kept));
  return absl::OkStatus();
}

}  // namespace pulse::redis
