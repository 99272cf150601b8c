// StatusServer: answers kStatus on a Unix socket for the agents that are embedded in this process
// (status=PATH). One thread, which sleeps unless somebody asks.
//
// Any thread. Destruction removes the socket file, and waits for the thread.
#pragma once

#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "agent/status.h"
#include "channel/hello_listener.h"

namespace pulse {

class StatusServer final : private HelloListener::Host {
 public:
  // Listens at `path`, mode 0600; "%p" in it becomes the process id. Asked again with the same path
  // while it lives, gives the same one. AlreadyExists where somebody listens.
  static absl::StatusOr<std::shared_ptr<StatusServer>> Open(const std::string& path);
  ~StatusServer() override;
  StatusServer(const StatusServer&) = delete;
  StatusServer& operator=(const StatusServer&) = delete;

  AgentStatus& status() { return status_; }

 private:
  explicit StatusServer(std::string path) : status_("embedded", std::move(path)) {}
  absl::Status Welcome(UniqueFd* socket, Received message) override;
  void Refused(const absl::Status& why) override;

  AgentStatus status_;
  std::unique_ptr<HelloListener> listener_;
};

// Answers the message `m`, which a peer of the right user sent instead of a hello: a kStatus, or it
// is refused with a text.
absl::Status AnswerStatus(int socket, const wire::Message& m, const AgentStatus& status);

}  // namespace pulse
