#include "services/echo/spec.h"

#include <optional>

#include "services/echo/agent_service.h"
#include "services/echo/wire.h"

namespace pulse::echo {
namespace {

constexpr const char* kRequestKinds[] = {"echo"};

constexpr OptionSpec kOptions[] = {
    {.name = "--echo",
     .kind = OptionSpec::Kind::kFlag,
     .help = "offer the echo service, to try the way to the agent and back"}};

class Module : public ServiceModule {
 public:
  std::optional<OfferedService> Offer() override {
    return OfferedService{&kSpec, &CreateAgentService};
  }
  std::string Describe() const override { return ", echo"; }
};

absl::StatusOr<std::unique_ptr<ServiceModule>> Open(const OptionValues& options,
                                                    const AgentFacts&) {
  if (!options.Flag(kOptions[0])) return nullptr;
  return std::make_unique<Module>();
}

}  // namespace

const ServiceSpec kSpec = {.name = "echo",
                           .id = kServiceId,
                           .version = kServiceVersion,
                           .start_hint = "pulse agent --echo",
                           .request_kinds = kRequestKinds};
const ServiceEntry kEntry = {&kSpec, kOptions, &Open};

}  // namespace pulse::echo
