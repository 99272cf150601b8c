#include "services/echo/agent_service.h"

#include <cerrno>
#include <cstring>
#include <string>

#include "agent/message_service.h"
#include "services/echo/wire.h"

namespace pulse::echo {
namespace {

class AgentService : public MessageService {
 public:
  using MessageService::MessageService;

 private:
  bool OnRequest(MessageGroup* group, const RingMessage& message, uint64_t ticket) override {
    Request request;
    if (message.length < sizeof(request)) {
      Break(absl::DataLossError("a request is shorter than a request"));
      group->Forget(ticket);
      return true;
    }
    // The host may change its memory at any time: what decides is copied once.
    std::memcpy(&request, message.data, sizeof(request));
    session()->counters().Take(0);
    std::string body(message.data + sizeof(request), message.length - sizeof(request));
    const auto bytes = static_cast<int64_t>(body.size());
    group->Answer(request.id, kEcho, message.kind == kEcho ? bytes : -EOPNOTSUPP, std::move(body));
    group->Forget(ticket);
    return true;
  }
};

}  // namespace

std::unique_ptr<Service> CreateAgentService(Session* session, FileEngine* /*engine*/) {
  return std::make_unique<AgentService>(session);
}

}  // namespace pulse::echo
