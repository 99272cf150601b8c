// SocketServer: the agent as a daemon. Listens on a Unix socket, checks who connects, shakes hands,
// and gives each session to the worker with the fewest. docs/reference/protocol.md has the
// sequence.
//
// Open() returns when the socket accepts connections; it raises this process's soft limit of open
// files to the hard one. Destruction stops accepting, drains every session and removes the socket
// file. Thread-safe. A peer that does not say hello keeps nobody else waiting.
#pragma once

#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <vector>

#include "agent/session.h"
#include "agent/status.h"
#include "agent/worker.h"
#include "base/wake_event.h"
#include "channel/handshake.h"

namespace pulse {

struct AgentOptions {
  std::string socket_path;
  std::vector<int> cpus;
  int workers = 1;
  EngineKind engine = EngineKind::kUring;
  MoverKind mover = MoverKind::kShared;
  AgentLimits limits;
  // How long a peer may take to say hello once it has connected.
  int64_t handshake_ms = 2000;
  IoBackendFactory backend_factory;  // for tests; see IoBackendOptions
  // The file service (service 1 of the hello); none: its sessions are refused. They share what the
  // factory refers to, and are all served by the first worker, so that it needs no locks.
  ServiceFactory files;
  // For hosts: how many whole compactions the LSM service runs at a time, and how fast a core of
  // this agent is, a host's being 1.
  uint32_t tasks = 0;
  double core_speed = 1.0;
  // A model of another processor; none by default. See Session::Config and WorkerOptions.
  MoverWrapper wrap_mover;
  std::shared_ptr<WorkerPace> pace;
  // Where the status learns of a front, and of whole compactions; may be null.
  std::shared_ptr<const FrontTeller> front;
  std::shared_ptr<const TaskCounters> task_counters;
};

class SocketServer {
 public:
  static absl::StatusOr<std::unique_ptr<SocketServer>> Open(AgentOptions options,
                                                            ServiceFactory factory);
  ~SocketServer();

  size_t session_count() const;
  // What the agent does; lives as long as somebody holds it.
  std::shared_ptr<const AgentStatus> status() const { return status_; }
  EngineKind engine_kind() const { return workers_.front()->engine_kind(); }

 private:
  SocketServer(AgentOptions options, ServiceFactory factory)
      : options_(std::move(options)),
        factory_(std::move(factory)),
        status_(std::make_shared<AgentStatus>("agent", options_.socket_path, options_.front,
                                              options_.task_counters)) {}
  // A connection whose hello has not come yet.
  struct Handshake {
    UniqueFd socket;
    int64_t deadline;  // nanoseconds
  };

  void AcceptLoop();
  bool Accept();  // false when it had better not be tried again at once
  void Shake(Handshake handshake);
  void GiveUpOn(Handshake handshake);
  absl::Status CheckPeer(int socket);
  absl::Status Welcome(UniqueFd socket, Received message);

  AgentOptions options_;
  const ServiceFactory factory_;
  const std::shared_ptr<AgentUsage> usage_ = std::make_shared<AgentUsage>();
  const std::shared_ptr<AgentStatus> status_;
  UniqueFd listener_;
  WakeEvent stop_event_;
  std::vector<Handshake> handshakes_;  // the accept thread's; oldest first
  std::vector<std::unique_ptr<Worker>> workers_;
  std::thread thread_;
};

}  // namespace pulse
