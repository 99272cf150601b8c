// StopSignal: SIGTERM and SIGINT as something to wait for. To be made before all threads, which
// inherit that the signals are blocked. Main thread only; Wait blocks. SIGHUP, which a terminal
// sends when it is closed, is ignored unless the maker says otherwise: a server in the background
// goes on. A service manager that asks
// for it (NOTIFY_SOCKET, sd_notify(3): systemd's Type=notify) hears with Wait that the program is
// ready, and then that it stops.
#pragma once

#include <poll.h>
#include <sys/signalfd.h>
#include <sys/socket.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <string_view>

#include "base/unique_fd.h"

namespace pulse {

// Best effort: who does not listen hears nothing.
inline void TellServiceManager(std::string_view state) {
  const char* const path = std::getenv("NOTIFY_SOCKET");
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  const size_t size = path == nullptr ? 0 : std::strlen(path);
  if (size < 2 || size >= sizeof(address.sun_path)) return;
  std::memcpy(address.sun_path, path, size);
  if (path[0] == '@') address.sun_path[0] = '\0';  // an abstract name
  const UniqueFd fd(socket(AF_UNIX, SOCK_DGRAM | SOCK_CLOEXEC, 0));
  const auto length = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + size);
  sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL | MSG_DONTWAIT,
         reinterpret_cast<const sockaddr*>(&address), length);
}

class StopSignal {
 public:
  enum class OnHangUp { kGoOn, kEnd };
  explicit StopSignal(OnHangUp on_hang_up = OnHangUp::kGoOn) {
    if (on_hang_up == OnHangUp::kGoOn) signal(SIGHUP, SIG_IGN);
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    fd_.reset(signalfd(-1, &signals, SFD_CLOEXEC));
  }
  void Wait() const {
    TellServiceManager("READY=1");
    signalfd_siginfo info;
    while (read(fd_.get(), &info, sizeof(info)) < 0 && errno == EINTR) {
    }
    TellServiceManager("STOPPING=1");
  }
  // False: none came within so many milliseconds.
  bool WaitFor(int milliseconds) const {
    pollfd ready{fd_.get(), POLLIN, 0};
    return poll(&ready, 1, milliseconds) > 0;
  }

 private:
  UniqueFd fd_;
};

}  // namespace pulse
