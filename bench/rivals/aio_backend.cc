// "libaio": Linux AIO for reads and writes, which is asynchronous only with O_DIRECT; all else goes
// to a thread pool. By system calls, of which it needs four: the library would be one more
// dependency for nothing.
#include <linux/aio_abi.h>
#include <sys/epoll.h>
#include <sys/syscall.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <vector>

#include "base/errors.h"
#include "base/wake_event.h"
#include "bench/rivals/engines.h"

namespace pulse::rivals {
namespace {

// -errno on failure, as the kernel has it.
template <typename... Args>
int AioCall(long number, Args... args) {
  const long rc = syscall(number, args...);
  return static_cast<int>(rc < 0 ? -errno : rc);
}

class AioBackend : public IoBackend {
 public:
  AioBackend(aio_context_t context, WakeEvent event, std::unique_ptr<IoBackend> rest,
             UniqueFd epoll, uint32_t depth)
      : context_(context),
        event_(std::move(event)),
        rest_(std::move(rest)),
        epoll_(std::move(epoll)),
        slots_(depth) {
    for (uint32_t i = depth; i > 0; --i) free_.push_back(i - 1);
  }

  ~AioBackend() override { AioCall(SYS_io_destroy, context_); }

  bool Enqueue(const IoRequest& r) override {
    if (in_flight() >= slots_.size()) return false;  // both ways to the kernel share one depth
    if (r.op != IoOp::kRead && r.op != IoOp::kWrite) return rest_->Enqueue(r);
    const uint32_t i = free_.back();
    free_.pop_back();
    iocb& cb = slots_[i].cb;
    cb = iocb{};
    cb.aio_lio_opcode = r.op == IoOp::kRead ? IOCB_CMD_PREAD : IOCB_CMD_PWRITE;
    cb.aio_fildes = static_cast<uint32_t>(r.fd);
    cb.aio_buf = reinterpret_cast<uintptr_t>(r.buffer);
    cb.aio_nbytes = r.length;
    cb.aio_offset = static_cast<int64_t>(r.offset);
    cb.aio_flags = IOCB_FLAG_RESFD;
    cb.aio_resfd = static_cast<uint32_t>(event_.fd());
    cb.aio_data = i;
    slots_[i].tag = r.tag;
    batch_.push_back(&cb);
    return true;
  }

  void Submit() override {
    rest_->Submit();
    size_t done = 0;
    while (done < batch_.size()) {
      const int n = AioCall(SYS_io_submit, context_, batch_.size() - done, batch_.data() + done);
      if (n > 0) {
        done += n;
      } else if (n == -EINTR || n == -EAGAIN) {
        if (n == -EAGAIN) break;  // the kernel's queue is full: the next Submit tries again
      } else {
        // The first request of the batch is at fault; the others are tried without it.
        const uint32_t i = static_cast<uint32_t>(batch_[done]->aio_data);
        failed_.push_back({slots_[i].tag, n == 0 ? -EIO : n});
        free_.push_back(i);
        ++done;
      }
    }
    batch_.erase(batch_.begin(), batch_.begin() + done);
  }

  size_t Harvest(IoResult* out, size_t max) override {
    size_t n = 0;
    for (; n < max && !failed_.empty(); ++n) {
      out[n] = failed_.back();
      failed_.pop_back();
    }
    n += rest_->Harvest(out + n, max - n);
    event_.Clear();
    io_event events[64];
    while (n < max) {
      timespec zero{};
      const int got =
          AioCall(SYS_io_getevents, context_, 0L, std::min<size_t>(64, max - n), events, &zero);
      if (got <= 0) break;
      for (int k = 0; k < got; ++k) {
        const uint32_t i = static_cast<uint32_t>(events[k].data);
        out[n++] = {slots_[i].tag, events[k].res};
        free_.push_back(i);
      }
    }
    // More may be left than fitted: stay readable.
    if (n == max) event_.Set();
    return n;
  }

  int wait_fd() const override { return epoll_.get(); }
  // A batch that the kernel had no room for is submitted again by the next loop.
  bool needs_polling() const override { return !batch_.empty() || !failed_.empty(); }
  size_t in_flight() const override {
    return slots_.size() - free_.size() + failed_.size() + rest_->in_flight();
  }
  EngineKind kind() const override { return EngineKind::kThreads; }

 private:
  struct Slot {
    iocb cb;
    uint64_t tag;
  };

  aio_context_t context_;
  const WakeEvent event_;
  std::unique_ptr<IoBackend> rest_;
  UniqueFd epoll_;  // joins event_ and rest_'s descriptor into one
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::vector<iocb*> batch_;
  std::vector<IoResult> failed_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<IoBackend>> CreateAioBackend(const IoBackendOptions& options) {
  PULSE_ASSIGN_OR_RETURN(auto rest, CreateThreadBackend(options));
  PULSE_ASSIGN_OR_RETURN(auto event, WakeEvent::Create());
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return ErrnoError(errno, "creating", "an epoll descriptor");
  for (int fd : {event.fd(), rest->wait_fd()}) {
    epoll_event ev{};
    ev.events = EPOLLIN;
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &ev) != 0) {
      return ErrnoError(errno, "watching", "an eventfd");
    }
  }
  aio_context_t context{};
  if (const int rc = AioCall(SYS_io_setup, options.depth, &context); rc != 0) {
    return ErrnoError(-rc, "setting up", "Linux AIO", "raise fs.aio-max-nr");
  }
  return std::unique_ptr<IoBackend>(std::make_unique<AioBackend>(
      context, std::move(event), std::move(rest), std::move(epoll), options.depth));
}

}  // namespace pulse::rivals
