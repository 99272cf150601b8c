#include "services/lsm/pool/pool_files.h"

#include <fcntl.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "services/lsm/core/io_status.h"
#include "services/lsm/core/wire.h"
#include "services/lsm/pool/pool_io.h"

namespace pulse::lsm {
namespace {

constexpr uint64_t kPoolPage = wire::kPage;

uint64_t RoundUpToPage(uint64_t n) { return (n + kPoolPage - 1) / kPoolPage * kPoolPage; }

bool IsAligned(uint64_t n) { return n % kPoolPage == 0; }

// An open file of the pool: its pin and its extents, which do not change once it was written. One
// that grew since is looked up anew.
class OpenFile {
 public:
  static absl::StatusOr<OpenFile> Open(std::shared_ptr<Pool> pool, store::FileId file,
                                       const std::string& path) {
    PULSE_ASSIGN_OR_RETURN(auto pin, pool->store().Pin(file));
    OpenFile f(std::move(pool), path, std::move(pin));
    PULSE_RETURN_IF_ERROR(f.Map(&f.size_, &f.extents_));
    return f;
  }

  // What there is of [offset, offset + n): its length is `*got`.
  absl::Status Read(int fd, bool direct, uint64_t offset, size_t n, char* out, size_t* got) const {
    if (offset + n <= size_) return ReadMapped(fd, direct, size_, extents_, offset, n, out, got);
    uint64_t size = 0;
    std::vector<store::Extent> extents;
    PULSE_RETURN_IF_ERROR(Map(&size, &extents));
    return ReadMapped(fd, direct, size, extents, offset, n, out, got);
  }

  // Calls `advise(device_offset, length)` for the parts of a range.
  template <typename Advise>
  void ForEachExtent(uint64_t offset, uint64_t n, Advise advise) const {
    uint64_t start = 0;
    for (const store::Extent& e : extents_) {
      const uint64_t from = std::max(start, offset);
      const uint64_t to = std::min(start + e.length, offset + n);
      if (from < to && !e.hole()) advise(e.device_offset + (from - start), to - from);
      start += e.length;
    }
  }

  // Distinguishes the file from all others, now and later.
  size_t UniqueId(char* id, size_t max_size) const {
    std::string bytes;
    const auto& uuid = store().geometry().uuid;
    bytes.append(reinterpret_cast<const char*>(uuid.data()), uuid.size());
    for (int i = 0; i < 8; ++i) bytes.push_back(static_cast<char>(file() >> (8 * i)));
    if (bytes.size() > max_size) return 0;
    std::memcpy(id, bytes.data(), bytes.size());
    return bytes.size();
  }

  Pool& pool() const { return *pool_; }
  store::Store& store() const { return pool_->store(); }
  store::FileId file() const { return pin_.file(); }
  const std::string& path() const { return path_; }

 private:
  OpenFile(std::shared_ptr<Pool> pool, std::string path, store::FilePin pin)
      : pool_(std::move(pool)), path_(std::move(path)), pin_(std::move(pin)) {}

  absl::Status Map(uint64_t* size, std::vector<store::Extent>* extents) const {
    PULSE_ASSIGN_OR_RETURN(auto now, store().Stat(file()));
    *size = now.size;
    return store().MapRead(file(), 0, *size, extents);
  }

  absl::Status ReadMapped(int fd, bool direct, uint64_t size,
                          const std::vector<store::Extent>& extents, uint64_t offset, size_t n,
                          char* out, size_t* got) const {
    *got = offset < size ? std::min<uint64_t>(n, size - offset) : 0;
    if (*got == 0) return absl::OkStatus();
    if (!direct || *got == n) return ReadExtents(fd, extents, offset, *got, out, path_);
    // The last page, whole: the segment has more than the file. But for a hole.
    std::vector<store::Extent> padded = extents;
    if (!padded.back().hole()) padded.back().length = RoundUpToPage(padded.back().length);
    return ReadExtents(fd, padded, offset, std::min<uint64_t>(n, RoundUpToPage(*got)), out, path_);
  }

  std::shared_ptr<Pool> pool_;
  std::string path_;
  store::FilePin pin_;
  uint64_t size_ = 0;
  std::vector<store::Extent> extents_;
};

class PoolRandomAccessFile : public FSRandomAccessFile {
 public:
  PoolRandomAccessFile(OpenFile file, bool direct)
      : file_(std::move(file)),
        buffered_fd_(file_.pool().read_fd()),
        direct_fd_(direct ? file_.store().device_fd(true) : -1) {}

  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    // Some table formats expect a mapping, and give no memory.
    if (scratch == nullptr && n > 0) return NoMapping();
    const bool direct = direct_fd_ >= 0 && IsAligned(offset) && IsAligned(n) &&
                        IsAligned(reinterpret_cast<uintptr_t>(scratch));
    size_t got = 0;
    const absl::Status st =
        file_.Read(direct ? direct_fd_ : buffered_fd_, direct, offset, n, scratch, &got);
    *result = Slice(scratch, st.ok() ? got : 0);
    return PoolStatus(st);
  }

