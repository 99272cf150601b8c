// The epoll back-end: level-triggered receives into one scratch buffer, sends at once.
#include <netinet/in.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <array>
#include <cerrno>
#include <utility>
#include <vector>

#include "base/adaptive_spin.h"
#include "base/clock.h"
#include "base/errors.h"
#include "net/net.h"
#include "uring/io_backend.h"

namespace pulse::director {
namespace {

constexpr size_t kReceiveBytes = size_t{64} << 10;
constexpr int kEventsAtOnce = 128;
constexpr int kAcceptsAtOnce = 64;
constexpr size_t kIovecs = 16;
constexpr uint32_t kReadDepth = 256;

class EpollBackend;

// What an epoll event points at.
class Source {
 public:
  virtual ~Source() = default;
  virtual void OnEvents(uint32_t events) = 0;
  bool closed = false;
};

class EpollStream final : public Stream, public Source {
 public:
  EpollStream(UniqueFd fd, StreamEvents* events, EpollBackend* backend, ChunkCache* cache)
      : Stream(std::move(fd), cache), events_(events), backend_(backend) {}
  void SetReading(bool on) override;
  void Flush() override;
  void Close() override;
  void OnEvents(uint32_t events) override;
  void ReportError() {
    if (!closed) events_->OnError(error_);
  }

 private:
  friend class EpollBackend;
  void Arm();
  void Fail(int error);

  StreamEvents* const events_;
  EpollBackend* const backend_;
  bool reading_ = false;
  bool blocked_ = false;  // the kernel takes no more
  bool hung_up_ =
      false;  // both sides are shut, and nobody reads: out of the set until somebody does
  uint32_t armed_ = 0;
  int error_ = 0;
};

class EpollWatch final : public Watch, public Source {
 public:
  EpollWatch(int fd, EpollBackend* backend, std::function<void(short)> ready)
      : fd_(fd), backend_(backend), ready_(std::move(ready)) {}
  void Close() override;
  // The bits that are used are the same as poll's.
  void OnEvents(uint32_t events) override { ready_(static_cast<short>(events)); }

 private:
  static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR);
  static_assert(EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP);
  const int fd_;
  EpollBackend* const backend_;
  const std::function<void(short)> ready_;
};

class EpollBackend final : public NetBackend {
 public:
  explicit EpollBackend(const NetOptions& options)
      : cache_(options.cache),
        woke_(options.woke),
        scratch_(new char[kReceiveBytes]),
        spin_(options.spin_nanos) {}
  ~EpollBackend() override {
    disk_watch_.reset();
    // Reads write into memory of others: none may be left behind.
    while (disk_ != nullptr && disk_->in_flight() > 0) HarvestReads();
    Bury();
  }

  absl::Status Start() {
    epoll_ = UniqueFd(epoll_create1(EPOLL_CLOEXEC));
    return epoll_.valid() ? absl::OkStatus() : ErrnoError(errno, "making", "an epoll set");
  }

  NetKind kind() const override { return NetKind::kEpoll; }

  StreamPtr Open(UniqueFd fd, StreamEvents* events) override {
    auto* stream = new EpollStream(std::move(fd), events, this, cache_);
    StreamPtr owner(stream);
    if (!Control(EPOLL_CTL_ADD, stream->fd(), 0, stream)) return nullptr;
    return owner;
  }

  WatchPtr Add(int fd, short events, std::function<void(short)> ready) override {
    auto* watch = new EpollWatch(fd, this, std::move(ready));
    WatchPtr owner(watch);
    const uint32_t bits = static_cast<uint16_t>(events) | EPOLLET;
    if (!Control(EPOLL_CTL_ADD, fd, bits, watch)) return nullptr;
    return owner;
  }

  WatchPtr Accept(int listener, std::function<void(int)> accepted) override {
    auto* watch = new EpollWatch(listener, this, [listener, accepted](short) {
      for (int i = 0; i < kAcceptsAtOnce; ++i) {
        const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
        if (fd < 0 && errno == EAGAIN) return;
        const int result = fd < 0 ? -errno : fd;
        accepted(result);
        if (result < 0) return;
      }
    });
    WatchPtr owner(watch);
    if (!Control(EPOLL_CTL_ADD, listener, EPOLLIN | EPOLLEXCLUSIVE, watch)) return nullptr;
    return owner;
  }

