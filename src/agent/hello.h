// Hello: what a host's first message must be before it becomes a session. Owns what the host
// passed. Stateless; any thread; does not block. The host is untrusted: what is returned was
// checked.
#pragma once

#include "absl/status/statusor.h"
#include "channel/handshake.h"
#include "channel/region.h"
#include "mover/mover.h"

namespace pulse {

struct Hello {
  Region region;  // holds `control`
  wire::ControlPage* control = nullptr;
  UniqueFd notify;  // the ring end of the host's doorbell
  MoverKind mover = MoverKind::kShared;
  uint64_t service = 0;  // not checked here, as its version
  uint64_t service_version = 1;
};

// `usual` is the mover of a host that asks for none. FailedPrecondition for another version of the
// protocol; ResourceExhausted when this process had no room for the descriptors; else
// InvalidArgument. The text is for the host.
absl::StatusOr<Hello> CheckHello(Received message, MoverKind usual);

}  // namespace pulse