  // Several reads: one after the other, as the base class has it.

  IOStatus Prefetch(uint64_t offset, size_t n, const IOOptions&, IODebugContext*) override {
    if (direct_fd_ >= 0) return IOStatus::NotSupported("direct I/O has no page cache to fill");
    file_.ForEachExtent(offset, n, [this](uint64_t at, uint64_t length) {
      posix_fadvise(buffered_fd_, static_cast<off_t>(at), static_cast<off_t>(length),
                    POSIX_FADV_WILLNEED);
    });
    return IOStatus::OK();
  }
  IOStatus InvalidateCache(size_t offset, size_t length) override {
    if (direct_fd_ >= 0) return IOStatus::OK();
    const uint64_t n = length == 0 ? ~uint64_t{0} - offset : length;
    file_.ForEachExtent(offset, n, [this](uint64_t at, uint64_t part) {
      posix_fadvise(buffered_fd_, static_cast<off_t>(at), static_cast<off_t>(part),
                    POSIX_FADV_DONTNEED);
    });
    return IOStatus::OK();
  }
  // The descriptor is shared, and never reads ahead by itself.
  void Hint(AccessPattern) override {}

  size_t GetUniqueId(char* id, size_t max_size) const override {
    return file_.UniqueId(id, max_size);
  }
  bool use_direct_io() const override { return direct_fd_ >= 0; }
  size_t GetRequiredBufferAlignment() const override { return kPoolPage; }
#if PULSE_ROCKSDB_AT_LEAST(10, 5)
  IOStatus GetFileSize(uint64_t* size) override {
    auto now = file_.store().Stat(file_.file());
    if (now.ok()) *size = now->size;
    return PoolStatus(now.status());
  }
#endif

 private:
  IOStatus NoMapping() const {
    return IOStatus::NotSupported(
        "memory-mapped tables (PlainTable, CuckooTable) with layout=pool; use layout=files",
        file_.path());
  }

  const OpenFile file_;
  const int buffered_fd_;
  const int direct_fd_;  // -1: buffered
};

class PoolSequentialFile : public FSSequentialFile {
 public:
  PoolSequentialFile(OpenFile file, UniqueFd fd, bool direct)
      : file_(std::move(file)), fd_(std::move(fd)), direct_(direct) {}

  IOStatus Read(size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) override {
    IOStatus s = ReadAt(fd_.get(), false, offset_, n, result, scratch);
    offset_ += result->size();
    return s;
  }
  IOStatus PositionedRead(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                          IODebugContext*) override {
    const bool direct = direct_ && IsAligned(offset) && IsAligned(n) &&
                        IsAligned(reinterpret_cast<uintptr_t>(scratch));
    return ReadAt(direct ? file_.store().device_fd(true) : fd_.get(), direct, offset, n, result,
                  scratch);
  }
  IOStatus Skip(uint64_t n) override {
    offset_ += n;
    return IOStatus::OK();
  }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }
  bool use_direct_io() const override { return direct_; }
  size_t GetRequiredBufferAlignment() const override { return kPoolPage; }

 private:
  IOStatus ReadAt(int fd, bool direct, uint64_t offset, size_t n, Slice* result, char* scratch) {
    size_t got = 0;
    const absl::Status st = file_.Read(fd, direct, offset, n, scratch, &got);
    *result = Slice(scratch, st.ok() ? got : 0);
    return PoolStatus(st);
  }

  const OpenFile file_;
  const UniqueFd fd_;  // its own, for the kernel's read-ahead
  const bool direct_;
  uint64_t offset_ = 0;
};

absl::Status SyncAndCommit(store::Store& store) {
  PULSE_RETURN_IF_ERROR(store.SyncData());
  return store.Commit();
}

class PoolRandomRWFile : public FSRandomRWFile {
 public:
  explicit PoolRandomRWFile(OpenFile file) : file_(std::move(file)) {}

  IOStatus Write(uint64_t offset, const Slice& data, const IOOptions&, IODebugContext*) override {
    return PoolStatus(WriteAt(offset, data));
  }
  IOStatus Read(uint64_t offset, size_t n, const IOOptions&, Slice* result, char* scratch,
                IODebugContext*) const override {
    size_t got = 0;
    const absl::Status st = file_.Read(fd(), false, offset, n, scratch, &got);
    *result = Slice(scratch, st.ok() ? got : 0);
    return PoolStatus(st);
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return PoolStatus(SyncAndCommit(file_.store()));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    return Sync(options, dbg);
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }

 private:
  int fd() const { return file_.store().device_fd(false); }

