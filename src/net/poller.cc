#include "net/poller.h"

#include <sys/socket.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <climits>

#include "base/clock.h"
#include "base/cpu_profile.h"
#include "base/errors.h"

namespace pulse::net {
namespace {

constexpr size_t kReceiveBytes = size_t{64} << 10;
constexpr int kEventsAtOnce = 128;
constexpr int kAcceptsAtOnce = 64;
constexpr size_t kIovecs = 16;
constexpr uint32_t kReadDepth = 256;

}  // namespace

// What an epoll event points at.
class Poller::Source {
 public:
  virtual ~Source() = default;
  virtual void OnEvents(uint32_t events) = 0;
  bool closed = false;
};

class Watch final : public Poller::Source {
 public:
  Watch(int fd, Poller* poller, std::function<void(short)> ready)
      : fd_(fd), poller_(poller), ready_(std::move(ready)) {}
  void Close();
  // The bits that are used are the same as poll's.
  void OnEvents(uint32_t events) override { ready_(static_cast<short>(events)); }

 private:
  static_assert(EPOLLIN == POLLIN && EPOLLOUT == POLLOUT && EPOLLERR == POLLERR);
  static_assert(EPOLLHUP == POLLHUP && EPOLLRDHUP == POLLRDHUP);
  const int fd_;
  Poller* const poller_;
  const std::function<void(short)> ready_;
};

// Level-triggered receives into the poller's one buffer, sends at once.
class SocketStream final : public Stream, public Poller::Source {
 public:
  SocketStream(UniqueFd fd, StreamEvents* events, Poller* poller)
      : Stream(std::move(fd), poller->cache_), events_(events), poller_(poller) {}
  void SetReading(bool on) override;
  void Flush() override;
  void EndSending() override { shutdown(fd(), SHUT_WR); }
  void Close() override;
  void OnEvents(uint32_t events) override;
  void ReportError() {
    if (!closed) events_->OnError(error_);
  }

 private:
  void Arm();
  void Receive();
  void Fail(int error);

  StreamEvents* const events_;
  Poller* const poller_;
  bool reading_ = false;
  bool blocked_ = false;  // the kernel takes no more
  bool hung_up_ =
      false;  // both sides are shut and nobody reads: out of the set until somebody does
  uint32_t armed_ = 0;
  int error_ = 0;
};

void SocketStream::Arm() {
  const uint32_t wanted = (reading_ ? EPOLLIN : 0u) | (blocked_ ? EPOLLOUT : 0u);
  if (hung_up_) {
    if (wanted == 0) return;
    hung_up_ = false;
    poller_->Control(EPOLL_CTL_ADD, fd(), wanted, this);
  } else if (wanted != armed_) {
    poller_->Control(EPOLL_CTL_MOD, fd(), wanted, this);
  }
  armed_ = wanted;
}

void SocketStream::SetReading(bool on) {
  if (reading_ == on || error_ != 0) return;
  reading_ = on;
  Arm();
}

void SocketStream::Fail(int error) {
  if (error_ != 0) return;
  error_ = error;
  poller_->Control(EPOLL_CTL_DEL, fd(), 0, nullptr);
  poller_->failed_.push_back(this);
}

void SocketStream::Flush() {
  if (blocked_ || error_ != 0) return;
  const CpuScope scope(CpuComponent::kRespond);
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
    poller_->sent_bytes_ += static_cast<uint64_t>(n);
    out_.Consume(static_cast<size_t>(n));
  }
  Arm();
}

void SocketStream::Close() {
  closed = true;
  if (error_ != 0) std::erase(poller_->failed_, this);
  fd_.reset();  // leaves the set
  out_.Clear();
  poller_->graves_.push_back(this);
}

void SocketStream::Receive() {
  char* const bytes = poller_->received_.data();
  const ssize_t n = [&] {
    const CpuScope scope(CpuComponent::kReceive);
    return recv(fd(), bytes, std::min(kReceiveBytes, events_->MostBytes()), MSG_DONTWAIT);
  }();
  if (n > 0) {
    poller_->received_bytes_ += static_cast<uint64_t>(n);
    events_->OnBytes({bytes, static_cast<size_t>(n)});
  } else if (n == 0) {
    SetReading(false);
    events_->OnEnd();
  } else if (errno != EAGAIN && errno != EINTR) {
    Fail(errno);
  }
}

