#include "services/redis/offload/page_cache_files.h"

#include <fcntl.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <utility>

#include "base/file_calls.h"

namespace pulse::redis {
namespace {

using rocksdb::IOStatus;

struct Mode {
  bool on = false;
  bool has_read = false;
};
thread_local Mode mode;

IOStatus ErrnoStatus(const std::string& what, const std::string& name, int error) {
  const std::string context = what + " " + name;
  // RocksDB looks for this one.
  if (error == ENOENT) return IOStatus::PathNotFound(context, std::strerror(error));
  return IOStatus::IOError(context, std::strerror(error));
}

class TableFile final : public rocksdb::FSRandomAccessFile {
 public:
  TableFile(std::string name, UniqueFd fd, PageCacheFiles::ReadNow read_now,
            std::shared_ptr<std::atomic<bool>> usable)
      : name_(std::move(name)),
        fd_(std::move(fd)),
        read_now_(read_now),
        usable_(std::move(usable)) {}

  // MultiRead, as it is, calls this.
  IOStatus Read(uint64_t offset, size_t n, const rocksdb::IOOptions&, rocksdb::Slice* result,
                char* scratch, rocksdb::IODebugContext*) const override {
    *result = rocksdb::Slice(scratch, 0);
    if (mode.on) return Now(offset, n, result, scratch);
    size_t done = 0;
    while (done < n) {
      const ssize_t r =
          pread(fd_.get(), scratch + done, n - done, static_cast<off_t>(offset + done));
      if (r < 0 && errno == EINTR) continue;
      if (r < 0) return ErrnoStatus("reading", name_, errno);
      if (r == 0) break;  // the file's end
      done += static_cast<size_t>(r);
    }
    *result = rocksdb::Slice(scratch, done);
    return IOStatus::OK();
  }
  IOStatus Prefetch(uint64_t offset, size_t n, const rocksdb::IOOptions&,
                    rocksdb::IODebugContext*) override {
    if (mode.on || readahead(fd_.get(), static_cast<off64_t>(offset), n) == 0) {
      return IOStatus::OK();
    }
    return ErrnoStatus("reading ahead in", name_, errno);
  }
  void Hint(AccessPattern pattern) override {
    const int advice = pattern == kRandom       ? POSIX_FADV_RANDOM
                       : pattern == kSequential ? POSIX_FADV_SEQUENTIAL
                       : pattern == kWillNeed   ? POSIX_FADV_WILLNEED
                       : pattern == kWontNeed   ? POSIX_FADV_DONTNEED
                                                : POSIX_FADV_NORMAL;
    posix_fadvise(fd_.get(), 0, 0, advice);
  }

 private:
  // All or nothing: what is short here may be whole for one who waits.
  IOStatus Now(uint64_t offset, size_t n, rocksdb::Slice* result, char* scratch) const {
    if (!*usable_) return IOStatus::Busy();
    const iovec part = {scratch, n};
    const ssize_t r = read_now_(fd_.get(), &part, 1, static_cast<off_t>(offset), RWF_NOWAIT);
    if (r < 0 && (errno == EOPNOTSUPP || errno == ENOSYS || errno == EINVAL)) usable_->store(false);
    if (r < 0 || static_cast<size_t>(r) != n) return IOStatus::Busy();
    mode.has_read = true;
    *result = rocksdb::Slice(scratch, n);
    return IOStatus::OK();
  }

  const std::string name_;
  const UniqueFd fd_;
  const PageCacheFiles::ReadNow read_now_;
  const std::shared_ptr<std::atomic<bool>> usable_;
};

}  // namespace

WithoutWaiting::WithoutWaiting() { mode = {true, false}; }
WithoutWaiting::~WithoutWaiting() { mode.on = false; }
bool WithoutWaiting::on() { return mode.on; }
bool WithoutWaiting::has_read() const { return mode.has_read; }

PageCacheFiles::PageCacheFiles(ReadNow read_now)
    : FileSystemWrapper(rocksdb::FileSystem::Default()), read_now_(read_now) {}

IOStatus PageCacheFiles::NewRandomAccessFile(const std::string& name,
                                             const rocksdb::FileOptions& options,
                                             std::unique_ptr<rocksdb::FSRandomAccessFile>* file,
                                             rocksdb::IODebugContext* debug) {
  file->reset();
  if (mode.on) return IOStatus::Busy();
  if (options.use_direct_reads || options.use_mmap_reads) {
    usable_->store(false);
    return FileSystemWrapper::NewRandomAccessFile(name, options, file, debug);
  }
  UniqueFd fd = OpenFile(name, O_RDONLY);
  if (!fd.valid()) return ErrnoStatus("opening", name, errno);
  *file = std::make_unique<TableFile>(name, std::move(fd), read_now_, usable_);
  return IOStatus::OK();
}

}  // namespace pulse::redis
