// Engine "libaio": Linux AIO for reads and writes, which is asynchronous only with O_DIRECT; all
// else goes to a thread pool. For the paper's comparison of engines (IV-E).
#include <libaio.h>
#include <sys/epoll.h>

#include <algorithm>
#include <cerrno>
#include <cstring>
#include <vector>

#include "base/errors.h"
#include "channel/doorbell.h"
#include "uring/io_backend.h"

namespace pulse {
namespace {

class AioBackend : public IoBackend {
 public:
  AioBackend(io_context_t context, UniqueFd event, std::unique_ptr<IoBackend> rest, UniqueFd epoll,
             uint32_t depth)
      : context_(context),
        event_(std::move(event)),
        rest_(std::move(rest)),
        epoll_(std::move(epoll)),
        slots_(depth) {
    for (uint32_t i = depth; i > 0; --i) free_.push_back(i - 1);
  }

  ~AioBackend() override { io_destroy(context_); }

  bool Enqueue(const IoRequest& r) override {
    if (r.op != IoOp::kRead && r.op != IoOp::kWrite) return rest_->Enqueue(r);
    if (free_.empty()) return false;
    const uint32_t i = free_.back();
    free_.pop_back();
    iocb& cb = slots_[i].cb;
    if (r.op == IoOp::kRead) {
      io_prep_pread(&cb, r.fd, r.buffer, r.length, r.offset);
    } else {
      io_prep_pwrite(&cb, r.fd, r.buffer, r.length, r.offset);
    }
    io_set_eventfd(&cb, event_.get());
    cb.data = reinterpret_cast<void*>(static_cast<uintptr_t>(i));
    slots_[i].tag = r.tag;
    batch_.push_back(&cb);
    return true;
  }

  void Submit() override {
    rest_->Submit();
    size_t done = 0;
    while (done < batch_.size()) {
      const int n = io_submit(context_, batch_.size() - done, batch_.data() + done);
      if (n > 0) {
        done += n;
      } else if (n == -EINTR || n == -EAGAIN) {
        if (n == -EAGAIN) break;  // the kernel's queue is full: the next Submit tries again
      } else {
        // The first request of the batch is at fault; the others are tried without it.
        const uint32_t i = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(batch_[done]->data));
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
    uint64_t count;
    while (read(event_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
    }
    io_event events[64];
    while (n < max) {
      timespec zero{};
      const int got = io_getevents(context_, 0, std::min<size_t>(64, max - n), events, &zero);
      if (got <= 0) break;
      for (int k = 0; k < got; ++k) {
        const uint32_t i = static_cast<uint32_t>(reinterpret_cast<uintptr_t>(events[k].data));
        out[n++] = {slots_[i].tag, static_cast<int64_t>(events[k].res)};
        free_.push_back(i);
      }
    }
    // More may be left than fitted: stay readable.
    if (n == max) {
      const uint64_t one = 1;
      while (write(event_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
      }
    }
    return n;
  }

  int wait_fd() const override { return epoll_.get(); }
  // A batch that the kernel had no room for is submitted again by the next loop.
  bool needs_polling() const override { return !batch_.empty() || !failed_.empty(); }
  size_t in_flight() const override {
    return slots_.size() - free_.size() + failed_.size() + rest_->in_flight();
  }
  EngineKind kind() const override { return EngineKind::kLibaio; }

 private:
  struct Slot {
    iocb cb;
    uint64_t tag;
  };

  io_context_t context_;
  UniqueFd event_;
  std::unique_ptr<IoBackend> rest_;
  UniqueFd epoll_;  // joins event_ and rest_'s descriptor into one
  std::vector<Slot> slots_;
  std::vector<uint32_t> free_;
  std::vector<iocb*> batch_;
  std::vector<IoResult> failed_;
};

}  // namespace

absl::StatusOr<std::unique_ptr<IoBackend>> CreateAioBackend(const IoBackendOptions& options) {
  auto rest = CreateThreadBackend(options);
  if (!rest.ok()) return rest.status();
  auto event = Doorbell::CreateEventFd();
  if (!event.ok()) return event.status();
  UniqueFd epoll(epoll_create1(EPOLL_CLOEXEC));
  if (!epoll.valid()) return ErrnoError(errno, "creating", "an epoll descriptor");
  for (int fd : {event->get(), (*rest)->wait_fd()}) {
    epoll_event ev{};
    ev.events = EPOLLIN;
    if (epoll_ctl(epoll.get(), EPOLL_CTL_ADD, fd, &ev) != 0) {
      return ErrnoError(errno, "watching", "an eventfd");
    }
  }
  io_context_t context{};
  if (const int rc = io_setup(static_cast<int>(options.depth), &context); rc != 0) {
    return ErrnoError(-rc, "setting up", "Linux AIO", "raise fs.aio-max-nr");
  }
  return std::unique_ptr<IoBackend>(std::make_unique<AioBackend>(
      context, *std::move(event), *std::move(rest), std::move(epoll), options.depth));
}

}  // namespace pulse