  void Read(int fd, uint64_t offset, char* data, size_t size,
            std::function<void(int64_t)> done) override {
    reads_waiting_.push_back({fd, offset, data, size, std::move(done)});
    StartReads();
  }
  size_t reads_in_flight() const override {
    return reads_waiting_.size() + reads_.size() - free_reads_.size();
  }

  // Looks for events for as long as that has helped, unless this is more than `nanos`; how many
  // there are.
  int Look(int64_t nanos, std::array<epoll_event, kEventsAtOnce>* events) {
    const int64_t longest = spin_.Before(nanos);
    if (longest == 0) return 0;
    const int64_t begun = NowNanos();
    do {
      const int n = epoll_wait(epoll_.get(), events->data(), kEventsAtOnce, 0);
      if (n > 0) return n;
    } while (NowNanos() - begun < longest);
    return 0;
  }

  void Wait(int64_t nanos) override {
    Bury();
    if (disk_ != nullptr && disk_->in_flight() > 0) {
      disk_->Submit();
      if (disk_->needs_polling()) nanos = 0;
    }
    if (!failed_.empty()) nanos = 0;
    std::array<epoll_event, kEventsAtOnce> events;
    int n = Look(nanos, &events);
    if (n <= 0) {
      const bool learns = spin_.Learns(nanos);
      const int64_t begun = learns ? NowNanos() : 0;
      const timespec limit = {nanos / 1'000'000'000, nanos % 1'000'000'000};
      n = epoll_pwait2(epoll_.get(), events.data(), kEventsAtOnce, nanos < 0 ? nullptr : &limit,
                       nullptr);
      if (learns) spin_.Slept(NowNanos() - begun);
    }
    if (woke_ != nullptr) woke_();
    for (int i = 0; i < n; ++i) {
      auto* source = static_cast<Source*>(events[i].data.ptr);
      if (!source->closed) source->OnEvents(events[i].events);
    }
    for (EpollStream* stream : std::exchange(failed_, {})) stream->ReportError();
    if (disk_ != nullptr && disk_->needs_polling()) HarvestReads();
    Bury();
  }

  bool Control(int operation, int fd, uint32_t bits, Source* source) {
    epoll_event event{};
    event.events = bits;
    event.data.ptr = source;
    return epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
  }
  void Remove(int fd) { epoll_ctl(epoll_.get(), EPOLL_CTL_DEL, fd, nullptr); }
  // Destroyed when no event of this turn can point at it.
  void Bury(Source* source) { graves_.push_back(source); }
  char* scratch() { return scratch_.get(); }
  void Failed(EpollStream* stream) { failed_.push_back(stream); }
  void Forget(EpollStream* stream) { std::erase(failed_, stream); }

 private:
  struct PendingRead {
    int fd = -1;
    uint64_t offset = 0;
    char* data = nullptr;
    size_t size = 0;
    std::function<void(int64_t)> done;
  };

  void Bury() {
    for (Source* source : std::exchange(graves_, {})) delete source;
  }

  bool OpenDisk() {
    if (disk_ != nullptr) return true;
    IoBackendOptions options;
    options.depth = kReadDepth;
    auto disk = CreateIoBackend(options);
    if (!disk.ok()) return false;
    disk_ = *std::move(disk);
    disk_watch_ = Add(disk_->wait_fd(), POLLIN, [this](short) { HarvestReads(); });
    return disk_watch_ != nullptr;
  }

  void StartReads() {
    if (!OpenDisk()) {
      for (PendingRead& read : std::exchange(reads_waiting_, {})) read.done(-ENOSYS);
      return;
    }
    size_t started = 0;
    for (; started < reads_waiting_.size() && reads_.size() - free_reads_.size() < kReadDepth;
         ++started) {
      uint32_t slot = static_cast<uint32_t>(reads_.size());
      if (free_reads_.empty()) {
        reads_.emplace_back();
      } else {
        slot = free_reads_.back();
        free_reads_.pop_back();
      }
      PendingRead& read = reads_[slot] = std::move(reads_waiting_[started]);
      IoRequest request;
      request.op = IoOp::kRead;
      request.fd = read.fd;
      request.buffer = read.data;
      request.offset = read.offset;
      request.length = read.size;
      request.tag = slot;
      disk_->Enqueue(request);
    }
    reads_waiting_.erase(reads_waiting_.begin(),
                         reads_waiting_.begin() + static_cast<ptrdiff_t>(started));
  }

