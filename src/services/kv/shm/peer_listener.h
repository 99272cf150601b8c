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
#include <string>
#include <thread>
#include <vector>

#include "absl/status/statusor.h"
#include "base/file_calls.h"
#include "base/unique_fd.h"
#include "base/wake_event.h"
#include "channel/handshake.h"
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

class PeerListener {
 public:
  // `host` outlives it. AlreadyExists when the path is in use.
  static absl::StatusOr<std::unique_ptr<PeerListener>> Open(PeerHost* host,
                                                            const ListenerOptions& options);
  ~PeerListener();

 private:
  // A connection whose hello has not come yet.
  struct Greeting {
    UniqueFd socket;
    int64_t deadline;  // nanoseconds
  };
  PeerListener(PeerHost* host, const ListenerOptions& options) : host_(host), options_(options) {}
  void AcceptLoop();
  bool Accept();  // false: better not at once again
  void ReadHello(Greeting greeting);
  absl::Status Welcome(UniqueFd* socket, Received hello);

  PeerHost* const host_;
  const ListenerOptions options_;
  UniqueFd listener_;
  MadeFile socket_file_;
  WakeEvent stop_;
  // The thread's.
  std::vector<Greeting> greetings_;  // oldest first
  ShmPeers peers_;
  std::thread thread_;
};

}  // namespace pulse::kv
