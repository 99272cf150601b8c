// "io_uring_poll": reads and writes through a second ring in IOPOLL mode.
#include <liburing.h>

#include <cerrno>
#include <utility>
#include <vector>

#include "base/errors.h"
#include "base/log.h"
#include "bench/rivals/engines.h"

namespace pulse::rivals {
namespace {

class PollBackendImpl : public PollBackend {
 public:
  PollBackendImpl(std::unique_ptr<IoBackend> rest, uint32_t depth)
      : rest_(std::move(rest)), slots_(depth) {
    for (uint32_t i = depth; i > 0; --i) free_.push_back(i - 1);
  }
  ~PollBackendImpl() override {
    if (open_) io_uring_queue_exit(&ring_);
  }

  absl::Status Open() {
    for (unsigned flags :
         {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0u}) {
      io_uring_params params{};
      params.flags = flags | IORING_SETUP_IOPOLL | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE;
      params.cq_entries = static_cast<unsigned>(slots_.size()) * 4;
      const int rc =
          io_uring_queue_init_params(static_cast<unsigned>(slots_.size()), &ring_, &params);
      if (rc == 0) {
        open_ = true;
        return absl::OkStatus();
      }
      if (rc != -EINVAL) return ErrnoError(-rc, "setting up", "io_uring that polls");
    }
    return ErrnoError(EINVAL, "setting up", "io_uring that polls",
                      "the kernel does not know the flags asked for");
  }

  bool Enqueue(const IoRequest& r) override {
    if (in_flight() >= slots_.size()) return false;  // both rings share one depth
    io_uring_sqe* sqe = nullptr;
    if (polling_ && (r.op == IoOp::kRead || r.op == IoOp::kWrite)) sqe = io_uring_get_sqe(&ring_);
    if (sqe == nullptr) return rest_->Enqueue(r);
    const uint32_t i = free_.back();
    free_.pop_back();
    slots_[i] = r;
    if (r.op == IoOp::kRead) {
      io_uring_prep_read(sqe, r.fd, r.buffer, static_cast<unsigned>(r.length), r.offset);
    } else {
      io_uring_prep_write(sqe, r.fd, r.buffer, static_cast<unsigned>(r.length), r.offset);
    }
    sqe->user_data = i;
    ++pending_;
    return true;
  }

  void Submit() override {
    rest_->Submit();
    if (pending_ == 0) return;
    // On EBUSY or EAGAIN the entries stay queued and the next call tries again.
    const int n = io_uring_submit(&ring_);
    if (n > 0) pending_ -= static_cast<size_t>(n);
  }

  size_t Harvest(IoResult* out, size_t max) override {
    size_t n = 0;
    // In IOPOLL mode completions appear only when the kernel is asked to look for them.
    for (io_uring_cqe* cqe = nullptr;
         n < max && Polled() > 0 && io_uring_peek_cqe(&ring_, &cqe) == 0;) {
      const auto i = static_cast<uint32_t>(cqe->user_data);
      const int32_t result = cqe->res;
      io_uring_cqe_seen(&ring_, cqe);
      free_.push_back(i);
      if (result == -EOPNOTSUPP || result == -EINVAL) {
        SendWithoutPolling(slots_[i]);
      } else {
        out[n++] = {slots_[i].tag, result};
      }
    }
    if (n < max && Polled() > 0) io_uring_get_events(&ring_);
    return n + rest_->Harvest(out + n, max - n);
  }

  int wait_fd() const override { return rest_->wait_fd(); }
  bool needs_polling() const override { return Polled() > 0 || rest_->needs_polling(); }
  size_t in_flight() const override { return Polled() + rest_->in_flight(); }
  EngineKind kind() const override { return EngineKind::kUring; }
  bool polling() const override { return polling_; }

  int RegisterBuffer(char* base, size_t bytes) override {
    return rest_->RegisterBuffer(base, bytes);
  }
  void UnregisterBuffer(int index) override { rest_->UnregisterBuffer(index); }
  int RegisterFile(int fd) override { return rest_->RegisterFile(fd); }
  void UnregisterFile(int index) override { rest_->UnregisterFile(index); }

 private:
  size_t Polled() const { return slots_.size() - free_.size(); }

  void SendWithoutPolling(const IoRequest& r) {
    if (std::exchange(polling_, false)) {
      Log(LogLevel::kWarn,
          "engine io_uring_poll: this device or file system has no polled I/O; using io_uring "
          "(NVMe needs nvme.poll_queues > 0 and direct I/O)");
    }
    rest_->Enqueue(r);  // has room: both together have no more in flight than it alone takes
    rest_->Submit();
  }

  std::unique_ptr<IoBackend> rest_;
  io_uring ring_{};
  bool open_ = false;
  bool polling_ = true;
  std::vector<IoRequest> slots_;
  std::vector<uint32_t> free_;
  size_t pending_ = 0;  // queued, and not yet taken by the kernel
};

}  // namespace

absl::StatusOr<std::unique_ptr<PollBackend>> CreatePollBackend(const IoBackendOptions& options) {
  PULSE_ASSIGN_OR_RETURN(auto rest, CreateUringBackend(options));
  auto backend = std::make_unique<PollBackendImpl>(std::move(rest), options.depth);
  PULSE_RETURN_IF_ERROR(backend->Open());
  return std::unique_ptr<PollBackend>(std::move(backend));
}

}  // namespace pulse::rivals
