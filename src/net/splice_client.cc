#include "net/splice_client.h"

#include <fcntl.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "base/errors.h"

namespace pulse::net {
namespace {

// What one direction may move in a turn, so that others have theirs.
constexpr size_t kTurnBytes = size_t{4} << 20;

}  // namespace

SpliceClient::~SpliceClient() { loop_->stats().Add(LoopStats::kSpliced, ~uint64_t{0}); }

void SpliceClient::Start(UniqueFd fd) {
  loop_->stats().Add(LoopStats::kSpliced);
  if (!fd.valid()) {  // no room, or no host
    loop_->stats().Add(LoopStats::kRefused);
    Die(false);
    return;
  }
  client_ = std::move(fd);
  to_host_.moved_at = to_client_.moved_at = loop_->now();
  connect_deadline_ = loop_->now() + loop_->limits().connect_ms * 1'000'000;
  if (!loop_->MayTryHost()) {
    Die(true);
    return;
  }
  Connect();
}

void SpliceClient::Connect() {
  const int fd = StartConnect(*loop_->shared().host);
  // A full backlog of a Unix socket, or no descriptors here: the next sweep tries again.
  if (fd == -EAGAIN || fd == -EMFILE || fd == -ENFILE) return;
  if (fd < 0) {
    loop_->HostFailed(ErrnoError(-fd, "connecting to", loop_->shared().host->ToString()));
    Die(true);
    return;
  }
  host_ = UniqueFd(fd);
  watch_host_ = loop_->poller()->Add(fd, POLLIN | POLLOUT | POLLRDHUP,
                                     [this](short events) { Ready(true, events); });
  if (watch_host_ == nullptr) Die(true);
}

void SpliceClient::Connected() {
  if (const int error = ConnectError(host_.get()); error != 0) {
    loop_->HostFailed(ErrnoError(error, "connecting to", loop_->shared().host->ToString()));
    Die(true);
    return;
  }
  loop_->HostReached();
  loop_->stats().Add(LoopStats::kHostConnections);
  TuneSocket(host_.get(), loop_->limits().slow_ms);
  connected_ = true;
  watch_client_ = loop_->poller()->Add(client_.get(), POLLIN | POLLOUT | POLLRDHUP,
                                       [this](short events) { Ready(false, events); });
  if (watch_client_ == nullptr) Die(true);
}

void SpliceClient::Ready(bool host, short events) {
  if (dead_) return;
  if (host && !connected_) {
    if ((events & (POLLOUT | POLLERR | POLLHUP)) == 0) return;
    Connected();
    if (dead_) return;
  }
  const short in = POLLIN | POLLRDHUP | POLLHUP | POLLERR;
  const short out = POLLOUT | POLLHUP | POLLERR;
  Way& from = host ? to_client_ : to_host_;
  Way& to = host ? to_host_ : to_client_;
  from.readable |= (events & in) != 0;
  to.writable |= (events & out) != 0;
  loop_->Touch(this);
}

// What splice(2) into the pipe gave; -EAGAIN when there is nothing to read.
ssize_t SpliceClient::Fill(Way* way, int from) {
  if (!way->pipe.valid()) {
    way->pipe = loop_->TakePipe();
    if (!way->pipe.valid()) return -EMFILE;
  }
  const ssize_t n = splice(from, nullptr, way->pipe.in.get(), nullptr, way->pipe.size,
                           SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
  return n < 0 ? -errno : n;
}

bool SpliceClient::Pump(Way* way, int from, int to) {
  size_t moved = 0;
  bool progress = true;
  while (progress && moved < kTurnBytes) {
    progress = false;
    // A pipe that holds bytes may be full: only of an empty one does EAGAIN speak of the socket.
    if (way->readable && !way->ended && !loop_->draining() && way->in_pipe == 0) {
      const ssize_t n = Fill(way, from);
      if (n > 0) way->in_pipe += static_cast<size_t>(n);
      if (n == 0) way->ended = true;
      if (n == -EAGAIN) way->readable = false;
      // No pipe: the bytes wait in the socket, and the next sweep tries again.
      way->starved = n == -EMFILE || n == -ENFILE;
      if (n < 0 && n != -EAGAIN && n != -EINTR && !way->starved) return false;
      progress = n != -EAGAIN && !way->starved;
    }
    if (way->in_pipe == 0 || !way->writable) continue;
    const ssize_t n = splice(way->pipe.out.get(), nullptr, to, nullptr, way->in_pipe,
                             SPLICE_F_MOVE | SPLICE_F_NONBLOCK);
    if (n > 0) {
      way->in_pipe -= static_cast<size_t>(n);
      moved += static_cast<size_t>(n);
    } else if (n < 0 && errno == EAGAIN) {
      way->writable = false;
      break;
    } else if (n < 0 && errno != EINTR) {
      return false;
    }
    progress = true;
  }
  if (progress) loop_->TouchNext(this);  // there may be more
  if (moved > 0) {
    way->moved_at = loop_->now();
    loop_->stats().Add(LoopStats::kSplicedBytes, moved);
  }
  if (way->in_pipe == 0 && way->pipe.valid()) loop_->GivePipe(std::move(way->pipe));
  if (way->ended && way->in_pipe == 0 && !way->shut) {
    way->shut = true;
    shutdown(to, SHUT_WR);
  }
  return true;
}

void SpliceClient::EndTurn() {
  if (dead_ || !connected_) return;
  if (!Pump(&to_host_, client_.get(), host_.get()) ||
      !Pump(&to_client_, host_.get(), client_.get())) {
    Die(true);
    return;
  }
  const bool drained = loop_->draining() && to_host_.in_pipe + to_client_.in_pipe == 0;
  if ((to_host_.shut && to_client_.shut) || drained) Die(false);
  loop_->Account(this, to_host_.in_pipe + to_client_.in_pipe);
}

void SpliceClient::Sweep(int64_t now) {
  if (dead_) return;
  if (!connected_) {
    if (now >= connect_deadline_) {
      Die(true);
    } else if (!host_.valid()) {
      Connect();
    }
    return;
  }
  if (to_host_.starved || to_client_.starved) loop_->Touch(this);
  const DirectorLimits& limits = loop_->limits();
  const int64_t slow = limits.slow_ms * 1'000'000;
  for (const Way* way : {&to_host_, &to_client_}) {
    if (slow > 0 && way->in_pipe > 0 && now - way->moved_at >= slow) {
      Die(true);
      return;
    }
  }
  const int64_t moved_at = std::max(to_host_.moved_at, to_client_.moved_at);
  if (limits.idle_ms > 0 && now - moved_at >= limits.idle_ms * 1'000'000) Die(false);
}

void SpliceClient::Drain() {
  if (!connected_) Die(true);
  loop_->Touch(this);
}

void SpliceClient::Die(bool reset) {
  if (dead_) return;
  dead_ = true;
  if (reset) {
    const linger now{1, 0};
    for (const UniqueFd* fd : {&client_, &host_}) {
      if (fd->valid()) setsockopt(fd->get(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
    }
    loop_->stats().Add(LoopStats::kCut);
  }
  // A pipe with bytes in it is of no use to another connection.
  watch_client_.reset();
  watch_host_.reset();
  loop_->Retire(this);
}

}  // namespace pulse::net
