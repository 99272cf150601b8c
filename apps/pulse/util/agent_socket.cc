#include "apps/pulse/util/agent_socket.h"

#include "base/errors.h"
#include "channel/handshake.h"

namespace pulse {

absl::StatusOr<AgentPeer> FindAgent(const std::string& path) {
  PULSE_ASSIGN_OR_RETURN(const auto socket, ConnectUnix(path));
  PULSE_ASSIGN_OR_RETURN(const auto peer, GetPeerCredentials(socket.get()));
  return AgentPeer{peer.pid, peer.uid};
}

}  // namespace pulse
