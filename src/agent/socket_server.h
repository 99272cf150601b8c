// SocketServer: the agent as a daemon. Listens on a Unix socket, checks who connects, shakes hands,
// and gives each session to the worker with the fewest. docs/protocol.md has the sequence.
//
// Open() returns when the socket accepts connections. Destruction stops accepting, drains every
// session and removes the socket file. Thread-safe.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/session.h"
#include "agent/worker.h"

namespace pulse {

struct AgentOptions {
  std::string socket_path;
  std::vector<int> cpus;
  int workers = 1;
  EngineKind engine = EngineKind::kUring;
  MoverKind mover = MoverKind::kShared;
  AgentLimits limits;
  IoBackendFactory backend_factory;  // for tests; see IoBackendOptions
};

class SocketServer {
 public:
  static absl::StatusOr<std::unique_ptr<SocketServer>> Open(AgentOptions options,
                                                            ServiceFactory factory);
  ~SocketServer();

  size_t session_count() const;
  EngineKind engine_kind() const { return workers_.front()->engine_kind(); }

 private:
  SocketServer(AgentOptions options, ServiceFactory factory)
      : options_(std::move(options)), factory_(factory) {}
  void AcceptLoop();
  absl::Status Welcome(UniqueFd socket);

  const AgentOptions options_;
  const ServiceFactory factory_;
  UniqueFd listener_;
  UniqueFd stop_event_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::thread thread_;
};

}  // namespace pulse
