// StopSignal: SIGTERM and SIGINT as something to wait for. To be made before all threads, which
// inherit that the signals are blocked. Main thread only; Wait blocks.
#pragma once

#include <poll.h>
#include <sys/signalfd.h>
#include <unistd.h>

#include <cerrno>
#include <csignal>

#include "base/unique_fd.h"

namespace pulse {

class StopSignal {
 public:
  StopSignal() {
    sigset_t signals;
    sigemptyset(&signals);
    sigaddset(&signals, SIGINT);
    sigaddset(&signals, SIGTERM);
    sigprocmask(SIG_BLOCK, &signals, nullptr);
    fd_.reset(signalfd(-1, &signals, SFD_CLOEXEC));
  }
  void Wait() const {
    signalfd_siginfo info;
    while (read(fd_.get(), &info, sizeof(info)) < 0 && errno == EINTR) {
    }
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
