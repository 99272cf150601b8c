// Hello: what a host's first message must be before it becomes a session. Owns what the host
// passed. Stateless; any thread; does not block. The host is untrusted: what is returned was
// checked.
#pragma once

#include "absl/status/statusor.h"
#include "channel/handshake.h"
#include "channel/region.h"
#include "mover/mover.h"

namespace pulse {

// Which service a first message asks for. FailedPrecondition for another version of the protocol,
// InvalidArgument where it is no hello.
struct AskedService {
  uint64_t id = 0;
  uint64_t version = 0;
};
absl::StatusOr<AskedService> ReadAskedService(const wire::Message& m);

struct Hello {
  Region region;  // holds `control`
  wire::ControlPage* control = nullptr;
  UniqueFd notify;  // the ring end of the host's doorbell
  MoverKind mover = MoverKind::kShared;
};

// Of a message that ReadAskedService was content with. `usual` is the mover of a host that asks for
// none. ResourceExhausted when this process had no room for the descriptors; else InvalidArgument.
// The text is for the host.
absl::StatusOr<Hello> CheckHello(Received message, MoverKind usual);

}  // namespace pulse
