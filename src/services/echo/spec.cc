#include "services/echo/spec.h"

#include <cerrno>
#include <cstring>

#include "agent/message_service.h"
#include "services/echo/wire.h"

namespace pulse::echo {
namespace {

constexpr const char* kRequestKinds[] = {"echo"};

constexpr OptionSpec kOptions[] = {
    {.name = "--echo",
     .kind = OptionSpec::Kind::kFlag,
     .help = "offer the echo service, to try the way to the agent and back"}};

class AgentService : public MessageService {
 public:
  using MessageService::MessageService;

 private:
  bool OnRequest(MessageGroup* group, const RingMessage& message, uint64_t ticket) override {
    if (message.length < sizeof(Request)) {
      Break(absl::DataLossError("a request is shorter than a request"));
    } else {
      // The host may change its memory at any time: what decides is copied once.
      Request request;
      std::memcpy(&request, message.data, sizeof(request));
      session()->counters().Take(0);
      std::string body(message.data + sizeof(request), message.length - sizeof(request));
      const auto bytes = static_cast<int64_t>(body.size());
      group->Answer(request.id, kEcho, message.kind == kEcho ? bytes : -EOPNOTSUPP,
                    std::move(body));
    }
    group->Forget(ticket);
    return true;
  }
};

class Module : public ServiceModule {
 public:
  std::optional<OfferedService> Offer() override {
    return OfferedService{&kSpec, &CreateAgentService};
  }
  std::string Describe() const override { return ", echo"; }
};

absl::StatusOr<std::unique_ptr<ServiceModule>> Open(const OptionValues& options,
                                                    const AgentFacts&) {
  return options.Flag(kOptions[0]) ? std::make_unique<Module>() : nullptr;
}

}  // namespace

const ServiceSpec kSpec = {.name = "echo",
                           .id = kServiceId,
                           .version = kServiceVersion,
                           .start_hint = "pulse agent --echo",
                           .request_kinds = kRequestKinds};
const ServiceEntry kEntry = {&kSpec, kOptions, &Open};

std::unique_ptr<Service> CreateAgentService(Session* session, FileEngine* /*engine*/) {
  return std::make_unique<AgentService>(session);
}

}  // namespace pulse::echo
