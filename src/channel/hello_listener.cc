#include "channel/hello_listener.h"

#include <pthread.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>

#include "absl/strings/str_cat.h"
#include "base/clock.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/poll_again.h"
#include "base/shortage.h"

namespace pulse {
namespace {

// Peers that may be silent at the same time; one more, and the oldest is let go.
constexpr size_t kMostGreetings = 64;
// No descriptor was left for a connection: look again after this long.
constexpr int kPauseMs = 100;

}  // namespace

absl::StatusOr<std::unique_ptr<HelloListener>> HelloListener::Open(Host* host, Options options) {
  PULSE_ASSIGN_OR_RETURN(auto made, Listen(host, std::move(options)));
  PULSE_RETURN_IF_ERROR(made->Start());
  return made;
}

absl::StatusOr<std::unique_ptr<HelloListener>> HelloListener::Listen(Host* host, Options options) {
  std::unique_ptr<HelloListener> made(new HelloListener(host, std::move(options)));
  PULSE_ASSIGN_OR_RETURN(made->listener_, ListenUnix(made->options_.path));
  made->socket_file_ = MadeFile(made->options_.path);
  PULSE_ASSIGN_OR_RETURN(made->stop_, WakeEvent::Create());
  return made;
}

absl::Status HelloListener::Start() {
  return StartThread(
      options_.who, [this] { Serve(); }, &thread_);
}

HelloListener::~HelloListener() {
  if (thread_.joinable()) {
    stop_.Set();
    thread_.join();
  }
  socket_file_.Remove();
}

void HelloListener::Serve() {
  pthread_setname_np(pthread_self(), options_.thread.c_str());
  bool paused = false;
  while (true) {
    std::vector<pollfd> fds = {{stop_.fd(), POLLIN, 0}, {paused ? -1 : listener_.get(), POLLIN, 0}};
    for (const Greeting& g : greetings_) fds.push_back({g.socket.get(), POLLIN, 0});
    host_->Watch(&fds);
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
    std::vector<Greeting> waiting = std::exchange(greetings_, {});
    host_->Look(std::span(fds).subspan(2 + waiting.size()));
    for (size_t i = 0; i < waiting.size(); ++i) {
      if (fds[2 + i].revents != 0) {
        ReadHello(std::move(waiting[i]));
      } else if (NowNanos() < waiting[i].deadline) {
        greetings_.push_back(std::move(waiting[i]));
      } else {
        Refuse(waiting[i].socket, absl::DeadlineExceededError("the peer did not answer in time"));
      }
    }
    paused = fds[1].revents != 0 && !Accept();
  }
}

bool HelloListener::Accept() {
  UniqueFd socket(accept4(listener_.get(), nullptr, nullptr, SOCK_CLOEXEC));
  if (!socket.valid()) {
    const int error = errno;
    if (!MustPauseAccepting(error)) return true;
    LogOnce(absl::StrCat("accept ", options_.path),
            ErrnoError(error, "accepting a connection on", options_.path).message());
    return false;
  }
  if (absl::Status st = CheckPeerUser(socket.get(), options_.who); !st.ok()) {
    Refuse(socket, st);
    return true;
  }
  if (greetings_.size() >= kMostGreetings) {
    Refuse(greetings_.front().socket,
           absl::DeadlineExceededError("the peer said nothing, and others wait"));
    greetings_.erase(greetings_.begin());
  }
  greetings_.push_back({std::move(socket), NowNanos() + options_.hello_ms * 1'000'000});
  return true;
}

void HelloListener::ReadHello(Greeting greeting) {
  auto hello = ReceiveMessage(greeting.socket.get(), /*wait=*/false);
  if (IsNoMessage(hello.status())) {
    greetings_.push_back(std::move(greeting));
    return;
  }
  // A probe that connects and leaves (another server looking whether the socket is in use).
  if (absl::IsUnavailable(hello.status())) return;
  const absl::Status status =
      hello.ok() ? host_->Welcome(&greeting.socket, *std::move(hello)) : hello.status();
  if (!status.ok()) Refuse(greeting.socket, status);
}

void HelloListener::Refuse(const UniqueFd& socket, const absl::Status& why) {
  if (socket.valid()) SendRefusal(socket.get(), wire::MessageType::kHelloAck, why).IgnoreError();
  host_->Refused(why);
}

}  // namespace pulse
