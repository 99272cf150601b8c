#include "channel/doorbell.h"

#include <sys/eventfd.h>

#include <cerrno>

#include "base/errors.h"

namespace pulse {

absl::StatusOr<UniqueFd> Doorbell::CreateEventFd() {
  UniqueFd fd(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK));
  if (!fd.valid()) return ErrnoError(errno, "creating a doorbell", "eventfd");
  return fd;
}

void Doorbell::Kick() {
  const uint64_t one = 1;
  // EAGAIN means that the counter is full, hence already readable.
  while (write(fd_.get(), &one, sizeof(one)) < 0 && errno == EINTR) {
  }
}

void Doorbell::FinishSleep() {
  flag_->store(0, std::memory_order_relaxed);
  uint64_t count;
  while (read(fd_.get(), &count, sizeof(count)) < 0 && errno == EINTR) {
  }
}

}  // namespace pulse
