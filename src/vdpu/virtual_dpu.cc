#include "vdpu/virtual_dpu.h"

#include <optional>
#include <utility>

#include "base/errors.h"
#include "vdpu/priced_mover.h"

namespace pulse::vdpu {
namespace {

// A round is paid for when it ends, so that its effects are late by what it took; looking for work
// costs nothing.
class Pace : public WorkerPace {
 public:
  void Worked() override { CpuThrottle::Settle(); }
  void Looking(bool begins) override {
    thread_local std::optional<CpuThrottle::Exempt> looking;
    if (begins) {
      looking.emplace();
    } else {
      looking.reset();
    }
  }
};

}  // namespace

absl::StatusOr<std::unique_ptr<VirtualDpu>> VirtualDpu::Start(const Profile& profile) {
  std::unique_ptr<VirtualDpu> dpu(new VirtualDpu(profile));
  CpuThrottle::Options options;
  options.speed = profile.core_speed;
  options.cores = profile.cores;
  options.every_thread = true;
  PULSE_ASSIGN_OR_RETURN(dpu->throttle_, CpuThrottle::Start(options));
  return dpu;
}

void VirtualDpu::Apply(AgentOptions* options) {
  options->pace = std::make_shared<Pace>();
  options->wrap_mover = [this](std::unique_ptr<Mover> mover, bool first) {
    const double setup_ms = first ? profile_.setup_ms : profile_.reconfigure_ms;
    return CreatePricedMover(std::move(mover), &link_, static_cast<int64_t>(setup_ms * 1e6));
  };
}

}  // namespace pulse::vdpu
