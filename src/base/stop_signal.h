// StopSignal: SIGTERM and SIGINT as something to wait for. To be made before all threads, which
// inherit that the signals are blocked. Main thread only; Wait blocks. SIGHUP, which a terminal
// sends when it is closed, is ignored unless the maker says otherwise: a server in the background
// goes on. Of a server, signals before Started end the process at once. A service manager that asks
// for it (NOTIFY_SOCKET, sd_notify(3): systemd's Type=notify) hears with Wait that the program is
// ready, and then that it stops.
#pragma once

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <ctime>
#include <string_view>
#include <thread>

#include "base/shortage.h"
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
  // A service manager that is busy makes it wait, but not for ever.
  const timeval most{.tv_sec = 10, .tv_usec = 0};
  setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &most, sizeof(most));
  while (sendto(fd.get(), state.data(), state.size(), MSG_NOSIGNAL,
                reinterpret_cast<const sockaddr*>(&address), length) < 0 &&
         errno == EINTR) {
  }
}

class StopSignal {
 public:
  enum class OnHangUp { kGoOn, kEnd };
  explicit StopSignal(OnHangUp on_hang_up = OnHangUp::kGoOn) {
    if (on_hang_up == OnHangUp::kGoOn) signal(SIGHUP, SIG_IGN);
    sigemptyset(&signals_);
    sigaddset(&signals_, SIGINT);
    sigaddset(&signals_, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals_, nullptr);
    if (on_hang_up == OnHangUp::kGoOn) WatchStart();
  }
  ~StopSignal() { Started(); }
  StopSignal(const StopSignal&) = delete;
  StopSignal& operator=(const StopSignal&) = delete;

  // What takes long is opened: from here on signals wait for Wait, which calls it, too.
  void Started() {
    if (!start_.joinable()) return;
    pthread_kill(start_.native_handle(), SIGRTMIN);
    start_.join();
  }
  void Wait() {
    Started();
    TellServiceManager("READY=1");
    while (sigwaitinfo(&signals_, nullptr) < 0) {
    }
    TellServiceManager("STOPPING=1");
  }
  // False: none came within so many milliseconds. Takes the signal that came.
  bool WaitFor(int milliseconds) const {
    const timespec wait{milliseconds / 1000, milliseconds % 1000 * 1'000'000};
    return sigtimedwait(&signals_, nullptr, &wait) > 0;
  }

 private:
  // Until then a signal ends the process as if nobody waited for it: what is opened then may take
  // minutes, and is safe from kills.
  void WatchStart() {
    sigset_t own = signals_;
    sigaddset(&own, SIGRTMIN);
    pthread_sigmask(SIG_BLOCK, &own, nullptr);  // which the thread inherits
    const auto watch = [this, own] {
      int signal = 0;
      while (sigwait(&own, &signal) != 0) {
      }
      if (signal == SIGRTMIN) return;
      std::signal(signal, SIG_DFL);
      pthread_sigmask(SIG_UNBLOCK, &signals_, nullptr);
      raise(signal);
      _exit(128 + signal);  // of a container's first process the kernel drops such a signal
    };
    StartThread("a server's start", watch, &start_).IgnoreError();  // without, they wait for Wait
  }

  sigset_t signals_;
  std::thread start_;
};

}  // namespace pulse
