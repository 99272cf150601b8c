// BlockFiles on the operating system's files: one thread that owns an IoBackend.
#include <poll.h>
#include <sys/prctl.h>
#include <sys/stat.h>

#include <algorithm>
#include <cerrno>
#include <cstdlib>
#include <cstring>
#include <future>
#include <mutex>
#include <thread>
#include <utility>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/file_calls.h"
#include "base/unique_fd.h"
#include "base/wake_event.h"
#include "examples/common/block_files.h"

namespace pulse::examples {
namespace {

constexpr uint64_t kPage = 4096;
// Around an unaligned request there may be a page more on each side.
constexpr uint64_t kBounce = kMaxIo + 2 * kPage;

struct Free {
  void operator()(char* p) const { std::free(p); }
};

struct OpenedFile {
  UniqueFd direct;  // not valid without O_DIRECT
  UniqueFd plain;
  int direct_index = -1;
  int plain_index = -1;
};

class OsFiles : public BlockFiles {
 public:
  OsFiles(FilesOptions options, Sink* sink) : options_(std::move(options)), sink_(sink) {}
  ~OsFiles() override {
    if (!thread_.joinable()) return;
    {
      const std::lock_guard lock(mu_);
      stop_ = true;
    }
    wake_.Set();
    thread_.join();
  }

  absl::Status Init() {
    PULSE_ASSIGN_OR_RETURN(wake_, WakeEvent::Create());
    for (uint32_t i = 0; i < options_.files; ++i) PULSE_RETURN_IF_ERROR(OpenOne(i));
    bounce_.reset(static_cast<char*>(std::aligned_alloc(kPage, kBounce * options_.depth)));
    std::memset(bounce_.get(), 0, kBounce * options_.depth);
    slots_.resize(options_.depth);
    for (uint32_t i = 0; i < options_.depth; ++i) free_.push_back(options_.depth - 1 - i);
    std::promise<absl::Status> promise;
    std::future<absl::Status> started = promise.get_future();
    // A back-end belongs to the thread that makes it.
    thread_ = std::thread([this, promise = std::move(promise)]() mutable {
      prctl(PR_SET_NAME, "pulse-host-io");
      const absl::Status st = MakeBackend();
      promise.set_value(st);
      if (st.ok()) Run();
      backend_.reset();
    });
    return started.get();
  }

  absl::StatusOr<FileInfo> Find(std::string_view name) const override {
    for (uint64_t i = 0; i < files_.size(); ++i) {
      if (std::to_string(i) == name) return FileInfo{i, options_.file_bytes};
    }
    return absl::NotFoundError(
        absl::StrCat("no file \"", absl::string_view(name.data(), name.size()), "\""));
  }

  void Submit(Io** ios, size_t count) override {
    bool wake = false;
    {
      const std::lock_guard lock(mu_);
      for (size_t i = 0; i < count; ++i) arrived_.push_back(ios[i]);
      wake = sleeping_;
      sleeping_ = false;
    }
    if (wake) wake_.Set();
  }

 private:
  struct Slot {
    Io* io = nullptr;
    uint64_t skip = 0;  // of a read into the bounce buffer: where what was asked for begins
    bool bounced = false;
    uint64_t expected = 0;
  };

  absl::Status OpenOne(uint32_t number) {
    const std::string path = absl::StrCat(options_.directory, "/", number);
    OpenedFile f;
    f.plain = OpenFile(path, O_RDWR | O_CREAT, 0644);
    if (!f.plain.valid()) return ErrnoError(errno, "opening", path);
    struct stat st;
    if (fstat(f.plain.get(), &st) != 0) return ErrnoError(errno, "examining", path);
    const auto bytes = static_cast<off_t>(options_.file_bytes);
    if (st.st_size != bytes && st.st_size != 0) {
      return absl::FailedPreconditionError(
          absl::StrCat(path, " has ", st.st_size, " bytes, not the ", bytes,
                       " asked for: give the size that it has, or remove it"));
    }
    if (st.st_size != bytes) {
      if (ftruncate(f.plain.get(), bytes) != 0) return ErrnoError(errno, "sizing", path);
      if (const int rc = posix_fallocate(f.plain.get(), 0, bytes); rc != 0) {
        return ErrnoError(rc, "setting space aside for", path);
      }
    }
    if (options_.direct) {
      f.direct = OpenFile(path, O_RDWR | O_DIRECT);
      if (!f.direct.valid()) {
        return ErrnoError(errno, "opening past the page cache", path, "try --page-cache");
      }
      struct statx sx;
      if (statx(f.direct.get(), "", AT_EMPTY_PATH, STATX_DIOALIGN, &sx) == 0 &&
          (sx.stx_mask & STATX_DIOALIGN) != 0 && sx.stx_dio_offset_align != 0) {
        align_ = std::clamp<uint64_t>(sx.stx_dio_offset_align, 1, kPage);
      }
    }
    files_.push_back(std::move(f));
    return absl::OkStatus();
  }

  absl::Status MakeBackend() {
    PULSE_ASSIGN_OR_RETURN(backend_, CreateIoBackend({options_.engine, options_.depth, {}, {}}));
    bounce_index_ = backend_->RegisterBuffer(bounce_.get(), kBounce * options_.depth);
    for (OpenedFile& f : files_) {
      f.plain_index = backend_->RegisterFile(f.plain.get());
      if (f.direct.valid()) f.direct_index = backend_->RegisterFile(f.direct.get());
    }
    return absl::OkStatus();
  }

