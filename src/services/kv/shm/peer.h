// ShmPeer: another process that shares memory with the server: a client (attachment.h), or an
// agent's lane (kv/agent). PeerListener accepts them; a PeerPoller's thread serves them.
//
// Ownership: shared by the listener and the thread that serves it; the last one's end gives the
// memory back. Threads: Ring and Break are for any. Nothing blocks. The peer is untrusted.
#pragma once

#include <sys/socket.h>

#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include "base/unique_fd.h"
#include "channel/doorbell.h"

namespace pulse::kv {

class ShmPeer {
 public:
  explicit ShmPeer(UniqueFd socket) : socket_(std::move(socket)) {}
  virtual ~ShmPeer() = default;
  ShmPeer(const ShmPeer&) = delete;
  ShmPeer& operator=(const ShmPeer&) = delete;

  int socket() const { return socket_.get(); }
  // It broke the protocol: both sides see the socket end.
  void Break() { shutdown(socket_.get(), SHUT_RDWR); }
  // What the thread of that number sleeps on.
  virtual Doorbell& kick(uint32_t thread) = 0;

 private:
  const UniqueFd socket_;
};

using ShmPeers = std::vector<std::shared_ptr<ShmPeer>>;

}  // namespace pulse::kv
