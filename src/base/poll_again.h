// What a loop that accepts does after a poll(2) or an accept(2) that failed.
#pragma once

#include <sys/eventfd.h>

#include <cerrno>
#include <chrono>
#include <thread>

#include "absl/strings/str_cat.h"
#include "absl/strings/string_view.h"
#include "base/errors.h"
#include "base/log.h"
#include "base/wake_event.h"

namespace pulse {

// To be called with the errno of the call. But for signals memory is short, and may be there soon:
// waits a moment, after a line in the log. False: `stop` was set. `on`: a path, for the log.
inline bool PollAgain(const WakeEvent& stop, absl::string_view on) {
  if (errno == EINTR) return true;
  LogOnce(absl::StrCat("poll ", on), ErrnoError(errno, "waiting on", on).message());
  std::this_thread::sleep_for(std::chrono::milliseconds(100));
  eventfd_t stopped;
  return eventfd_read(stop.fd(), &stopped) != 0;
}

// Whether an accept(2) failed with this errno for want of descriptors or memory: the connection is
// still there, and poll(2) says so at once, so that the loop has to pause.
inline bool MustPauseAccepting(int error) {
  return error == EMFILE || error == ENFILE || error == ENOMEM || error == ENOBUFS;
}

}  // namespace pulse