  void Run() {
    std::vector<IoResult> results(options_.depth);
    std::vector<Io*> batch;
    size_t next = 0;
    while (true) {
      if (next == batch.size()) {
        batch.clear();
        next = 0;
        const std::lock_guard lock(mu_);
        batch.swap(arrived_);
        if (stop_ && batch.empty() && backend_->in_flight() == 0) return;
      }
      while (next < batch.size() && !free_.empty()) Begin(batch[next++]);
      backend_->Submit();
      const size_t n = backend_->Harvest(results.data(), results.size());
      for (size_t i = 0; i < n; ++i) End(results[i]);
      if (n == 0) Sleep(next < batch.size());
    }
  }

  void Sleep(bool full) {
    if (backend_->needs_polling() && backend_->in_flight() > 0) return;
    {
      const std::lock_guard lock(mu_);
      if (!full && (!arrived_.empty() || (stop_ && backend_->in_flight() == 0))) return;
      sleeping_ = true;
    }
    pollfd fds[2] = {{wake_.fd(), POLLIN, 0}, {backend_->wait_fd(), POLLIN, 0}};
    poll(fds, backend_->wait_fd() >= 0 ? 2 : 1, -1);
    wake_.Clear();
    const std::lock_guard lock(mu_);
    sleeping_ = false;
  }

  void Tell(Io* io, absl::Status status) {
    io->status = std::move(status);
    sink_->OnDone(io);
  }

  void Begin(Io* io) {
    if (io->file >= files_.size()) return Tell(io, absl::NotFoundError("no such file"));
    const uint64_t end = options_.file_bytes;
    if (io->op != Op::kSync && (io->offset > end || io->size > end - io->offset)) {
      return Tell(io, absl::OutOfRangeError("beyond the end of the file"));
    }
    OpenedFile& f = files_[io->file];
    const uint32_t number = free_.back();
    Slot& slot = slots_[number];
    slot = {.io = io};
    IoRequest r{.op = IoOp::kSync, .fd = f.plain.get(), .file_index = f.plain_index, .tag = number};
    if (io->op != Op::kSync) {
      r.op = io->op == Op::kRead ? IoOp::kRead : IoOp::kWrite;
      r.buffer = io->data;
      r.offset = io->offset;
      r.length = io->size;
      const bool aligned = io->offset % align_ == 0 && io->size % align_ == 0;
      if (f.direct.valid() && (aligned || io->op == Op::kRead)) Direct(f, number, &slot, &r);
      slot.expected = r.length;
    }
    free_.pop_back();
    // As many slots as the back-end takes.
    backend_->Enqueue(r);
  }

  // Through memory of this object's, as the device wants it aligned.
  void Direct(const OpenedFile& f, uint32_t number, Slot* slot, IoRequest* r) {
    char* const bounce = bounce_.get() + number * kBounce;
    const Io& io = *slot->io;
    const uint64_t begin = io.offset / align_ * align_;
    slot->skip = io.offset - begin;
    slot->bounced = true;
    r->fd = f.direct.get();
    r->file_index = f.direct_index;
    r->buffer = bounce;
    r->buffer_index = bounce_index_;
    r->offset = begin;
    r->length = (io.offset + io.size + align_ - 1) / align_ * align_ - begin;
    if (io.op == Op::kWrite) std::memcpy(bounce, io.data, io.size);
  }

  void End(const IoResult& result) {
    Slot& slot = slots_[result.tag];
    Io* const io = slot.io;
    free_.push_back(static_cast<uint32_t>(result.tag));
    if (result.result < 0) {
      return Tell(io, ErrnoError(static_cast<int>(-result.result),
                                 io->op == Op::kRead    ? "reading"
                                 : io->op == Op::kWrite ? "writing"
                                                        : "syncing",
                                 absl::StrCat(options_.directory, "/", io->file)));
    }
    if (io->op != Op::kSync && static_cast<uint64_t>(result.result) != slot.expected) {
      return Tell(io, absl::InternalError("the device moved fewer bytes than asked for"));
    }
    if (slot.bounced && io->op == Op::kRead) {
      std::memcpy(io->data, bounce_.get() + result.tag * kBounce + slot.skip, io->size);
    }
    Tell(io, absl::OkStatus());
  }

  const FilesOptions options_;
  Sink* const sink_;
  std::vector<OpenedFile> files_;
  uint64_t align_ = kPage;
  WakeEvent wake_;
  std::thread thread_;

  std::mutex mu_;  // guards these
  std::vector<Io*> arrived_;
  bool sleeping_ = false;
  bool stop_ = false;

  // The thread's.
  std::unique_ptr<IoBackend> backend_;
  std::unique_ptr<char, Free> bounce_;
  int bounce_index_ = -1;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<BlockFiles>> OpenOsFiles(const FilesOptions& options,
                                                        BlockFiles::Sink* sink) {
  if (options.file_bytes == 0 || options.file_bytes % kPage != 0) {
    return absl::InvalidArgumentError("the size of a file must be a multiple of 4096");
  }
  if (mkdir(options.directory.c_str(), 0755) != 0 && errno != EEXIST) {
    return ErrnoError(errno, "creating", options.directory);
  }
  auto files = std::make_unique<OsFiles>(options, sink);
  if (absl::Status st = files->Init(); !st.ok()) return st;
  return files;
}

absl::StatusOr<std::unique_ptr<BlockFiles>> OpenFiles(const FilesOptions& options,
                                                      BlockFiles::Sink* sink) {
  if (options.agent.empty() == options.directory.empty()) {
    return absl::InvalidArgumentError("files are either in a directory or with an agent");
  }
  return options.agent.empty() ? OpenOsFiles(options, sink) : OpenStoreFiles(options, sink);
}

}  // namespace pulse::examples
