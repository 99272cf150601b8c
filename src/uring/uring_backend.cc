// Engine "io_uring", the default (PulseDB III-B.3).
#include <liburing.h>
#include <sched.h>
#include <unistd.h>

#include <cerrno>
#include <vector>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "uring/io_backend.h"

namespace pulse {
namespace {

constexpr int kOpFtruncate = 55;  // IORING_OP_FTRUNCATE, Linux 6.9; newer than Debian 12's header
constexpr unsigned kMaxBuffers = 128;
constexpr unsigned kMaxFiles = 512;
constexpr unsigned kMaxIowq = 8;

class Ring {
 public:
  Ring() = default;
  Ring(const Ring&) = delete;
  Ring& operator=(const Ring&) = delete;
  ~Ring() {
    if (open_) io_uring_queue_exit(&ring_);
  }
  absl::Status Open(uint32_t depth) {
    // The modern flags spare interrupts between agent and kernel; older kernels refuse them.
    for (unsigned flags :
         {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0u}) {
      io_uring_params params{};
      params.flags = flags | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
      params.cq_entries = depth * 4;
      const int rc = io_uring_queue_init_params(depth, &ring_, &params);
      if (rc == 0) {
        open_ = true;
        return absl::OkStatus();
      }
      if (rc != -EINVAL) {
        return ErrnoError(-rc, "setting up", "io_uring",
                          rc == -ENOMEM
                              ? "raise RLIMIT_MEMLOCK (ulimit -l)"
                              : "check kernel.io_uring_disabled and the container's seccomp "
                                "profile");
      }
    }
    return ErrnoError(EINVAL, "setting up", "io_uring",
                      "the kernel does not know the flags asked for");
  }
  io_uring* get() { return &ring_; }
  bool open() const { return open_; }

 private:
  io_uring ring_{};
  bool open_ = false;
};

class UringBackend : public IoBackend {
 public:
  explicit UringBackend(const IoBackendOptions& options)
      : options_(options), slots_(options.depth) {
    for (uint32_t i = options.depth; i > 0; --i) free_.push_back(i - 1);
  }

  ~UringBackend() override {
    if (ring_.open() && buffers_) io_uring_unregister_buffers(ring_.get());
  }

  absl::Status Open() {
    // A chain takes three entries.
    PULSE_RETURN_IF_ERROR(ring_.Open(options_.depth * 3));
    io_uring_probe* probe = io_uring_get_probe_ring(ring_.get());
    if (probe == nullptr) return absl::UnimplementedError("the kernel has no io_uring probe (5.6)");
    for (int op : {IORING_OP_READ, IORING_OP_WRITE, IORING_OP_FSYNC, IORING_OP_FALLOCATE,
                   IORING_OP_CLOSE, IORING_OP_SYNC_FILE_RANGE}) {
      if (!io_uring_opcode_supported(probe, op)) {
        io_uring_free_probe(probe);
        return absl::UnimplementedError(absl::StrCat("the kernel's io_uring lacks operation ", op));
      }
    }
    // By number: the header of liburing 2.3 does not know the operation, the kernel may.
    has_ftruncate_ = probe->last_op >= kOpFtruncate && probe->ops_len > kOpFtruncate &&
                     (probe->ops[kOpFtruncate].flags & IO_URING_OP_SUPPORTED) != 0;
    io_uring_free_probe(probe);

    if (!options_.cpus.empty()) {
      cpu_set_t set;
      CPU_ZERO(&set);
      for (int c : options_.cpus) CPU_SET(c, &set);
      io_uring_register_iowq_aff(ring_.get(), sizeof(set), &set);  // since 5.14; else unplaced
    }
    unsigned workers[2] = {kMaxIowq, kMaxIowq};
    io_uring_register_iowq_max_workers(ring_.get(),
                                       workers);  // since 5.15; else the kernel's bound

    buffers_ = io_uring_register_buffers_sparse(ring_.get(), kMaxBuffers) == 0;
    buffer_used_.assign(buffers_ ? kMaxBuffers : 0, false);
    files_ = io_uring_register_files_sparse(ring_.get(), kMaxFiles) == 0;
    file_used_.assign(files_ ? kMaxFiles : 0, false);
    return absl::OkStatus();
  }

