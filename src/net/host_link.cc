#include "net/host_link.h"

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/log.h"
#include "net/proxy_client.h"

namespace pulse::net {

bool HostLink::Send(Ticket ticket, std::string_view bytes, uint32_t replies) {
  // The host ended a connection on which nothing was outstanding: the next one will do.
  if (ended_ && sent_.empty() && in_.empty()) Drop();
  const bool usable = loop_->shared().has_host() && !ended_;
  if (usable && state_ == State::kNone && loop_->MayTryHost()) Connect();
  if (!usable || state_ == State::kNone) {
    lost_.push_back({ticket, false});
    owner_->Stirred();
    return false;
  }
  if (replies > 0) sent_.push_back({ticket, replies, queued_});
  Append(bytes);
  owner_->Stirred();
  return true;
}

// A preface's answers, and what nobody asked for, take no room.
bool HostLink::TakesReplies() {
  return state_ != State::kReady || sent_.empty() || owner_->TakesReplies(sent_.front().ticket);
}

void HostLink::Append(std::string_view bytes) {
  queued_ += bytes.size();
  if (state_ == State::kReady) {
    stream_->out()->Append(bytes);
  } else {
    waiting_.append(bytes);
  }
}

size_t HostLink::pending() const {
  return waiting_.size() + (stream_ != nullptr ? stream_->out()->size() : 0);
}

size_t HostLink::held() const {
  return pending() + HeapBytes(in_) + sent_.memory() + lost_.capacity() * sizeof(Lost);
}

void HostLink::Connect() {
  state_ = State::kConnecting;
  queued_ = 0;
  connect_deadline_ = loop_->now() + loop_->limits().connect_ms * 1'000'000;
  // The flow is told of the connection before first: its next preface is this one's.
  due_ = has_lost();
  if (!due_) Begin();
}

void HostLink::Begin() {
  if (loop_->shared().options.local_host != nullptr) {
    ConnectLocal();
  } else {
    TryConnect();
  }
}

void HostLink::ConnectLocal() {
  stream_ = loop_->shared().options.local_host->Connect(loop_, this);
  if (stream_ == nullptr) {
    Fail(absl::UnavailableError("the host in this process stops or has stopped"));
    return;
  }
  Opened();
}

void HostLink::TryConnect() {
  const int fd = StartConnect(*loop_->shared().host);
  // A full backlog of a Unix socket, or no descriptors here: the next sweep tries again.
  if (fd == -EAGAIN || fd == -EMFILE || fd == -ENFILE) return;
  if (fd < 0) {
    Fail(ErrnoError(-fd, "connecting to", "the host"));
    return;
  }
  connecting_ = UniqueFd(fd);
  connected_ = loop_->poller()->Add(fd, POLLOUT, [this](short events) {
    if ((events & (POLLOUT | POLLERR | POLLHUP)) != 0) Connected();
  });
  if (connected_ == nullptr) Fail(ErrnoError(errno, "watching", "a connection to the host"));
}

void HostLink::Connected() {
  connected_.reset();
  if (const int error = ConnectError(connecting_.get()); error != 0) {
    Fail(ErrnoError(error, "connecting to", loop_->shared().host->ToString()));
    return;
  }
  TuneSocket(connecting_.get(), loop_->limits().slow_ms);
  stream_ = loop_->poller()->Open(std::move(connecting_), this);
  if (stream_ == nullptr) {
    Fail(ErrnoError(errno, "watching", "a connection to the host"));
    return;
  }
  Opened();
}

void HostLink::Opened() {
  loop_->stats().Add(LoopStats::kHostConnections);
  state_ = State::kPreface;
  const Flow::Preface preface = owner_->flow_->HostPreface();
  preface_replies_ = preface.replies;
  preface_taken_ = false;
  stream_->out()->Append(preface.bytes);
  // Where each request begins moves by what goes before it.
  queued_ += preface.bytes.size();
  for (size_t i = 0; i < sent_.size(); ++i) sent_[i].begin += preface.bytes.size();
  if (preface_replies_ == 0) Ready();
  owner_->Stirred();
}

void HostLink::Ready() {
  state_ = State::kReady;
  loop_->HostReached();
  stream_->out()->Append(std::exchange(waiting_, {}));
}

void HostLink::OnBytes(std::string_view bytes) {
  if (in_.empty()) {
    const size_t taken = Take(bytes);
    if (stream_ != nullptr) in_.append(bytes.substr(taken));
  } else {
    in_.append(bytes);
    if (!kept_back_) {
      const size_t taken = Take(in_);
      if (stream_ != nullptr) in_.erase(0, taken);
    }
  }
  owner_->Stirred();
}

size_t HostLink::Take(std::string_view bytes) {
  const DirectorLimits& limits = loop_->limits();
  const size_t limit = limits.max_host_message > 0 ? limits.max_host_message : limits.max_message;
  size_t taken = 0;
  kept_back_ = false;
  while (taken < bytes.size() && stream_ != nullptr) {
    if (!TakesReplies()) {
      kept_back_ = true;
      break;
    }
    const std::string_view rest = bytes.substr(taken);
    const auto size = owner_->flow_->SplitReply(rest.substr(0, limit));
    if (!size.ok()) {
      Reject(size.status());
      break;
    }
    if (*size == 0 && rest.size() >= limit) {
      Reject(absl::ResourceExhaustedError(
          absl::StrCat("a message of the host's is longer than ", limit, " bytes")));
      break;
    }
    if (*size == 0 || *size > rest.size()) break;
    if (!TakeOne(rest.substr(0, *size))) break;
    taken += *size;
  }
  return taken;
}

bool HostLink::TakeOne(std::string_view message) {
  if (state_ == State::kPreface) {
    if (absl::Status st = owner_->flow_->OnPreface(message); !st.ok()) {
      // The first answer is to the director; the others are about this client alone.
      if (!preface_taken_) loop_->HostFailed(st);
      Drop();
      owner_->Stirred();
      return false;
    }
    preface_taken_ = true;
    if (--preface_replies_ == 0) Ready();
    return true;
  }
  if (sent_.empty()) {
    Reject(absl::InternalError("the host sent a message that answers no request"));
    return false;
  }
  Sent& sent = sent_.front();
  const Ticket ticket = sent.ticket;
  const bool last = --sent.replies == 0;
  if (last) sent_.pop_front();
  owner_->HostReplied(ticket, message, last);
  return true;
}

void HostLink::OnSent() { owner_->Stirred(); }

void HostLink::OnEnd() {
  ended_ = true;
  owner_->Stirred();
}

void HostLink::OnError(int error) {
  if (state_ != State::kReady) {
    Fail(ErrnoError(error, "talking to", "the host"));
  } else {
    Drop();
  }
  owner_->Stirred();
}

void HostLink::Fail(const absl::Status& why) {
  loop_->HostFailed(why);
  Drop();
  owner_->Stirred();
}

// What it has said cannot be taken. The host is there all the same, for this client and others.
void HostLink::Reject(const absl::Status& why) {
  if (state_ != State::kReady) {
    Fail(why);
    return;
  }
  LogOnce("director: a message of the host's",
          absl::StrCat("a connection to the host is ended: ", why.message()));
  Drop();
  owner_->Stirred();
}

void HostLink::Drop() {
  if (state_ == State::kNone) return;
  const uint64_t handed_over =
      stream_ != nullptr && state_ == State::kReady ? stream_->handed_over() : 0;
  for (size_t i = 0; i < sent_.size(); ++i) {
    lost_.push_back({sent_[i].ticket, handed_over > sent_[i].begin});
  }
  closed_ |= stream_ != nullptr;
  state_ = State::kNone;
  stream_.reset();
  connected_.reset();
  connecting_.reset();
  sent_.clear();
  sent_.Release();
  FreeBytes(&waiting_);
  FreeBytes(&in_);
  kept_back_ = ended_ = due_ = false;
}

std::vector<HostLink::Lost> HostLink::TakeLost() { return std::exchange(lost_, {}); }

void HostLink::EndTurn() {
  if (due_ && !has_lost()) {
    due_ = false;
    Begin();
  }
  if (stream_ == nullptr) return;
  if (kept_back_ && TakesReplies()) {
    const size_t taken = Take(in_);
    if (stream_ == nullptr) return;
    in_.erase(0, taken);
    if (!kept_back_ || taken > 0) owner_->Stirred();
  }
  if (ended_ && !kept_back_) {
    if (state_ == State::kPreface) {
      Fail(absl::UnavailableError("the host ended a connection before it had begun"));
    } else {
      Drop();
    }
    owner_->Stirred();
    return;
  }
  if (in_.empty() && HeapBytes(in_) > 0) FreeBytes(&in_);
  stream_->Flush();
  reads_ = !kept_back_ && !ended_ && TakesReplies();
  stream_->SetReading(reads_);
}

bool HostLink::WantsTurn() { return stream_ != nullptr && !reads_ && !ended_ && TakesReplies(); }

void HostLink::Sweep(int64_t now) {
  if (sent_.empty()) sent_.Release();
  if (state_ != State::kConnecting && state_ != State::kPreface) return;
  if (now >= connect_deadline_) {
    Fail(absl::DeadlineExceededError(absl::StrCat("no connection to ", loop_->shared().HostName(),
                                                  " within ", loop_->limits().connect_ms, " ms")));
  } else if (state_ == State::kConnecting && !connecting_.valid() && !due_) {
    TryConnect();
  }
}

}  // namespace pulse::net
