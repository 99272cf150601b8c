// The recording file systems of test_support.h.
#include "services/lsm/core/host_registry.h"
#include "services/lsm/core/manifest_records.h"
#include "services/lsm/core/test_support.h"

namespace pulse::lsm::test {
namespace {

using rocksdb::FileOptions;
using rocksdb::FSDirectory;
using rocksdb::FSWritableFile;
using rocksdb::IODebugContext;
using rocksdb::IOOptions;
using rocksdb::IOStatus;
using rocksdb::Slice;

std::string NameOf(const std::string& path) { return path.substr(path.rfind('/') + 1); }
bool EndsWith(const std::string& s, const std::string& tail) {
  return s.size() >= tail.size() && s.compare(s.size() - tail.size(), tail.size(), tail) == 0;
}
bool IsMeta(const std::string& path) {
  return NameOf(path).rfind("MANIFEST-", 0) == 0 || NameOf(path) == "CURRENT" ||
         EndsWith(path, ".dbtmp");
}
bool IsOutput(const std::string& path, const FileOptions& options) {
  return (EndsWith(path, ".sst") || EndsWith(path, ".blob")) &&
         options.io_options.property_bag.count("pulse.output") != 0;
}

// Logs appends and syncs with the events given, where any.
class RecordingFile : public rocksdb::FSWritableFileOwnerWrapper {
 public:
  struct Kinds {
    int append = -1;
    int sync = -1;
    int closed = -1;
  };
  RecordingFile(std::unique_ptr<FSWritableFile> base, std::shared_ptr<Trace> trace,
                std::string path, Kinds kinds)
      : FSWritableFileOwnerWrapper(std::move(base)),
        trace_(std::move(trace)),
        path_(std::move(path)),
        kinds_(kinds) {}

  IOStatus Append(const Slice& data, const IOOptions& o, IODebugContext* dbg) override {
    Log(kinds_.append);
    LogNames(data);
    return target()->Append(data, o, dbg);
  }
  IOStatus Append(const Slice& data, const IOOptions& o, const rocksdb::DataVerificationInfo& info,
                  IODebugContext* dbg) override {
    Log(kinds_.append);
    LogNames(data);
    return target()->Append(data, o, info, dbg);
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& o,
                            IODebugContext* dbg) override {
    Log(kinds_.append);
    return target()->PositionedAppend(data, offset, o, dbg);
  }
  IOStatus PositionedAppend(const Slice& data, uint64_t offset, const IOOptions& o,
                            const rocksdb::DataVerificationInfo& info,
                            IODebugContext* dbg) override {
    Log(kinds_.append);
    return target()->PositionedAppend(data, offset, o, info, dbg);
  }
  IOStatus Sync(const IOOptions& o, IODebugContext* dbg) override {
    Log(kinds_.sync);
    return target()->Sync(o, dbg);
  }
  IOStatus Fsync(const IOOptions& o, IODebugContext* dbg) override {
    Log(kinds_.sync);
    return target()->Fsync(o, dbg);
  }
  IOStatus Close(const IOOptions& o, IODebugContext* dbg) override {
    IOStatus s = target()->Close(o, dbg);
    if (s.ok()) Log(kinds_.closed);
    return s;
  }

 private:
  void Log(int kind) {
    if (kind >= 0) trace_->Add(static_cast<Event::Kind>(kind), path_);
  }
  void LogNames(const Slice& data) {
    if (kinds_.append != Event::kMetaAppend || NameOf(path_).rfind("MANIFEST-", 0) != 0) return;
    std::vector<uint64_t> numbers;
    records_.Append(absl::string_view(data.data(), data.size()), &numbers);
    if (!numbers.empty()) trace_->Add(Event::kMetaNames, path_, std::move(numbers));
  }