  bool Enqueue(const IoRequest& r) override {
    if (free_.empty()) return false;
    const uint32_t i = free_.back();
    free_.pop_back();
    slots_[i] = Slot{r, 0, 0};
    Prepare(i);
    return true;
  }

  void Submit() override {
    if (pending_ == 0) return;
    // On EBUSY or EAGAIN the entries stay queued and the next call tries again.
    const int n = io_uring_submit(ring_.get());
    if (n > 0) pending_ -= n;
  }

  size_t Harvest(IoResult* out, size_t max) override {
    size_t n = 0;
    io_uring_cqe* cqe = nullptr;
    while (n < max && io_uring_peek_cqe(ring_.get(), &cqe) == 0) {
      const uint64_t data = cqe->user_data;
      const int32_t res = cqe->res;
      io_uring_cqe_seen(ring_.get(), cqe);
      Slot& slot = slots_[SlotOf(data)];
      const Step step = static_cast<Step>(data & 3);
      if (step == kClosing && res == -ECANCELED) {
        close(slot.request.fd);  // an earlier link failed; the descriptor must go all the same
      } else if (slot.result >= 0 || (slot.result == -ECANCELED && res < 0)) {
        // Links behind a failed one are cancelled: their ECANCELED never hides its error. Anywhere
        // else ECANCELED is a failure like any other.
        slot.result = res;
      }
      if (--slot.steps == 0) out[n++] = Finish(SlotOf(data));
    }
    return n;
  }

  int wait_fd() const override { return const_cast<Ring&>(ring_).get()->ring_fd; }
  bool needs_polling() const override { return pending_ > 0; }
  size_t in_flight() const override { return slots_.size() - free_.size(); }
  EngineKind kind() const override { return EngineKind::kUring; }

  int RegisterBuffer(char* base, size_t bytes) override {
    for (size_t i = 0; i < buffer_used_.size(); ++i) {
      if (buffer_used_[i]) continue;
      const int rc = UpdateBuffer(i, base, bytes);
      if (rc < 0) {
        LogOnce("registered buffers",
                absl::StrCat("cannot register queue memory with io_uring (error ", -rc,
                             "); using plain buffers, which cost a little more CPU. Raise "
                             "RLIMIT_MEMLOCK (ulimit -l), or grant CAP_IPC_LOCK"));
        return -1;
      }
      buffer_used_[i] = true;
      return static_cast<int>(i);
    }
    return -1;
  }

  void UnregisterBuffer(int index) override {
    if (index < 0) return;
    UpdateBuffer(index, nullptr, 0);
    buffer_used_[index] = false;
  }

  int RegisterFile(int fd) override {
    for (size_t k = 0; k < file_used_.size(); ++k) {
      const size_t i = (next_file_ + k) % file_used_.size();
      if (file_used_[i]) continue;
      int copy = fd;
      if (io_uring_register_files_update(ring_.get(), i, &copy, 1) != 1) return -1;
      file_used_[i] = true;
      next_file_ = i + 1;
      return static_cast<int>(i);
    }
    return -1;
  }

  void UnregisterFile(int index) override {
    if (index < 0) return;
    int none = -1;
    io_uring_register_files_update(ring_.get(), index, &none, 1);
    file_used_[index] = false;
  }

 private:
  enum Step : uint64_t { kOnly = 0, kTruncating = 1, kSyncing = 2, kClosing = 3 };
  struct Slot {
    IoRequest request;
    int64_t result;
    int steps;
  };

  static uint32_t SlotOf(uint64_t data) { return static_cast<uint32_t>(data >> 2); }

  int UpdateBuffer(size_t index, char* base, size_t bytes) {
    iovec iov{base, bytes};
    uint64_t tag = 0;
    return io_uring_register_buffers_update_tag(ring_.get(), index, &iov,
                                                reinterpret_cast<__u64*>(&tag), 1);
  }

  io_uring_sqe* NextSqe() {
    io_uring_sqe* sqe = io_uring_get_sqe(ring_.get());
    // The ring has room for every slot's chain, unless the kernel has not yet taken what was
    // submitted.
    while (sqe == nullptr) {
      Submit();
      sqe = io_uring_get_sqe(ring_.get());
    }
    ++pending_;
    return sqe;
  }

