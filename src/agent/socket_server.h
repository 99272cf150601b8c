// SocketServer: the agent as a daemon. Listens on a Unix socket, checks who connects, shakes hands,
// and gives each session to the worker with the fewest. docs/reference/protocol.md has the
// sequence.
//
// Open() returns when the socket accepts connections; it raises this process's soft limit of open
// files to the hard one. Destruction stops accepting, drains every session and removes the socket
// file. Thread-safe. A peer that does not say hello keeps nobody else waiting.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "agent/hello.h"
#include "agent/service_spec.h"
#include "agent/session.h"
#include "agent/status.h"
#include "agent/worker.h"
#include "channel/hello_listener.h"

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
  // All services of this release, so that a host hears how to get one that is not offered.
  std::vector<const ServiceSpec*> known_services;
  // A model of another processor; none by default. See Session::Config and WorkerOptions.
  MoverWrapper wrap_mover;
  std::shared_ptr<WorkerPace> pace;
  // Where the status learns of a front, and of what services count for the agent; may be null.
  std::shared_ptr<const FrontRegistry> front;
  AgentStatus::TakeGroups number_groups;
};

class SocketServer final : private HelloListener::Host {
 public:
  // Offers the services of `services`, whose specs and what their factories refer to outlive it.
  static absl::StatusOr<std::unique_ptr<SocketServer>> Open(AgentOptions options,
                                                            ServiceTable services);
  ~SocketServer() override;

  size_t session_count() const;
  // What the agent does; lives as long as somebody holds it.
  std::shared_ptr<const AgentStatus> status() const { return status_; }
  EngineKind engine_kind() const { return workers_.front()->engine_kind(); }

 private:
  SocketServer(AgentOptions options, ServiceTable services)
      : options_(std::move(options)),
        services_(std::move(services)),
        status_(std::make_shared<AgentStatus>("agent", options_.socket_path, options_.front,
                                              options_.number_groups)) {}

  absl::Status Welcome(UniqueFd* socket, Received message) override;
  void Refused(const absl::Status& why) override;
  // The service that a hello asks for, in the version that it speaks.
  absl::StatusOr<const OfferedService*> FindService(const AskedService& asked) const;
  Worker* ChooseWorker(const ServiceSpec& service) const;

  AgentOptions options_;
  const ServiceTable services_;
  const std::shared_ptr<AgentUsage> usage_ = std::make_shared<AgentUsage>();
  const std::shared_ptr<AgentStatus> status_;
  std::vector<std::unique_ptr<Worker>> workers_;
  std::unique_ptr<HelloListener> listener_;
};

}  // namespace pulse