  const std::shared_ptr<Trace> trace_;
  const std::string path_;
  const Kinds kinds_;
  ManifestRecords records_;
};

class RecordingDirectory : public rocksdb::FSDirectoryWrapper {
 public:
  RecordingDirectory(std::unique_ptr<FSDirectory> base, std::shared_ptr<Trace> trace,
                     std::string path, Event::Kind kind)
      : FSDirectoryWrapper(std::move(base)),
        trace_(std::move(trace)),
        path_(std::move(path)),
        kind_(kind) {}
  IOStatus Fsync(const IOOptions& o, IODebugContext* dbg) override {
    trace_->Add(kind_, path_);
    return FSDirectoryWrapper::Fsync(o, dbg);
  }
  IOStatus FsyncWithDirOptions(const IOOptions& o, IODebugContext* dbg,
                               const rocksdb::DirFsyncOptions& d) override {
    trace_->Add(kind_, path_);
    return FSDirectoryWrapper::FsyncWithDirOptions(o, dbg, d);
  }

 private:
  const std::shared_ptr<Trace> trace_;
  const std::string path_;
  const Event::Kind kind_;
};

class Recorder : public rocksdb::FileSystemWrapper {
 public:
  Recorder(std::shared_ptr<rocksdb::FileSystem> below, std::shared_ptr<Trace> trace, bool top)
      : FileSystemWrapper(below), trace_(std::move(trace)), top_(top) {}
  const char* Name() const override { return top_ ? "TopRecorder" : "BaseRecorder"; }

  IOStatus NewWritableFile(const std::string& path, const FileOptions& options,
                           std::unique_ptr<FSWritableFile>* out, IODebugContext* dbg) override {
    std::unique_ptr<FSWritableFile> below;
    IOStatus s = target()->NewWritableFile(path, options, &below, dbg);
    if (!s.ok()) return s;
    RecordingFile::Kinds kinds;
    if (top_) {
      if (IsMeta(path)) kinds.append = kinds.sync = Event::kMetaEnter;
      if (IsOutput(path, options)) kinds.closed = Event::kClosed;
    } else {
      if (IsMeta(path)) kinds = {Event::kMetaAppend, Event::kMetaSync, -1};
      if (EndsWith(path, ".log")) kinds.sync = Event::kWalSync;
      if (EndsWith(path, ".sst") || EndsWith(path, ".blob")) kinds.sync = Event::kTableSync;
    }
    *out = std::make_unique<RecordingFile>(std::move(below), trace_, CanonicalPath(path), kinds);
    return s;
  }

  IOStatus NewDirectory(const std::string& path, const IOOptions& options,
                        std::unique_ptr<FSDirectory>* out, IODebugContext* dbg) override {
    std::unique_ptr<FSDirectory> below;
    IOStatus s = target()->NewDirectory(path, options, &below, dbg);
    if (s.ok()) {
      *out = std::make_unique<RecordingDirectory>(std::move(below), trace_,
                                                  DirectoryOf(CanonicalPath(path + "/x")),
                                                  top_ ? Event::kDirEnter : Event::kDirSync);
    }
    return s;
  }

  IOStatus RenameFile(const std::string& from, const std::string& to, const IOOptions& options,
                      IODebugContext* dbg) override {
    if (IsMeta(to)) trace_->Add(top_ ? Event::kMetaEnter : Event::kMetaSync, CanonicalPath(to));
    return target()->RenameFile(from, to, options, dbg);
  }

  IOStatus DeleteFile(const std::string& path, const IOOptions& options,
                      IODebugContext* dbg) override {
    if (top_) trace_->Add(Event::kDeleted, CanonicalPath(path));
    return target()->DeleteFile(path, options, dbg);
  }

 private:
  const std::shared_ptr<Trace> trace_;
  const bool top_;
};

}  // namespace

std::shared_ptr<rocksdb::FileSystem> NewBaseRecorder(std::shared_ptr<Trace> trace) {
  return std::make_shared<Recorder>(rocksdb::FileSystem::Default(), std::move(trace), false);
}

std::shared_ptr<rocksdb::FileSystem> NewTopRecorder(std::shared_ptr<Trace> trace,
                                                    std::shared_ptr<rocksdb::FileSystem> pulse) {
  return std::make_shared<Recorder>(std::move(pulse), std::move(trace), true);
}

}  // namespace pulse::lsm::test
