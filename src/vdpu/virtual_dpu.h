// VirtualDpu: all that makes an agent behave as on a card, from one profile: its threads run on
// slow cores (cpu_throttle.h), and its movers' transfers take the time of a DMA engine
// (priced_mover.h). Goes into AgentOptions; must outlive the server.
//
// Threads: Start and destruction from one; the rest any.
#pragma once

#include <memory>

#include "absl/status/statusor.h"
#include "agent/socket_server.h"
#include "vdpu/cpu_throttle.h"
#include "vdpu/dma_link.h"
#include "vdpu/profile.h"

namespace pulse::vdpu {

class VirtualDpu {
 public:
  // Every thread of the process is slowed down from now on, those to come included. Fails as
  // CpuThrottle::Start.
  static absl::StatusOr<std::unique_ptr<VirtualDpu>> Start(const Profile& profile);

  // Sets wrap_mover and pace.
  void Apply(AgentOptions* options);

  const Profile& profile() const { return profile_; }
  CpuThrottle& throttle() { return *throttle_; }

 private:
  explicit VirtualDpu(const Profile& profile) : profile_(profile), link_(profile) {}

  const Profile profile_;
  DmaLink link_;
  std::unique_ptr<CpuThrottle> throttle_;
};

}  // namespace pulse::vdpu
