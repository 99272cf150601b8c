// PeerListener: a Unix socket of mode 0600, to which processes of this user and of root come that
// share memory with the server. It reads their hellos, keeps those that are welcome, and lets a
// peer go when its socket ends. After the handshake a peer says nothing more on its socket:
// whatever comes is its end.
//
// Open returns when the socket accepts connections. Destruction removes the socket's file and cuts
// the peers off. A peer that does not say hello keeps nobody else waiting. Threads: one of its own,
// on which it calls PeerHost.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "absl/status/statusor.h"
#include "base/unique_fd.h"
#include "channel/hello_listener.h"
#include "services/kv/shm/peer.h"

namespace pulse::kv {

// Whose peers they are.
class PeerHost {
 public:
  virtual ~PeerHost() = default;
  // A hello of the right protocol, service and version, with its descriptors, the first of which
  // is its doorbell. Takes the socket, once
  // it may answer by it, and sends the rest of the handshake. Does not wait for the peer. An error
  // is told to it, where the socket was not taken.
  virtual absl::StatusOr<std::shared_ptr<ShmPeer>> Welcome(UniqueFd* socket,
                                                           std::vector<UniqueFd> fds) = 0;
  // Those that there are now, after each change.
  virtual void SetPeers(const ShmPeers& peers) = 0;
};

struct ListenerOptions {
  std::string option;  // that named the path, for messages
  std::string path;
  std::string thread;    // its name
  uint32_t service = 0;  // in the hello
  uint32_t version = 0;
  size_t descriptors = 1;   // in the hello
  int64_t hello_ms = 2000;  // how long a peer may take to say hello
};

class PeerListener final : private HelloListener::Host {
 public:
  // `host` outlives it. AlreadyExists when the path is in use.
  static absl::StatusOr<std::unique_ptr<PeerListener>> Open(PeerHost* host,
                                                            const ListenerOptions& options);
  ~PeerListener() override;

 private:
  PeerListener(PeerHost* host, const ListenerOptions& options) : host_(host), options_(options) {}
  absl::Status Welcome(UniqueFd* socket, Received hello) override;
  void Refused(const absl::Status& why) override;
  void Watch(std::vector<pollfd>* fds) override;
  void Look(std::span<const pollfd> watched) override;

  PeerHost* const host_;
  const ListenerOptions options_;
  ShmPeers peers_;  // the listener's thread's
  std::unique_ptr<HelloListener> listener_;
};

}  // namespace pulse::kv
