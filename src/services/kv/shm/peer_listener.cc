#include "services/kv/shm/peer_listener.h"

#include <poll.h>
#include <pthread.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cerrno>
#include <utility>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/poll_again.h"

namespace pulse::kv {
namespace {

// Peers that may be silent at the same time; one more, and the oldest is let go.
constexpr size_t kMostGreetings = 64;
// No descriptor was left for a connection: look again after this long.
constexpr int kPauseMs = 100;

}  // namespace

absl::StatusOr<std::unique_ptr<PeerListener>> PeerListener::Open(PeerHost* host,
                                                                 const ListenerOptions& options) {
  std::unique_ptr<PeerListener> made(new PeerListener(host, options));
  auto listener = ListenUnix(options.path);
  if (absl::IsAlreadyExists(listener.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat(options.option, " ", options.path,
                     ": another server listens there, or the file is no socket; stop it, or choose "
                     "another path"));
  }
  PULSE_ASSIGN_OR_RETURN(made->listener_, std::move(listener));
  made->socket_file_ = MadeFile(options.path);
  PULSE_ASSIGN_OR_RETURN(made->stop_, WakeEvent::Create());
  made->thread_ = std::thread([l = made.get()] { l->AcceptLoop(); });
  return made;
}

PeerListener::~PeerListener() {
  if (thread_.joinable()) {
    stop_.Set();
    thread_.join();
  }
  socket_file_.Remove();
  for (const auto& peer : peers_) peer->Break();
}

void PeerListener::AcceptLoop() {
  pthread_setname_np(pthread_self(), options_.thread.c_str());
  bool paused = false;
  while (true) {
    std::vector<pollfd> fds = {{stop_.fd(), POLLIN, 0}, {paused ? -1 : listener_.get(), POLLIN, 0}};
    for (const Greeting& g : greetings_) fds.push_back({g.socket.get(), POLLIN, 0});
    for (const auto& peer : peers_) fds.push_back({peer->socket(), POLLIN, 0});
    int64_t wait_ms = paused ? kPauseMs : -1;
    if (!greetings_.empty()) {
      const int64_t left =
          std::max<int64_t>(0, greetings_.front().deadline - NowNanos()) / 1'000'000 + 1;
      wait_ms = wait_ms < 0 ? left : std::min(wait_ms, left);
    }
    if (poll(fds.data(), fds.size(), static_cast<int>(wait_ms)) < 0) {
      if (!PollAgain(stop_, options_.path)) return;
      continue;
    }
    if (fds[0].revents != 0) return;
    const pollfd* of_peers = fds.data() + 2 + greetings_.size();
    // Those that have ended are destroyed here, and not by a thread that others wait for.
    const auto ended = std::exchange(peers_, {});
    for (size_t i = 0; i < ended.size(); ++i) {
      if (of_peers[i].revents == 0) peers_.push_back(ended[i]);
    }
    if (peers_.size() < ended.size()) host_->SetPeers(peers_);
    std::vector<Greeting> waiting = std::exchange(greetings_, {});
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (fds[2 + i].revents != 0) {
        ReadHello(std::move(waiting[i]));
      } else if (NowNanos() < waiting[i].deadline) {
        greetings_.push_back(std::move(waiting[i]));
      }
    }
    paused = fds[1].revents != 0 && !Accept();
  }
}

bool PeerListener::Accept() {
  UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) {
    if (!MustPauseAccepting(errno)) return true;
    LogOnce("shm-accept",
            ErrnoError(errno, "accepting a client on", options_.path, kRaiseOpenFiles).message());
    return false;
  }
  if (greetings_.size() >= kMostGreetings) greetings_.erase(greetings_.begin());
  greetings_.push_back({std::move(socket), NowNanos() + options_.hello_ms * 1'000'000});
  return true;
}

void PeerListener::ReadHello(Greeting greeting) {
  auto hello = ReceiveMessage(greeting.socket.get(), /*wait=*/false);
  if (IsNoMessage(hello.status())) {
    greetings_.push_back(std::move(greeting));
    return;
  }
  if (absl::IsUnavailable(hello.status())) return;  // it looked whether somebody listens
  const absl::Status status =
      hello.ok() ? Welcome(&greeting.socket, *std::move(hello)) : hello.status();
  if (status.ok()) return;
  // Where it was welcomed so far, the socket is gone, and it sees the end.
  if (greeting.socket.valid()) {
    SendRefusal(greeting.socket.get(), wire::MessageType::kHelloAck, status).IgnoreError();
  }
  LogOnce(
      absl::StrCat("shm-refused", options_.service, "-", status.raw_code()),
      absl::StrCat("refused a client of shared memory on ", options_.path, ": ", status.message()));
}

absl::Status PeerListener::Welcome(UniqueFd* socket, Received hello) {
  const wire::Message& m = hello.message;
  PULSE_RETURN_IF_ERROR(CheckPeerUser(socket->get(), "the server"));
  if (m.version != wire::kProtocolVersion ||
      (m.args[1] == options_.service && m.args[3] != options_.version)) {
    return ErrnoError(EPROTONOSUPPORT, "a client speaks", "another version of the protocol",
                      "install pulse and its client library from the same release");
  }
  if (m.type != static_cast<uint32_t>(wire::MessageType::kHello) || m.args[1] != options_.service) {
    return absl::InvalidArgumentError(
        absl::StrCat("this socket is of `pulse kv ", options_.option,
                     "`, which does not offer what is asked for (service ", m.args[1],
                     "); give the path where it is offered"));
  }
  if (hello.fds_lost) {
    return ErrnoError(EMFILE, "taking a client's", "descriptors", kRaiseOpenFiles);
  }
  if (hello.fds.size() != options_.descriptors) {
    return absl::InvalidArgumentError(
        absl::StrCat("a hello brings a doorbell first of ", options_.descriptors, " descriptors"));
  }
  PULSE_RETURN_IF_ERROR(Doorbell::CheckRingEnd(hello.fds[0].get()));
  PULSE_ASSIGN_OR_RETURN(auto peer, host_->Welcome(socket, std::move(hello.fds)));
  peers_.push_back(std::move(peer));
  host_->SetPeers(peers_);
  return absl::OkStatus();
}

}  // namespace pulse::kv
