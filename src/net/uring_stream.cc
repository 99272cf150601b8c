#include <algorithm>
#include <cerrno>
#include <utility>

#include "net/uring_net.h"

namespace pulse::director {
namespace {

// Since Linux 6.2; newer than Debian 12's header.
constexpr uint16_t kReportUsage = 1u << 3;
constexpr unsigned kCopied = 1u << 31;

}  // namespace

UringStream::UringStream(UniqueFd fd, StreamEvents* events, UringNet* net, ChunkCache* cache)
    : Stream(std::move(fd), cache), events_(events), net_(net) {
  ++net_->ops_;
  receive_.self = send_.self = this;
  receive_.complete = [](void* self, int result, unsigned flags) {
    static_cast<UringStream*>(self)->Received(result, flags);
  };
  send_.complete = [](void* self, int result, unsigned) {
    static_cast<UringStream*>(self)->Sent(result);
  };
}

UringStream::~UringStream() {
  net_->Forget(this);
  --net_->ops_;
}

void UringStream::SetReading(bool on) {
  if (reading_ == on) return;
  reading_ = on;
  if (on) {
    Receive();
  } else if (armed_ && !cancelling_) {
    cancelling_ = true;
    // It sent more than there was room for: from now on, no more than is asked for at a time.
    bulk_ = true;
    net_->Cancel(&receive_);
  }
}

void UringStream::Receive() {
  if (!reading_ || armed_ || ended_ || closed_ || dead_) return;
  armed_ = true;
  ++in_flight_;
  io_uring_sqe* sqe = net_->Next(&receive_);
  if (net_->multishot && !bulk_) {
    io_uring_prep_recv_multishot(sqe, fd(), nullptr, 0, 0);
  } else {
    io_uring_prep_recv(sqe, fd(), nullptr, 0, 0);
  }
  sqe->flags |= IOSQE_BUFFER_SELECT;
  sqe->buf_group = UringNet::kGroup;
  io_uring_sqe_set_data(sqe, &receive_);
}

void UringStream::Received(int result, unsigned flags) {
  if ((flags & IORING_CQE_F_MORE) == 0) armed_ = cancelling_ = false;
  if (!closed_ && !dead_) {
    if (result > 0) {
      if (static_cast<size_t>(result) < UringNet::kBufferBytes / 2) bulk_ = false;
      events_->OnBytes({net_->received(flags), static_cast<size_t>(result)});
    } else if (result == 0) {
      ended_ = true;
      reading_ = false;
      events_->OnEnd();
    } else if (result == -EINVAL && net_->multishot) {
      net_->multishot = false;  // since 6.0
    } else if (result == -ENOBUFS) {
      net_->Rearm(this);
    } else if (result != -ECANCELED && result != -EINTR && result != -EAGAIN) {
      Fail(-result);
    }
  }
  net_->Recycle(flags);
  if (armed_) return;
  if (result != -ENOBUFS) Receive();
  Ended();
}

void UringStream::Flush() {
  if (sending_ || out_.empty() || closed_ || dead_) return;
  sending_ = true;
  ++in_flight_;
  const size_t entries = out_.Peek(iov_.data(), iov_.size());
  size_t bytes = 0;
  for (size_t i = 0; i < entries; ++i) bytes += iov_[i].iov_len;
  handed_over_ = sent_ + bytes;
  message_ = {};
  message_.msg_iov = iov_.data();
  message_.msg_iovlen = entries;
  if (net_->zero_copy && zero_copy_ && bytes >= net_->options().zero_copy_bytes) {
    SendZero(entries);
    return;
  }
  io_uring_sqe* sqe = net_->Next(&send_);
  io_uring_prep_sendmsg(sqe, fd(), &message_, MSG_NOSIGNAL | MSG_WAITALL);
  io_uring_sqe_set_data(sqe, &send_);
}

void UringStream::SendZero(size_t entries) {
  auto* zero = new Zero;
  zero->stream = this;
  out_.Peek(iov_.data(), entries, &zero->held);
  zero->op.self = zero;
  zero->op.complete = [](void* self, int result, unsigned flags) {
    auto* z = static_cast<Zero*>(self);
    z->stream->ZeroSent(z, result, flags);
  };
  ++zeros_;
  ++in_flight_;  // beside the send: the notification
  io_uring_sqe* sqe = net_->Next(&zero->op);
  io_uring_prep_sendmsg_zc(sqe, fd(), &message_, MSG_NOSIGNAL | MSG_WAITALL);
  sqe->ioprio |= kReportUsage;
  io_uring_sqe_set_data(sqe, &zero->op);
}

void UringStream::ZeroSent(Zero* zero, int result, unsigned flags) {
  const bool last = (flags & IORING_CQE_F_MORE) == 0;
  const bool notification = (flags & IORING_CQE_F_NOTIF) != 0;
  // Where the kernel copies all the same (a loopback device does), it only costs more.
  if (notification && (static_cast<unsigned>(result) & kCopied) != 0) zero_copy_ = false;
  if (!notification) {
    if (result == -EINVAL || result == -EOPNOTSUPP) {
      zero_copy_ = false;
      result = 0;  // again, with a copy
    }
    Sent(result);
  }
  if (!last) return;
  for (Chunk* chunk : zero->held) out_.cache()->Drop(chunk);
  delete zero;
  --zeros_;
  Ended();
}

void UringStream::Sent(int result) {
  sending_ = false;
  if (!closed_ && !dead_) {
    if (result > 0) {
      sent_ += static_cast<uint64_t>(result);
      handed_over_ = sent_;
      out_.Consume(static_cast<size_t>(result));
      Flush();
      events_->OnSent();
    } else if (result == 0 || result == -EINTR || result == -EAGAIN) {
      handed_over_ = sent_;
      Flush();
    } else {
      Fail(-result);
    }
  }
  Ended();
}

void UringStream::Fail(int error) {
  dead_ = true;
  reading_ = false;
  events_->OnError(error);
}

void UringStream::Ended() {
  --in_flight_;
  if (!closed_ || in_flight_ > 0) return;
  net_->Bury([this] { delete this; });
}

void UringStream::Close() {
  if (closed_) return;
  closed_ = true;
  reading_ = false;
  if (armed_ && !cancelling_) net_->Cancel(&receive_);
  if (sending_ && zeros_ == 0) net_->Cancel(&send_);
  if (zeros_ > 0) {
    // The peer gets all that was sent; the memory is the kernel's until it has.
    shutdown(fd(), SHUT_WR);
    net_->streams_.push_back(this);
  }
  if (in_flight_ == 0) net_->Bury([this] { delete this; });
}

void UringStream::Abort() {
  const linger now{1, 0};
  setsockopt(fd(), SOL_SOCKET, SO_LINGER, &now, sizeof(now));
  fd_.reset();
}

}  // namespace pulse::director
