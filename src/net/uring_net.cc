#include "net/uring_net.h"

#include <sys/mman.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"

namespace pulse::director {
namespace {

constexpr unsigned kEntries = 1024;
constexpr unsigned kCompletions = 16384;
constexpr int64_t kAbortNanos = 2'000'000'000;
constexpr unsigned kCompletionsAtOnce = 512;
constexpr int kLooksPerClock = 16;

}  // namespace

UringNet::~UringNet() {
  if (!open_) return;
  // Reads write into memory of others, and closed streams may still be sent from.
  for (UringStream* stream : std::exchange(streams_, {})) stream->Abort();
  const int64_t limit = NowNanos() + kAbortNanos;
  while (reads_ > 0 || (ops_ > 0 && NowNanos() < limit)) Wait(1'000'000);
  BuryDead();
  io_uring_unregister_buf_ring(&ring_, kGroup);
  io_uring_queue_exit(&ring_);
  munmap(buffer_ring_, kBuffers * sizeof(io_uring_buf));
  munmap(buffers_, kBuffers * kBufferBytes);
}

absl::Status UringNet::OpenRing() {
  // The first spares interrupts and runs completions when they are waited for; then older kernels'.
  // TASKRUN_FLAG: that there are some can be seen without a call.
  for (const unsigned flags :
       {IORING_SETUP_SINGLE_ISSUER | IORING_SETUP_DEFER_TASKRUN | IORING_SETUP_TASKRUN_FLAG,
        IORING_SETUP_COOP_TASKRUN | IORING_SETUP_TASKRUN_FLAG, 0u}) {
    io_uring_params params{};
    params.flags = flags | IORING_SETUP_CLAMP | IORING_SETUP_CQSIZE | IORING_SETUP_SUBMIT_ALL;
    params.cq_entries = kCompletions;
    const int rc = io_uring_queue_init_params(kEntries, &ring_, &params);
    if (rc == 0) return absl::OkStatus();
    if (rc != -EINVAL) {
      return ErrnoError(-rc, "setting up", "io_uring",
                        "check kernel.io_uring_disabled and the container's seccomp profile");
    }
  }
  return absl::UnimplementedError("the kernel's io_uring is older than 5.18");
}

absl::Status UringNet::OpenBuffers() {
  auto map = [](size_t bytes) {
    void* p = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    return p == MAP_FAILED ? nullptr : p;
  };
  buffer_ring_ = static_cast<io_uring_buf_ring*>(map(kBuffers * sizeof(io_uring_buf)));
  buffers_ = static_cast<char*>(map(kBuffers * kBufferBytes));
  if (buffer_ring_ == nullptr || buffers_ == nullptr) {
    return ErrnoError(ENOMEM, "mapping", "receive buffers");
  }
  io_uring_buf_reg reg{};
  reg.ring_addr = reinterpret_cast<uintptr_t>(buffer_ring_);
  reg.ring_entries = kBuffers;
  reg.bgid = kGroup;
  if (const int rc = io_uring_register_buf_ring(&ring_, &reg, 0); rc != 0) {
    return ErrnoError(-rc, "registering", "receive buffers with io_uring",
                      "use Linux 5.19 or later");
  }
  io_uring_buf_ring_init(buffer_ring_);
  for (unsigned i = 0; i < kBuffers; ++i) {
    io_uring_buf_ring_add(buffer_ring_, buffers_ + i * kBufferBytes, kBufferBytes,
                          static_cast<unsigned short>(i), io_uring_buf_ring_mask(kBuffers),
                          static_cast<int>(i));
  }
  io_uring_buf_ring_advance(buffer_ring_, kBuffers);
  return absl::OkStatus();
}

absl::Status UringNet::Start() {
  PULSE_RETURN_IF_ERROR(OpenRing());
  open_ = true;
  multishot = !options_.without_multishot;
  zero_copy = options_.zero_copy_bytes > 0;
  io_uring_probe* probe = io_uring_get_probe_ring(&ring_);
  if (probe == nullptr) return absl::UnimplementedError("the kernel's io_uring has no probe");
  int missing = -1;
  for (const int op : {IORING_OP_ACCEPT, IORING_OP_RECV, IORING_OP_SENDMSG, IORING_OP_POLL_ADD,
                       IORING_OP_ASYNC_CANCEL, IORING_OP_READ}) {
    if (!io_uring_opcode_supported(probe, op)) missing = op;
  }
  zero_copy = zero_copy && io_uring_opcode_supported(probe, IORING_OP_SENDMSG_ZC);
  io_uring_free_probe(probe);
  if (missing >= 0) {
    return absl::UnimplementedError(
        absl::StrCat("the kernel's io_uring lacks operation ", missing));
  }
  return OpenBuffers();
}

io_uring_sqe* UringNet::Next(UringOp* op) {
  io_uring_sqe* sqe = io_uring_get_sqe(&ring_);
  while (sqe == nullptr) {
    Submit();
    sqe = io_uring_get_sqe(&ring_);
  }
  io_uring_sqe_set_data(sqe, op);
  return sqe;
}

void UringNet::Submit() {
  ++submissions_;
  io_uring_submit(&ring_);
}

void UringNet::Cancel(UringOp* op) {
  io_uring_sqe* sqe = Next(nullptr);
  io_uring_prep_cancel(sqe, op, 0);
  io_uring_sqe_set_data(sqe, nullptr);
}

const char* UringNet::received(unsigned flags) const {
  return buffers_ + (flags >> IORING_CQE_BUFFER_SHIFT) * kBufferBytes;
}

void UringNet::Recycle(unsigned flags) {
  if ((flags & IORING_CQE_F_BUFFER) == 0) return;
  const unsigned id = flags >> IORING_CQE_BUFFER_SHIFT;
  io_uring_buf_ring_add(buffer_ring_, buffers_ + id * kBufferBytes, kBufferBytes,
                        static_cast<unsigned short>(id), io_uring_buf_ring_mask(kBuffers), 0);
  io_uring_buf_ring_advance(buffer_ring_, 1);
}

void UringNet::Forget(UringStream* stream) {
  std::erase(starved_, stream);
  std::erase(streams_, stream);
}

StreamPtr UringNet::Open(UniqueFd fd, StreamEvents* events) {
  // A descriptor that does not block would make the ring give up where it is to wait.
  const int flags = fcntl(fd.get(), F_GETFL);
  if ((flags & O_NONBLOCK) != 0) fcntl(fd.get(), F_SETFL, flags & ~O_NONBLOCK);
  return StreamPtr(new UringStream(std::move(fd), events, this, options_.cache));
}

WatchPtr UringNet::Add(int fd, short events, std::function<void(short)> ready) {
  auto* watch = new UringWatch(
      fd, events, false, [ready = std::move(ready)](int got) { ready(static_cast<short>(got)); },
      this);
  WatchPtr owner(watch);
  watch->Arm();
  return owner;
}

WatchPtr UringNet::Accept(int listener, std::function<void(int)> accepted) {
  const int flags = fcntl(listener, F_GETFL);
  if ((flags & O_NONBLOCK) != 0) fcntl(listener, F_SETFL, flags & ~O_NONBLOCK);
  auto* watch = new UringWatch(listener, 0, true, std::move(accepted), this);
  WatchPtr owner(watch);
  watch->Arm();
  return owner;
}

void UringNet::Read(int fd, uint64_t offset, char* data, size_t size,
                    std::function<void(int64_t)> done) {
  if (free_reads_.empty()) free_reads_.push_back(std::make_unique<ReadOp>());
  ReadOp* read = free_reads_.back().release();
  free_reads_.pop_back();
  read->net = this;
  read->done = std::move(done);
  read->op.self = read;
  read->op.complete = [](void* self, int result, unsigned) {
    auto* finished = static_cast<ReadOp*>(self);
    finished->net->ReadDone(finished, result);
  };
  ++reads_;
  io_uring_sqe* sqe = Next(&read->op);
  io_uring_prep_read(sqe, fd, data, static_cast<unsigned>(size), offset);
  io_uring_sqe_set_data(sqe, &read->op);
}

void UringNet::ReadDone(ReadOp* read, int result) {
  --reads_;
  const auto done = std::exchange(read->done, nullptr);
  free_reads_.emplace_back(read);
  done(result);
}

void UringNet::BuryDead() {
  for (const auto& destroy : std::exchange(graves_, {})) destroy();
}

void UringNet::Dispatch() {
  io_uring_cqe* cqe = nullptr;
  // Those that are there now: a look for one more would have the kernel receive on, and what is to
  // stop that waits to be submitted.
  const unsigned ready = std::min(io_uring_cq_ready(&ring_), kCompletionsAtOnce);
  for (unsigned n = 0; n < ready && io_uring_peek_cqe(&ring_, &cqe) == 0; ++n) {
    auto* op = static_cast<UringOp*>(io_uring_cqe_get_data(cqe));
    const int result = cqe->res;
    const unsigned flags = cqe->flags;
    io_uring_cqe_seen(&ring_, cqe);
    if (op != nullptr) op->complete(op->self, result, flags);
  }
}

// Looks for events for as long as that has helped, unless this is more than `nanos`; whether there
// are some. What was queued is submitted.
bool UringNet::Look(int64_t nanos) {
  const int64_t longest = spin_.Before(nanos);
  if (longest == 0) return false;
  io_uring_submit(&ring_);
  const int64_t begun = NowNanos();
  do {
    for (int i = 0; i < kLooksPerClock; ++i) {
      if ((IO_URING_READ_ONCE(*ring_.sq.kflags) & (IORING_SQ_TASKRUN | IORING_SQ_CQ_OVERFLOW)) !=
          0) {
        io_uring_get_events(&ring_);
      }
      if (io_uring_cq_ready(&ring_) > 0) return true;
      CpuPause();
    }
  } while (NowNanos() - begun < longest);
  return false;
}

void UringNet::Wait(int64_t nanos) {
  BuryDead();  // their descriptors are open until then
  for (UringStream* stream : std::exchange(starved_, {})) stream->Receive();
  BuryDead();  // what was closed since; its peer is to see the end before this sleeps
  ++submissions_;
  io_uring_cqe* cqe = nullptr;
  __kernel_timespec limit = {nanos / 1'000'000'000, nanos % 1'000'000'000};
  if (io_uring_cq_ready(&ring_) > 0) nanos = 0;
  if (nanos == 0) {
    io_uring_submit_and_get_events(&ring_);
  } else if (!Look(nanos)) {
    const bool learns = spin_.Learns(nanos);
    const int64_t begun = learns ? NowNanos() : 0;
    io_uring_submit_and_wait_timeout(&ring_, &cqe, 1, nanos < 0 ? nullptr : &limit, nullptr);
    if (learns) spin_.Slept(NowNanos() - begun);
  }
  if (options_.woke != nullptr) options_.woke();
  Dispatch();
  BuryDead();
}

// ---- Watches.

UringWatch::UringWatch(int fd, short events, bool accepts, std::function<void(int)> report,
                       UringNet* net)
    : fd_(fd), events_(events), accepts_(accepts), report_(std::move(report)), net_(net) {
  ++net_->ops_;
  op_.self = this;
  op_.complete = [](void* self, int result, unsigned flags) {
    static_cast<UringWatch*>(self)->Completed(result, flags);
  };
}

void UringWatch::Arm() {
  armed_ = true;
  io_uring_sqe* sqe = net_->Next(&op_);
  if (!accepts_) {
    io_uring_prep_poll_multishot(sqe, fd_, static_cast<uint16_t>(events_));
  } else if (net_->multishot) {
    io_uring_prep_multishot_accept(sqe, fd_, nullptr, nullptr, SOCK_CLOEXEC);
  } else {
    io_uring_prep_accept(sqe, fd_, nullptr, nullptr, SOCK_CLOEXEC);
  }
  io_uring_sqe_set_data(sqe, &op_);
  armed_in_ = net_->submissions();
}

void UringWatch::Completed(int result, unsigned flags) {
  armed_ = (flags & IORING_CQE_F_MORE) != 0;
  if (!closed_) {
    if (accepts_ && result == -EINVAL && net_->multishot) {
      net_->multishot = false;
    } else if (result != -ECANCELED) {
      reporting_ = true;
      report_(result < 0 && !accepts_ ? POLLERR : result);
      reporting_ = false;
      // Nothing more can be told of it.
      if (result < 0 && !accepts_ && !armed_ && !closed_) return;
    }
  } else if (accepts_ && result >= 0) {
    close(result);
  }
  if (armed_) return;
  if (!closed_) {
    Arm();
    return;
  }
  --net_->ops_;
  net_->Bury([this] { delete this; });
}

void UringWatch::Close() {
  if (closed_) return;
  closed_ = true;
  if (!armed_) {
    if (reporting_) return;  // Completed goes on
    --net_->ops_;
    net_->Bury([this] { delete this; });
    return;
  }
  // The caller may close the descriptor next: its number must have reached the kernel.
  if (armed_in_ == net_->submissions()) net_->Submit();
  net_->Cancel(&op_);
}

absl::StatusOr<std::unique_ptr<NetBackend>> CreateUringNetBackend(const NetOptions& options) {
  auto net = std::make_unique<UringNet>(options);
  if (absl::Status st = net->Start(); !st.ok()) return st;
  return std::unique_ptr<NetBackend>(std::move(net));
}

}  // namespace pulse::director
