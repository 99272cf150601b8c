#include "util/agent_socket.h"

#include <sys/socket.h>
#include <sys/un.h>

#include <cerrno>
#include <cstring>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "base/unique_fd.h"

namespace pulse {

absl::StatusOr<AgentPeer> FindAgent(const std::string& path) {
  sockaddr_un address = {};
  address.sun_family = AF_UNIX;
  if (path.size() >= sizeof(address.sun_path)) {
    return absl::InvalidArgumentError(
        absl::StrCat("agent socket ", path, ": too long for a Unix socket; choose a shorter path"));
  }
  std::memcpy(address.sun_path, path.c_str(), path.size() + 1);
  int err = 0;
  for (const int type : {SOCK_STREAM, SOCK_SEQPACKET}) {
    const UniqueFd fd(socket(AF_UNIX, type | SOCK_CLOEXEC, 0));
    ucred peer = {};
    socklen_t size = sizeof(peer);
    if (fd.valid() &&
        connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) == 0 &&
        getsockopt(fd.get(), SOL_SOCKET, SO_PEERCRED, &peer, &size) == 0) {
      return AgentPeer{peer.pid, peer.uid};
    }
    err = errno;
    if (err != EPROTOTYPE) break;
  }
  return ErrnoError(err, "reaching the agent at", path,
                    err == EACCES ? "run as the agent's user, or let this user write to the socket"
                                  : absl::StrCat("start one there: pulse agent --socket ", path));
}

}  // namespace pulse