void SocketStream::OnEvents(uint32_t events) {
  if ((events & EPOLLOUT) != 0 && blocked_) {
    blocked_ = false;
    const size_t before = out_.size();
    Flush();
    if (out_.size() < before && error_ == 0) events_->OnSent();
    if (closed || error_ != 0) return;
  }
  if (reading_ && (events & (EPOLLIN | EPOLLHUP | EPOLLERR)) != 0) {
    Receive();
  } else if ((events & EPOLLERR) != 0) {
    int error = 0;
    socklen_t size = sizeof(error);
    getsockopt(fd(), SOL_SOCKET, SO_ERROR, &error, &size);
    Fail(error != 0 ? error : ECONNRESET);
  } else if ((events & EPOLLHUP) != 0 && !blocked_) {
    hung_up_ = true;
    poller_->Control(EPOLL_CTL_DEL, fd(), 0, nullptr);
  }
}

void Watch::Close() {
  closed = true;
  poller_->Control(EPOLL_CTL_DEL, fd_, 0, nullptr);
  poller_->graves_.push_back(this);
}

void WatchCloser::operator()(Watch* watch) const { watch->Close(); }

// ---- The poller.

Poller::Poller(ChunkCache* cache, Mailbox* mailbox, std::function<void()> woke, int64_t spin_nanos)
    : cache_(cache),
      mailbox_(mailbox),
      woke_(std::move(woke)),
      spin_(spin_nanos),
      epoll_(epoll_create1(EPOLL_CLOEXEC)),
      received_(kReceiveBytes) {}

absl::StatusOr<std::unique_ptr<Poller>> Poller::Open(ChunkCache* cache, Mailbox* mailbox,
                                                     std::function<void()> woke,
                                                     int64_t spin_nanos) {
  std::unique_ptr<Poller> poller(new Poller(cache, mailbox, std::move(woke), spin_nanos));
  if (!poller->epoll_.valid()) return ErrnoError(errno, "making", "an epoll set");
  return poller;
}

Poller::~Poller() {
  disk_watch_.reset();
  while (disk_ != nullptr && disk_->in_flight() > 0) HarvestReads();
  BuryDead();
}

bool Poller::Control(int operation, int fd, uint32_t bits, Source* source) {
  epoll_event event{};
  event.events = bits;
  event.data.ptr = source;
  return epoll_ctl(epoll_.get(), operation, fd, &event) == 0;
}

StreamPtr Poller::Open(UniqueFd fd, StreamEvents* events) {
  auto stream = std::make_unique<SocketStream>(std::move(fd), events, this);
  if (!Control(EPOLL_CTL_ADD, stream->fd(), 0, stream.get())) return nullptr;
  return StreamPtr(stream.release());
}

WatchPtr Poller::AddWatch(int fd, uint32_t bits, std::function<void(short)> ready) {
  auto watch = std::make_unique<Watch>(fd, this, std::move(ready));
  if (!Control(EPOLL_CTL_ADD, fd, bits, watch.get())) return nullptr;
  return WatchPtr(watch.release());
}

WatchPtr Poller::Add(int fd, short events, std::function<void(short)> ready) {
  return AddWatch(fd, static_cast<uint16_t>(events) | EPOLLET, std::move(ready));
}

WatchPtr Poller::Accept(int listener, std::function<void(int)> accepted) {
  return AddWatch(listener, EPOLLIN | EPOLLEXCLUSIVE, [listener, accepted](short) {
    for (int i = 0; i < kAcceptsAtOnce; ++i) {
      const int fd = accept4(listener, nullptr, nullptr, SOCK_CLOEXEC | SOCK_NONBLOCK);
      if (fd < 0 && errno == EAGAIN) return;
      const int result = fd < 0 ? -errno : fd;
      accepted(result);
      if (result < 0) return;
    }
  });
}