  static void SetTag(io_uring_sqe* sqe, uint32_t slot, Step step) {
    sqe->user_data = uint64_t{slot} << 2 | step;
  }

  void Prepare(uint32_t i) {
    Slot& slot = slots_[i];
    const IoRequest& r = slot.request;
    slot.steps = 1;
    slot.result = 0;
    if (r.op == IoOp::kSyncClose) {
      PrepareSyncClose(i);
      return;
    }
    io_uring_sqe* sqe = NextSqe();
    const bool fixed = r.file_index >= 0;
    const int fd = fixed ? r.file_index : r.fd;
    switch (r.op) {
      case IoOp::kRead:
        if (r.buffer_index >= 0) {
          io_uring_prep_read_fixed(sqe, fd, r.buffer, r.length, r.offset, r.buffer_index);
        } else {
          io_uring_prep_read(sqe, fd, r.buffer, r.length, r.offset);
        }
        break;
      case IoOp::kWrite:
        if (r.buffer_index >= 0) {
          io_uring_prep_write_fixed(sqe, fd, r.buffer, r.length, r.offset, r.buffer_index);
        } else {
          io_uring_prep_write(sqe, fd, r.buffer, r.length, r.offset);
        }
        break;
      case IoOp::kRangeSync:
        io_uring_prep_sync_file_range(sqe, fd, r.length, r.offset,
                                      SYNC_FILE_RANGE_WAIT_BEFORE | SYNC_FILE_RANGE_WRITE);
        break;
      case IoOp::kSync:
        io_uring_prep_fsync(sqe, fd, IORING_FSYNC_DATASYNC);
        break;
      case IoOp::kFallocate:
        io_uring_prep_fallocate(sqe, fd, 0, 0, r.length);
        break;
      case IoOp::kClose:
        io_uring_prep_close(sqe, r.fd);
        break;
      case IoOp::kSyncClose:
        break;
    }
    if (fixed && r.op != IoOp::kClose) sqe->flags |= IOSQE_FIXED_FILE;
    SetTag(sqe, i, r.op == IoOp::kClose ? kClosing : kOnly);
  }

  // fsync linked to close, as in PulseDB III-B.4, with the truncation to the logical size before.
  void PrepareSyncClose(uint32_t i) {
    Slot& slot = slots_[i];
    const IoRequest& r = slot.request;
    slot.steps = 2;
    // The three entries must go in one submission, or the link would break.
    if (io_uring_sq_space_left(ring_.get()) < 3) Submit();
    if (r.length != kNoTruncate) {
      if (has_ftruncate_) {
        io_uring_sqe* sqe = NextSqe();
        io_uring_prep_rw(kOpFtruncate, sqe, r.fd, nullptr, 0, r.length);
        sqe->flags |= IOSQE_IO_LINK;
        SetTag(sqe, i, kTruncating);
        slot.steps = 3;
      } else if (ftruncate(r.fd, r.length) != 0) {
        slot.result = -errno;  // kept: the fsync's own result comes second
      }
    }
    io_uring_sqe* sync = NextSqe();
    io_uring_prep_fsync(sync, r.fd, IORING_FSYNC_DATASYNC);
    sync->flags |= IOSQE_IO_LINK;
    SetTag(sync, i, kSyncing);
    io_uring_sqe* closing = NextSqe();
    io_uring_prep_close(closing, r.fd);
    SetTag(closing, i, kClosing);
  }

  IoResult Finish(uint32_t i) {
    free_.push_back(i);
    return {slots_[i].request.tag, slots_[i].result};
  }

  const IoBackendOptions options_;
  Ring ring_;
  bool has_ftruncate_ = false;
  bool buffers_ = false;
  bool files_ = false;
  std::vector<bool> buffer_used_;
  std::vector<bool> file_used_;
  size_t next_file_ = 0;
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  size_t pending_ = 0;
};

}  // namespace

absl::StatusOr<std::unique_ptr<IoBackend>> CreateUringBackend(const IoBackendOptions& options) {
  auto backend = std::make_unique<UringBackend>(options);
  if (absl::Status st = backend->Open(); !st.ok()) return st;
  return std::unique_ptr<IoBackend>(std::move(backend));
}

}  // namespace pulse
