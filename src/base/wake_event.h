// WakeEvent: an eventfd that wakes a thread of the same process. For another process there is
// channel/doorbell.h, since an eventfd's flags belong to both sides.
//
// Owns its descriptor; movable. Set, Clear and fd from any thread; none of them blocks.
#pragma once

#include "absl/status/statusor.h"
#include "base/unique_fd.h"

namespace pulse {

// A non-blocking, close-on-exec eventfd.
absl::StatusOr<UniqueFd> CreateEventFd();

class WakeEvent {
 public:
  static absl::StatusOr<WakeEvent> Create();
  WakeEvent() = default;
  // Makes fd() readable until Clear.
  void Set() const;
  void Clear() const;
  int fd() const { return fd_.get(); }

 private:
  UniqueFd fd_;
};

}  // namespace pulse
