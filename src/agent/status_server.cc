#include "agent/status_server.h"

#include <unistd.h>

#include <map>
#include <mutex>
#include <utility>

#include "absl/strings/str_cat.h"
#include "absl/strings/str_replace.h"
#include "base/log.h"
#include "channel/handshake.h"
#include "channel/status_message.h"

namespace pulse {
namespace {

constexpr int kPatienceMs = 1000;  // with a peer that says nothing

std::mutex servers_mu;

std::map<std::string, std::weak_ptr<StatusServer>>& Servers() {
  static auto* servers = new std::map<std::string, std::weak_ptr<StatusServer>>();
  return *servers;
}

absl::Status RefuseStatus(int socket, const absl::Status& why) {
  return SendRefusal(socket, wire::MessageType::kStatusAck, why);
}

}  // namespace

absl::Status AnswerStatus(int socket, const wire::Message& m, const AgentStatus& status) {
  if (m.version != wire::kProtocolVersion) {
    return RefuseStatus(
        socket, absl::FailedPreconditionError(absl::StrCat(
                    "the agent speaks protocol version ", wire::kProtocolVersion,
                    " and who asks version ", m.version, "; use the pulse of the same release")));
  }
  if (m.type != static_cast<uint32_t>(wire::MessageType::kStatus)) {
    return RefuseStatus(socket, absl::InvalidArgumentError(
                                    absl::StrCat("process ", getpid(),
                                                 " only tells its status here (status=PATH); for "
                                                 "an agent, start: pulse agent --socket PATH")));
  }
  return SendStatus(socket, ToJson(status.Take()));
}

absl::StatusOr<std::shared_ptr<StatusServer>> StatusServer::Open(const std::string& pattern) {
  const std::string path = absl::StrReplaceAll(pattern, {{"%p", absl::StrCat(getpid())}});
  std::shared_ptr<StatusServer> s;  // its destructor, after an error, takes the mutex itself
  std::lock_guard lock(servers_mu);
  std::weak_ptr<StatusServer>& known = Servers()[path];
  if (auto server = known.lock()) return server;
  s.reset(new StatusServer(path));
  auto listener = HelloListener::Open(s.get(), {.path = path,
                                                .thread = "pulse-ag-status",
                                                .who = absl::StrCat("process ", getpid()),
                                                .hello_ms = kPatienceMs});
  if (absl::IsAlreadyExists(listener.status())) {
    return absl::AlreadyExistsError(
        absl::StrCat("status=", pattern, ": another process already listens at ", path,
                     ", or the file is no socket; with %p in the path each process has its own"));
  }
  if (!listener.ok()) {
    return absl::Status(listener.status().code(),
                        absl::StrCat("status=", pattern, ": ", listener.status().message()));
  }
  s->listener_ = *std::move(listener);
  known = s;
  return s;
}

StatusServer::~StatusServer() {
  // Whoever opens the next one of this path does not meet this one's socket.
  std::lock_guard lock(servers_mu);
  listener_.reset();
}

absl::Status StatusServer::Welcome(UniqueFd* socket, Received message) {
  const UniqueFd own = std::move(*socket);
  return AnswerStatus(own.get(), message.message, status_);
}

void StatusServer::Refused(const absl::Status& why) {
  LogOnce("status", absl::StrCat("refused a status: ", why.message()));
}

}  // namespace pulse
