#include "link/agent_link.h"

#include <new>
#include <utility>

#include "base/errors.h"

namespace pulse {

absl::StatusOr<UniqueFd> AgentLink::Prepare(Region control_region) {
  control_region_ = std::move(control_region);
  control_ = new (control_region_.data()) wire::ControlPage();
  control_->magic = wire::kRegionMagic;
  control_->version = wire::kProtocolVersion;
  PULSE_ASSIGN_OR_RETURN(closed_, WakeEvent::Create());
  PULSE_ASSIGN_OR_RETURN(auto ends, Doorbell::CreatePair());
  notify_ = Doorbell(std::move(ends.sleep), &control_->host_waiting.value);
  return std::move(ends.ring);
}

void AgentLink::Close() { closed_.Set(); }

}  // namespace pulse
