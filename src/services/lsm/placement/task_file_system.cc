#include "services/lsm/placement/task_file_system.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace pulse::lsm {
namespace {

using rocksdb::FileOptions;
using rocksdb::IOStatus;

// Errors to the agent's log, the rest nowhere.
class ErrorLogger : public rocksdb::Logger {
 public:
  ErrorLogger() : Logger(rocksdb::InfoLogLevel::ERROR_LEVEL) {}

  using Logger::Logv;
  void Logv(const char* format, va_list args) override {
    char line[512];
    std::vsnprintf(line, sizeof(line), format, args);
    Log(LogLevel::kInfo, absl::StrCat("whole compaction: ", line));
  }
};

bool IsWriteAheadLog(const std::string& name) { return absl::EndsWith(name, ".log"); }

}  // namespace

IOStatus TaskFileSystem::CheckOurs(const std::string& path) const {
  const bool below = path == output_dir_ || absl::StartsWith(path, output_dir_ + "/");
  if (below && path.find("/../") == std::string::npos) return IOStatus::OK();
  return IOStatus::NotSupported("a whole compaction writes only below " + output_dir_, path);
}

IOStatus TaskFileSystem::NewWritableFile(const std::string& path, const FileOptions& options,
                                         std::unique_ptr<rocksdb::FSWritableFile>* out,
                                         IODebugContext* dbg) {
  IOStatus s = CheckOurs(path);
  return s.ok() ? target()->NewWritableFile(path, options, out, dbg) : s;
}

IOStatus TaskFileSystem::ReopenWritableFile(const std::string& path, const FileOptions& options,
                                            std::unique_ptr<rocksdb::FSWritableFile>* out,
                                            IODebugContext* dbg) {
  IOStatus s = CheckOurs(path);
  return s.ok() ? target()->ReopenWritableFile(path, options, out, dbg) : s;
}

IOStatus TaskFileSystem::ReuseWritableFile(const std::string& path, const std::string& old_path,
                                           const FileOptions& options,
                                           std::unique_ptr<rocksdb::FSWritableFile>* out,
                                           IODebugContext* dbg) {
  IOStatus s = CheckOurs(path);
  if (s.ok()) s = CheckOurs(old_path);
  return s.ok() ? target()->ReuseWritableFile(path, old_path, options, out, dbg) : s;
}

IOStatus TaskFileSystem::NewRandomRWFile(const std::string& path, const FileOptions& options,
                                         std::unique_ptr<rocksdb::FSRandomRWFile>* out,
                                         IODebugContext* dbg) {
  IOStatus s = CheckOurs(path);
  return s.ok() ? target()->NewRandomRWFile(path, options, out, dbg) : s;
}

IOStatus TaskFileSystem::DeleteFile(const std::string& path, const IOOptions& options,
                                    IODebugContext* dbg) {
  IOStatus s = CheckOurs(path);
  return s.ok() ? target()->DeleteFile(path, options, dbg) : s;
}

IOStatus TaskFileSystem::RenameFile(const std::string& from, const std::string& to,
                                    const IOOptions& options, IODebugContext* dbg) {
  IOStatus s = CheckOurs(from);
  if (s.ok()) s = CheckOurs(to);
  return s.ok() ? target()->RenameFile(from, to, options, dbg) : s;
}

IOStatus TaskFileSystem::LinkFile(const std::string& from, const std::string& to,
                                  const IOOptions& options, IODebugContext* dbg) {
  IOStatus s = CheckOurs(to);
  return s.ok() ? target()->LinkFile(from, to, options, dbg) : s;
}

IOStatus TaskFileSystem::Truncate(const std::string& path, size_t size, const IOOptions& options,
                                  IODebugContext* dbg) {
  IOStatus s = CheckOurs(path);
  return s.ok() ? target()->Truncate(path, size, options, dbg) : s;
}

IOStatus TaskFileSystem::CreateDir(const std::string& path, const IOOptions& options,
                                   IODebugContext* dbg) {
  IOStatus s = CheckOurs(path);
  return s.ok() ? target()->CreateDir(path, options, dbg) : s;
}

IOStatus TaskFileSystem::CreateDirIfMissing(const std::string& path, const IOOptions& options,
                                            IODebugContext* dbg) {
  if (CheckOurs(path).ok()) return target()->CreateDirIfMissing(path, options, dbg);
  return target()->FileExists(path, options, dbg);  // the database's are there
}

IOStatus TaskFileSystem::DeleteDir(const std::string& path, const IOOptions& options,
                                   IODebugContext* dbg) {
  IOStatus s = CheckOurs(path);
  return s.ok() ? target()->DeleteDir(path, options, dbg) : s;
}

IOStatus TaskFileSystem::LockFile(const std::string& path, const IOOptions& options,
                                  rocksdb::FileLock** lock, IODebugContext* dbg) {
  IOStatus s = CheckOurs(path);
  return s.ok() ? target()->LockFile(path, options, lock, dbg) : s;
}

IOStatus TaskFileSystem::GetChildren(const std::string& dir, const IOOptions& options,
                                     std::vector<std::string>* out, IODebugContext* dbg) {
  IOStatus s = target()->GetChildren(dir, options, out, dbg);
  out->erase(std::remove_if(out->begin(), out->end(), IsWriteAheadLog), out->end());
  return s;
}

IOStatus TaskFileSystem::GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                                   std::vector<rocksdb::FileAttributes>* out,
                                                   IODebugContext* dbg) {
  IOStatus s = target()->GetChildrenFileAttributes(dir, options, out, dbg);
  out->erase(std::remove_if(out->begin(), out->end(),
                            [](const auto& a) { return IsWriteAheadLog(a.name); }),
             out->end());
  return s;
}

IOStatus TaskFileSystem::NewLogger(const std::string&, const IOOptions&,
                                   std::shared_ptr<rocksdb::Logger>* out, IODebugContext*) {
  *out = std::make_shared<ErrorLogger>();
  return IOStatus::OK();
}

}  // namespace pulse::lsm