  absl::Status WriteAt(uint64_t offset, const Slice& data) {
    if (data.empty()) return absl::OkStatus();
    store::Store& store = file_.store();
    PULSE_ASSIGN_OR_RETURN(auto now, store.Stat(file_.file()));
    const uint64_t end = offset + data.size();
    const uint64_t from = end > now.valid ? std::min(offset, now.valid) : offset;
    // From what was written before on: a gap is filled with zeros.
    std::string bytes(offset - from, '\0');
    bytes.append(data.data(), data.size());
    PULSE_ASSIGN_OR_RETURN(const auto extents,
                           file_.pool().MapWrite(file_.file(), from, bytes.size(), file_.path()));
    PULSE_RETURN_IF_ERROR(WriteExtents(fd(), extents, 0, bytes.size(), bytes.data(), file_.path()));
    if (end <= now.valid) return absl::OkStatus();
    // Any commit may carry the new size: the data goes first.
    PULSE_RETURN_IF_ERROR(store.SyncData());
    return store.Wrote(file_.file(), from, bytes.size());
  }

  const OpenFile file_;
};

class ReopenedPoolFile : public FSWritableFile {
 public:
  ReopenedPoolFile(OpenFile file, const FileOptions& options)
      : FSWritableFile(options), file_(std::move(file)) {}

  using FSWritableFile::Append;
  IOStatus Append(const Slice&, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("appending to a finished file of a pool", file_.path());
  }
  using FSWritableFile::PositionedAppend;
  IOStatus PositionedAppend(const Slice&, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::NotSupported("writing to a finished file of a pool", file_.path());
  }
  IOStatus Truncate(uint64_t size, const IOOptions&, IODebugContext*) override {
    return PoolStatus(file_.store().SetSize(file_.file(), size));
  }
  IOStatus Flush(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  IOStatus Sync(const IOOptions&, IODebugContext*) override {
    return PoolStatus(SyncAndCommit(file_.store()));
  }
  IOStatus Fsync(const IOOptions& options, IODebugContext* dbg) override {
    return Sync(options, dbg);
  }
  IOStatus Close(const IOOptions&, IODebugContext*) override { return IOStatus::OK(); }
  bool IsSyncThreadSafe() const override { return true; }
  uint64_t GetFileSize(const IOOptions&, IODebugContext*) override {
    auto now = file_.store().Stat(file_.file());
    return now.ok() ? now->size : 0;
  }
  IOStatus InvalidateCache(size_t, size_t) override { return IOStatus::OK(); }
  // Preallocation and write-back are for those who append.
  void PrepareWrite(size_t, size_t, const IOOptions&, IODebugContext*) override {}
  IOStatus Allocate(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }
  IOStatus RangeSync(uint64_t, uint64_t, const IOOptions&, IODebugContext*) override {
    return IOStatus::OK();
  }

 private:
  const OpenFile file_;
};

// Opens the file for an object of `Made`, which takes `args` besides.
template <typename Made, typename Base, typename... Args>
IOStatus MakeFile(std::unique_ptr<Base>* out, std::shared_ptr<Pool> pool, store::FileId file,
                  const std::string& path, Args&&... args) {
  auto f = OpenFile::Open(std::move(pool), file, path);
  if (!f.ok()) return PoolStatus(f.status());
  *out = std::make_unique<Made>(*std::move(f), std::forward<Args>(args)...);
  return IOStatus::OK();
}

}  // namespace

IOStatus PoolStatus(const absl::Status& status) {
  if (!absl::IsResourceExhausted(status) || ErrnoOf(status) != 0) return ToIOStatus(status);
  IOStatus s = IOStatus::NoSpace(std::string(status.message()));
  s.SetRetryable(true);
  return s;
}

IOStatus NewPoolRandomAccessFile(std::shared_ptr<Pool> pool, store::FileId file,
                                 const std::string& path, const FileOptions& options,
                                 std::unique_ptr<FSRandomAccessFile>* out) {
  const bool direct = options.use_direct_reads && pool->store().direct_io();
  return MakeFile<PoolRandomAccessFile>(out, std::move(pool), file, path, direct);
}

IOStatus NewPoolSequentialFile(std::shared_ptr<Pool> pool, store::FileId file,
                               const std::string& path, const FileOptions& options,
                               std::unique_ptr<FSSequentialFile>* out) {
  const bool direct = options.use_direct_reads && pool->store().direct_io();
  UniqueFd fd = pool->OpenDevice(O_RDONLY);
  if (!fd.valid()) return ToIOStatus(ErrnoError(errno, "opening", pool->store().path()));
  return MakeFile<PoolSequentialFile>(out, std::move(pool), file, path, std::move(fd), direct);
}

IOStatus NewPoolRandomRWFile(std::shared_ptr<Pool> pool, store::FileId file,
                             const std::string& path, std::unique_ptr<FSRandomRWFile>* out) {
  return MakeFile<PoolRandomRWFile>(out, std::move(pool), file, path);
}

IOStatus ReopenPoolFile(std::shared_ptr<Pool> pool, store::FileId file, const std::string& path,
                        const FileOptions& options, std::unique_ptr<FSWritableFile>* out) {
  return MakeFile<ReopenedPoolFile>(out, std::move(pool), file, path, options);
}

}  // namespace pulse::lsm
