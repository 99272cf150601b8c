#include "bench/macro/load_client.h"

#include <fcntl.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "examples/common/load.h"

namespace pulse::bench {
namespace {

constexpr int64_t kPatience = 30'000'000'000;  // for answers to what was asked last

}  // namespace

absl::Status LoadClient::Connect(uint16_t port, uint32_t connections) {
  poll_.reset(epoll_create1(EPOLL_CLOEXEC));
  if (!poll_.valid()) return ErrnoError(errno, "creating", "an epoll set");
  peers_ = std::vector<Peer>(connections);
  for (Peer& peer : peers_) PULSE_RETURN_IF_ERROR(ConnectOne(port, &peer));
  return absl::OkStatus();
}

absl::Status LoadClient::ConnectOne(uint16_t port, Peer* peer) {
  PULSE_ASSIGN_OR_RETURN(peer->fd, examples::ConnectTcp("127.0.0.1", port));
  if (fcntl(peer->fd.get(), F_SETFL, O_NONBLOCK) != 0) {
    return ErrnoError(errno, "setting up", "a connection");
  }
  return Watch(peer, false, EPOLL_CTL_ADD);
}

absl::StatusOr<LoadOutcome> LoadClient::Run(double seconds) {
  outcome_ = LoadOutcome();
  over_ = false;
  const int64_t begin = NowNanos();
  end_ = begin + static_cast<int64_t>(seconds * 1e9);
  for (Peer& peer : peers_) PULSE_RETURN_IF_ERROR(Refill(&peer));
  PULSE_RETURN_IF_ERROR(Drive());
  outcome_.seconds = static_cast<double>(NowNanos() - begin) / 1e9;
  return std::move(outcome_);
}

absl::Status LoadClient::Drive() {
  std::vector<epoll_event> events(256);
  while (outstanding_ > 0) {
    const int64_t now = NowNanos();
    if (now >= end_) over_ = true;
    if (now >= end_ + kPatience) {
      return absl::DeadlineExceededError(
          absl::StrCat(outstanding_, " requests were not answered within 30 seconds"));
    }
    const int n = epoll_wait(poll_.get(), events.data(), static_cast<int>(events.size()), 100);
    if (n < 0 && errno != EINTR) return ErrnoError(errno, "waiting for", "replies");
    for (int i = 0; i < n; ++i) {
      PULSE_RETURN_IF_ERROR(Serve(static_cast<Peer*>(events[static_cast<size_t>(i)].data.ptr)));
    }
  }
  return absl::OkStatus();
}

absl::Status LoadClient::Serve(Peer* peer) {
  PULSE_RETURN_IF_ERROR(Receive(peer));
  if (peer->wants_room) PULSE_RETURN_IF_ERROR(Send(peer));
  return peer->questions.empty() ? Refill(peer) : absl::OkStatus();
}

absl::Status LoadClient::Refill(Peer* peer) {
  for (uint32_t i = 0; i < depth_ && !over_; ++i) {
    Question question;
    if (!protocol_->Ask(&peer->out, &question)) {
      over_ = true;
      break;
    }
    question.at = NowNanos();
    peer->questions.push_back(question);
    ++outstanding_;
  }
  return peer->out.empty() ? absl::OkStatus() : Send(peer);
}

absl::Status LoadClient::Send(Peer* peer) {
  while (peer->sent < peer->out.size()) {
    const ssize_t n = send(peer->fd.get(), peer->out.data() + peer->sent,
                           peer->out.size() - peer->sent, MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return Watch(peer, true, EPOLL_CTL_MOD);
    if (n < 0)
      return ErrnoError(errno, "sending", "requests", "the server has ended the connection");
    peer->sent += static_cast<size_t>(n);
  }
  peer->out.clear();
  peer->sent = 0;
  return peer->wants_room ? Watch(peer, false, EPOLL_CTL_MOD) : absl::OkStatus();
}

absl::Status LoadClient::Watch(Peer* peer, bool wants_room, int how) {
  if (how == EPOLL_CTL_MOD && peer->wants_room == wants_room) return absl::OkStatus();
  peer->wants_room = wants_room;
  epoll_event event{};
  event.events = EPOLLIN | (wants_room ? EPOLLOUT : 0u);
  event.data.ptr = peer;
  if (epoll_ctl(poll_.get(), how, peer->fd.get(), &event) == 0) return absl::OkStatus();
  return ErrnoError(errno, "watching", "a connection");
}

absl::Status LoadClient::Receive(Peer* peer) {
  while (true) {
    const ssize_t n = recv(peer->fd.get(), buffer_.data(), buffer_.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n < 0 && errno == EAGAIN) return absl::OkStatus();
    if (n < 0) return ErrnoError(errno, "receiving", "replies");
    if (n == 0) return absl::UnavailableError("the server has ended a connection of the load");
    const std::string_view bytes(buffer_.data(), static_cast<size_t>(n));
    // Most replies come whole, and are not copied.
    const bool kept = !peer->in.empty();
    if (kept) peer->in.append(bytes);
    PULSE_ASSIGN_OR_RETURN(const auto taken,
                           TakeReplies(peer, kept ? std::string_view(peer->in) : bytes));
    if (kept) {
      peer->in.erase(0, taken);
    } else {
      peer->in.assign(bytes.substr(taken));
    }
    if (bytes.size() < buffer_.size()) return absl::OkStatus();
  }
}

absl::StatusOr<size_t> LoadClient::TakeReplies(Peer* peer, std::string_view bytes) {
  size_t taken = 0;
  while (taken < bytes.size()) {
    const std::string_view rest = bytes.substr(taken);
    const auto size = protocol_->Split(rest);
    if (!size.ok()) return size.status();
    if (*size == 0) break;
    if (peer->answered == peer->questions.size()) {
      return absl::DataLossError("the server has answered what nobody had asked");
    }
    const Question& question = peer->questions[peer->answered];
    const auto nanos = static_cast<uint64_t>(NowNanos() - question.at);
    PULSE_RETURN_IF_ERROR(protocol_->Take(question, rest.substr(0, *size)));
    ++(question.write ? outcome_.writes : outcome_.reads);
    (question.write ? outcome_.write_nanos : outcome_.read_nanos).Record(nanos);
    ++peer->answered;
    --outstanding_;
    taken += *size;
  }
  if (peer->answered == peer->questions.size()) {
    peer->questions.clear();
    peer->answered = 0;
  }
  return taken;
}

}  // namespace pulse::bench
