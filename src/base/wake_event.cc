#include "base/wake_event.h"

#include <sys/eventfd.h>
#include <unistd.h>

#include <cerrno>
#include <cstdint>

#include "base/errors.h"

namespace pulse {

absl::StatusOr<UniqueFd> CreateEventFd() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return ErrnoError(errno, "creating", "an eventfd");
  return fd;
}

absl::StatusOr<WakeEvent> WakeEvent::Create() {
  WakeEvent event;
  PULSE_ASSIGN_OR_RETURN(event.fd_, CreateEventFd());
  return event;
}

void WakeEvent::Set() const {
  const uint64_t one = 1;
  // EAGAIN means that the counter is full, hence already readable.
  while (write(fd_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void WakeEvent::Clear() const {
  uint64_t count;
  while (read(fd_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

}  // namespace pulse