// Looks for events for as long as that has helped, unless this is more than `nanos`; then sleeps.
int Poller::WaitForEvents(epoll_event* events, int64_t nanos) {
  const int64_t look_until = std::exchange(look_until_, 0);
  if (nanos == 0) return Sleep(events, 0);
  const bool must_look = look_until != 0;
  const int64_t longest = must_look ? 0 : spin_.Before(nanos);
  if (must_look || longest > 0) {
    const int64_t until = must_look ? look_until : NowNanos() + longest;
    do {
      // First, as there may always be mail.
      const int n = epoll_wait(epoll_.get(), events, kEventsAtOnce, 0);
      if (n > 0) return n;
      if (mailbox_->HasMail() || (peer_ != nullptr && peer_->HasWork())) return 0;
    } while (NowNanos() < until);
    if (must_look) return 0;
  }
  if (!mailbox_->MaySleep()) nanos = 0;
  if (peer_ == nullptr) return Sleep(events, nanos);
  peer_->BeginSleep();
  const int n = Sleep(events, peer_->HasWork() ? 0 : nanos);
  peer_->EndSleep();
  return n;
}

int Poller::Sleep(epoll_event* events, int64_t nanos) {
  const bool learns = spin_.Learns(nanos);
  const int64_t begun = learns ? NowNanos() : 0;
  const timespec limit = {nanos / 1'000'000'000, nanos % 1'000'000'000};
  int n = -1;
  if (has_pwait2_) {
    n = epoll_pwait2(epoll_.get(), events, kEventsAtOnce, nanos < 0 ? nullptr : &limit, nullptr);
    // Linux before 5.11, or a filter of system calls that does not know it.
    has_pwait2_ = n >= 0 || (errno != ENOSYS && errno != EPERM);
  }
  if (!has_pwait2_) {
    const int64_t ms = std::min<int64_t>((nanos + 999'999) / 1'000'000, INT_MAX);
    n = epoll_wait(epoll_.get(), events, kEventsAtOnce, nanos < 0 ? -1 : static_cast<int>(ms));
  }
  if (learns) spin_.Slept(NowNanos() - begun);
  return n;
}

void Poller::Wait(int64_t nanos) {
  BuryDead();
  if (disk_ != nullptr && disk_->in_flight() > 0) {
    disk_->Submit();
    if (disk_->needs_polling()) nanos = 0;
  }
  if (!failed_.empty()) nanos = 0;
  std::array<epoll_event, kEventsAtOnce> events;
  const int n = WaitForEvents(events.data(), nanos);
  woke_();
  for (int i = 0; i < n; ++i) {
    auto* source = static_cast<Source*>(events[i].data.ptr);
    if (!source->closed) source->OnEvents(events[i].events);
  }
  for (SocketStream* stream : std::exchange(failed_, {})) stream->ReportError();
  if (disk_ != nullptr && disk_->needs_polling()) HarvestReads();
  BuryDead();
}

void Poller::BuryDead() {
  for (Source* source : std::exchange(graves_, {})) delete source;
}

// ---- Reads from devices.

bool Poller::OpenDisk() {
  if (disk_ != nullptr) return true;
  IoBackendOptions options;
  options.depth = kReadDepth;
  auto disk = CreateIoBackend(options);
  if (!disk.ok()) return false;
  disk_watch_ = Add((*disk)->wait_fd(), POLLIN, [this](short) { HarvestReads(); });
  if (disk_watch_ == nullptr) return false;
  disk_ = *std::move(disk);
  return true;
}

void Poller::Read(int fd, uint64_t offset, char* data, size_t size,
                  std::function<void(int64_t)> done) {
  IoRequest request;
  request.op = IoOp::kRead;
  request.fd = fd;
  request.buffer = data;
  request.offset = offset;
  request.length = size;
  reads_waiting_.push_back({request, std::move(done)});
  StartReads();
}

void Poller::StartReads() {
  if (!OpenDisk()) {
    for (PendingRead& read : std::exchange(reads_waiting_, {})) read.done(-ENOSYS);
    return;
  }
  size_t started = 0;
  for (; started < reads_waiting_.size() && disk_->in_flight() < kReadDepth; ++started) {
    if (free_reads_.empty()) {
      free_reads_.push_back(static_cast<uint32_t>(reads_.size()));
      reads_.emplace_back();
    }
    PendingRead& read = reads_[free_reads_.back()] = std::move(reads_waiting_[started]);
    read.request.tag = free_reads_.back();
    free_reads_.pop_back();
    disk_->Enqueue(read.request);
  }
  reads_waiting_.erase(reads_waiting_.begin(),
                       reads_waiting_.begin() + static_cast<ptrdiff_t>(started));
}

void Poller::HarvestReads() {
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

}  // namespace pulse::net
