#include "bench/macro/run_meter.h"

#include "apps/pulse/util/agent_socket.h"
#include "base/clock.h"
#include "base/errors.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {

absl::StatusOr<std::unique_ptr<RunMeter>> RunMeter::Create(const Opponent& opponent) {
  auto kind = CpuMeter::Agent::kNone;
  pid_t pid = 0;
  if (!opponent.agent_socket.empty()) {
    const auto agent = FindAgent(opponent.agent_socket);
    if (!agent.ok()) return agent.status();
    kind = CpuMeter::Agent::kProcess;
    pid = agent->pid;
  } else if (opponent.IsPulse()) {
    kind = CpuMeter::Agent::kThreads;
  }
  return std::unique_ptr<RunMeter>(new RunMeter(kind, pid));
}

absl::Status RunMeter::Start() {
  PULSE_RETURN_IF_ERROR(cpu_.Start());
  start_ = NowNanos();
  return absl::OkStatus();
}

void RunMeter::StopWall() { wall_nanos_ = NowNanos() - start_; }

absl::Status RunMeter::Stop(nlohmann::json* result) {
  const auto use = cpu_.Stop();
  if (!use.ok()) return use.status();
  (*result)["wall_s"] = wall_seconds();
  (*result)["host_cpu_s"] = use->host_seconds;
  (*result)["agent_cpu_s"] = use->agent_seconds;
  (*result)["compaction_cpu_s"] = use->compaction_seconds;
  (*result)["voluntary_switches"] = use->voluntary_switches;
  (*result)["involuntary_switches"] = use->involuntary_switches;
  return absl::OkStatus();
}

}  // namespace pulse::bench
