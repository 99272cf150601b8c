#include "link/agent_link.h"

#include <new>
#include <utility>

namespace pulse {

absl::StatusOr<UniqueFd> AgentLink::Prepare(Region control_region) {
  control_region_ = std::move(control_region);
  control_ = new (control_region_.data()) wire::ControlPage();
  control_->magic = wire::kRegionMagic;
  control_->version = wire::kProtocolVersion;
  auto closed = WakeEvent::Create();
  if (!closed.ok()) return closed.status();
  closed_ = *std::move(closed);
  auto ends = Doorbell::CreatePair();
  if (!ends.ok()) return ends.status();
  notify_ = Doorbell(std::move(ends->sleep), &control_->host_waiting.value);
  return std::move(ends->ring);
}

void AgentLink::Close() { closed_.Set(); }

}  // namespace pulse
