#include "vdpu/virtual_dpu.h"

#include <optional>
#include <utility>

#include "base/errors.h"
#include "vdpu/priced_mover.h"

namespace pulse::vdpu {
namespace {

// A round is paid for when it ends, so that its effects are late by what it took; looking for work
// costs nothing. Whether a look finds some only its end tells: one that did not is exempt then, and
// the one that did is paid for as any other round.
class Pace : public WorkerPace {
 public:
  void DidWork() override { CpuThrottle::Settle(); }
  void FoundNoWork() override {
    last_ = last_.has_value() ? CpuThrottle::ExemptSince(*last_) : CpuThrottle::Now();
  }
  void StoppedLooking() override { last_.reset(); }

 private:
  // When the look that is under way has begun.
  static thread_local std::optional<CpuThrottle::Mark> last_;
};
thread_local constinit std::optional<CpuThrottle::Mark> Pace::last_;

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