  void HarvestReads() {
    std::array<IoResult, 64> results;
    while (const size_t n = disk_->Harvest(results.data(), results.size())) {
      for (size_t i = 0; i < n; ++i) {
        auto done = std::move(reads_[results[i].tag].done);
        free_reads_.push_back(static_cast<uint32_t>(results[i].tag));
        done(results[i].result);
      }
    }
    if (!reads_waiting_.empty()) StartReads();
  }

  ChunkCache* const cache_;
  const std::function<void()> woke_;
  const std::unique_ptr<char[]> scratch_;
  AdaptiveSpin spin_;
  UniqueFd epoll_;
  std::vector<Source*> graves_;
  std::vector<EpollStream*> failed_;
  std::unique_ptr<IoBackend> disk_;
  WatchPtr disk_watch_;
  std::vector<PendingRead> reads_;
  std::vector<uint32_t> free_reads_;
  std::vector<PendingRead> reads_waiting_;
};

void EpollStream::Arm() {
  const uint32_t wanted = (reading_ ? EPOLLIN : 0u) | (blocked_ ? EPOLLOUT : 0u);
  if (hung_up_) {
    if (wanted == 0) return;
    hung_up_ = false;
    backend_->Control(EPOLL_CTL_ADD, fd(), wanted, this);
  } else if (wanted != armed_) {
    backend_->Control(EPOLL_CTL_MOD, fd(), wanted, this);
  }
  armed_ = wanted;
}

void EpollStream::SetReading(bool on) {
  if (reading_ == on || error_ != 0) return;
  reading_ = on;
  Arm();
}

void EpollStream::Fail(int error) {
  if (error_ != 0) return;
  error_ = error;
  backend_->Remove(fd());
  backend_->Failed(this);
}

void EpollStream::Flush() {
  if (blocked_ || error_ != 0) return;
  while (!out_.empty()) {
    std::array<iovec, kIovecs> iov;
    msghdr message{};
    message.msg_iov = iov.data();
    message.msg_iovlen = out_.Peek(iov.data(), iov.size());
    const ssize_t n = sendmsg(fd(), &message, MSG_NOSIGNAL | MSG_DONTWAIT);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno != EAGAIN) {
      Fail(errno);
      return;
    }
    if (n < 0) {
      blocked_ = true;
      break;
    }
    handed_over_ += static_cast<uint64_t>(n);
    out_.Consume(static_cast<size_t>(n));
  }
  Arm();
}

void EpollStream::Close() {
  if (closed) return;
  closed = true;
  if (error_ != 0) backend_->Forget(this);
  fd_.reset();  // leaves the set
  out_.Clear();
  backend_->Bury(this);
}

void EpollStream::OnEvents(uint32_t events) {
  if ((events & EPOLLOUT) != 0 && blocked_) {
    blocked_ = false;
    const size_t before = out_.size();
    Flush();
    if (out_.size() < before && error_ == 0) events_->OnSent();
    if (closed || error_ != 0) return;
  }
  if (reading_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    const ssize_t n = recv(fd(), backend_->scratch(), kReceiveBytes, MSG_DONTWAIT);
    if (n > 0) {
      events_->OnBytes({backend_->scratch(), static_cast<size_t>(n)});
    } else if (n == 0) {
      reading_ = false;
      Arm();
      events_->OnEnd();
    } else if (errno != EAGAIN && errno != EINTR) {
      Fail(errno);
    }
  } else if ((events & EPOLLERR) != 0) {
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    Fail(error != 0 ? error : ECONNRESET);
  } else if ((events & EPOLLHUP) != 0 && !blocked_) {
    hung_up_ = true;
    backend_->Remove(fd());
  }
}

void EpollWatch::Close() {
  if (closed) return;
  closed = true;
  backend_->Remove(fd_);
  backend_->Bury(this);
}

}  // namespace

absl::StatusOr<std::unique_ptr<NetBackend>> CreateEpollBackend(const NetOptions& options) {
  auto backend = std::make_unique<EpollBackend>(options);
  if (absl::Status st = backend->Start(); !st.ok()) return st;
  return std::unique_ptr<NetBackend>(std::move(backend));
}

}  // namespace pulse::director
