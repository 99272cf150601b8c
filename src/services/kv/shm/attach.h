// The other half of a PeerListener's handshake: how a client, or an agent, comes to share memory
// with a server. wire.h has the messages.
//
// Threads: any. Blocking: for as long as they are given. The server is untrusted: errors say that
// it is none of this release, or what it has refused.
#pragma once

#include <cstdint>
#include <string>

#include "absl/status/statusor.h"
#include "channel/doorbell.h"
#include "channel/handshake.h"
#include "channel/region.h"

namespace pulse::kv {

struct AttachOptions {
  std::string path;
  std::string start;  // what starts such a server, for messages
  uint32_t service = 0;
  uint32_t version = 0;
  uint64_t least_bytes = 0;  // of the memory
  int own_memory = -1;       // a descriptor that the hello brings, too
};

struct Attachment {
  UniqueFd socket;
  Doorbell::Ends notify;
  Region region;
  uint64_t bytes = 0;  // of it, as the server says
};

// InvalidArgument for a path that can be none; never for what the server has said.
absl::StatusOr<Attachment> AttachTo(const AttachOptions& options, int timeout_ms, int64_t deadline);

// The ring end of the doorbell of the server's next thread, by `deadline` (nanoseconds). Never
// InvalidArgument.
absl::StatusOr<UniqueFd> ReceiveKick(int socket, int64_t deadline);

absl::Status NotAServer(absl::string_view what);

}  // namespace pulse::kv
