#include "apps/pulse/util/agent_socket.h"

#include "channel/handshake.h"

namespace pulse {

absl::StatusOr<AgentPeer> FindAgent(const std::string& path) {
  const auto socket = ConnectUnix(path);
  if (!socket.ok()) return socket.status();
  const auto peer = GetPeerCredentials(socket->get());
  if (!peer.ok()) return peer.status();
  return AgentPeer{peer->pid, peer->uid};
}

}  // namespace pulse
