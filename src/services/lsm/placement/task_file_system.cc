#include "services/lsm/placement/task_file_system.h"

#include <algorithm>
#include <cstdarg>
#include <cstdio>
#include <memory>
#include <string>
#include <vector>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "base/log.h"

namespace pulse::lsm {
namespace {

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

class TaskFileSystem : public FileSystemWrapper {
 public:
  TaskFileSystem(std::shared_ptr<FileSystem> base, std::string output_dir)
      : FileSystemWrapper(std::move(base)), output_dir_(std::move(output_dir)) {}

  static const char* kClassName() { return "PulseTaskFileSystem"; }
  const char* Name() const override { return kClassName(); }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* out, IODebugContext* dbg) override {
    IOStatus s = CheckOurs(path);
    return s.ok() ? target()->NewWritableFile(path, options, out, dbg) : s;
  }

  IOStatus ReopenWritableFile(const std::string& path, const FileOptions& options,
                              std::unique_ptr<FSWritableFile>* out, IODebugContext* dbg) override {
    IOStatus s = CheckOurs(path);
    return s.ok() ? target()->ReopenWritableFile(path, options, out, dbg) : s;
  }

  IOStatus ReuseWritableFile(const std::string& path, const std::string& old_path,
                             const FileOptions& options, std::unique_ptr<FSWritableFile>* out,
                             IODebugContext* dbg) override {
    IOStatus s = CheckOurs(path);
    if (s.ok()) s = CheckOurs(old_path);
    return s.ok() ? target()->ReuseWritableFile(path, old_path, options, out, dbg) : s;
  }

  IOStatus NewRandomRWFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSRandomRWFile>* out, IODebugContext* dbg) override {
    IOStatus s = CheckOurs(path);
    return s.ok() ? target()->NewRandomRWFile(path, options, out, dbg) : s;
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override {
    IOStatus s = CheckOurs(path);
    return s.ok() ? target()->DeleteFile(path, options, dbg) : s;
  }

  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* dbg) override {
    IOStatus s = CheckOurs(from);
    if (s.ok()) s = CheckOurs(to);
    return s.ok() ? target()->RenameFile(from, to, options, dbg) : s;
  }

  IOStatus LinkFile(const std::string& from, const std::string& to, const IOOptions& options,
                    IODebugContext* dbg) override {
    IOStatus s = CheckOurs(to);
    return s.ok() ? target()->LinkFile(from, to, options, dbg) : s;
  }

  IOStatus Truncate(const std::string& path, size_t size, const IOOptions& options,
                    IODebugContext* dbg) override {
    IOStatus s = CheckOurs(path);
    return s.ok() ? target()->Truncate(path, size, options, dbg) : s;
  }

  IOStatus CreateDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override {
    IOStatus s = CheckOurs(path);
    return s.ok() ? target()->CreateDir(path, options, dbg) : s;
  }

  IOStatus CreateDirIfMissing(const std::string& path, const IOOptions& options,
                              IODebugContext* dbg) override {
    if (CheckOurs(path).ok()) return target()->CreateDirIfMissing(path, options, dbg);
    return target()->FileExists(path, options, dbg);  // the database's are there
  }

  IOStatus DeleteDir(const std::string& path, const IOOptions& options,
                     IODebugContext* dbg) override {
    IOStatus s = CheckOurs(path);
    return s.ok() ? target()->DeleteDir(path, options, dbg) : s;
  }

  IOStatus LockFile(const std::string& path, const IOOptions& options, FileLock** lock,
                    IODebugContext* dbg) override {
    IOStatus s = CheckOurs(path);
    return s.ok() ? target()->LockFile(path, options, lock, dbg) : s;
  }

  IOStatus GetChildren(const std::string& dir, const IOOptions& options,
                       std::vector<std::string>* out, IODebugContext* dbg) override {
    IOStatus s = target()->GetChildren(dir, options, out, dbg);
    out->erase(std::remove_if(out->begin(), out->end(), IsWriteAheadLog), out->end());
    return s;
  }

  IOStatus GetChildrenFileAttributes(const std::string& dir, const IOOptions& options,
                                     std::vector<FileAttributes>* out,
                                     IODebugContext* dbg) override {
    IOStatus s = target()->GetChildrenFileAttributes(dir, options, out, dbg);
    out->erase(std::remove_if(out->begin(), out->end(),
                              [](const auto& a) { return IsWriteAheadLog(a.name); }),
               out->end());
    return s;
  }

  IOStatus NewLogger(const std::string&, const IOOptions&, std::shared_ptr<rocksdb::Logger>* out,
                     IODebugContext*) override {
    *out = std::make_shared<ErrorLogger>();
    return IOStatus::OK();
  }

 private:
  // OK for what lies below the output directory.
  IOStatus CheckOurs(const std::string& path) const {
    const bool below = path == output_dir_ || absl::StartsWith(path, output_dir_ + "/");
    if (below && path.find("/../") == std::string::npos) return IOStatus::OK();
    return IOStatus::NotSupported("a whole compaction writes only below " + output_dir_, path);
  }

  const std::string output_dir_;
};

}  // namespace

std::shared_ptr<FileSystem> NewTaskFileSystem(std::shared_ptr<FileSystem> base,
                                              std::string output_dir) {
  return std::make_shared<TaskFileSystem>(std::move(base), std::move(output_dir));
}

}  // namespace pulse::lsm
