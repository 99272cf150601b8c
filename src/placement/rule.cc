#include "placement/rule.h"

#include <algorithm>

namespace pulse::placement {
namespace {

constexpr double kSlowAgent = 0.3;      // of a host's core: behind it OffloadIo would starve
constexpr double kBusy = 0.5;           // of the host's cores: from here on it counts as busy
constexpr double kNoLongerBusy = 0.35;  // ... and below this no longer
constexpr double kDeferAgain = 0.5;     // of the pending-compaction limit, once it was reached
constexpr double kOffloadIoGain = 1.2;  // speed of OffloadIo against Host
constexpr double kOffloadIoWork = 0.1;  // of an agent's core, for one OffloadIo
constexpr int kMostSkipped = 128;       // compactions, after failures of the agent

}  // namespace

void Rule::SetAgent(int tasks, double speed) {
  if (tasks == options_.agent_tasks && speed == options_.agent_speed) return;
  options_.agent_tasks = tasks;
  // Of several tasks, one is there for the case that another waits for the device.
  options_.agent_cores = std::max(1, tasks - 1);
  options_.agent_speed = speed;
  failures_ = to_skip_ = 0;
}

// One compaction here against the same one there.
bool Rule::AgentGivesLargerShare(const Load& load) const {
  const double here = options_.host_cores / (load.host_busy + at_[0] + at_[1] + 1);
  const double there = options_.agent_cores / (at_[2] + kOffloadIoWork * at_[1] + 1);
  return options_.agent_speed * std::min(1.0, there) >= kOffloadIoGain * std::min(1.0, here);
}

Place Rule::Decide(const Compaction& job, const Load& load, Part* part) const {
  *part = Part::kNoAgent;
  if (!load.agent || options_.agent_speed < kSlowAgent) return Place::kHost;
  const int kept = options_.keeps_last && !job.urgent && options_.agent_tasks > 1 ? 1 : 0;
  const bool room = load.can_offload_all && at_[2] < options_.agent_tasks - kept && to_skip_ == 0;
  *part = busy_ && may_defer_ ? Part::kSpareHost : Part::kMoreOfAProcessor;
  if (!room) return Place::kOffloadIo;
  if (*part == Part::kSpareHost && !job.about_to_stall) return Place::kOffloadAll;
  return AgentGivesLargerShare(load) ? Place::kOffloadAll : Place::kOffloadIo;
}

std::string Rule::Why(Part part) const {
  switch (part) {
    case Part::kNone:
      break;
    case Part::kNoAgent:
      return options_.agent_speed < kSlowAgent ? "on the host: the agent's cores are too slow"
                                               : "on the host: there is no agent";
    case Part::kSpareHost:
      return "whole: other work keeps the host busy, and little compaction is pending";
    case Part::kMoreOfAProcessor:
      return busy_ ? "split or whole, where each gets more of a processor: other work keeps the "
                     "host busy, and the pending compaction has reached its limit or is not known"
                   : "split or whole, where each gets more of a processor: the host has time";
  }
  return "";
}

Choice Rule::Begin(uint64_t id, const Compaction& job, const Load& load) {
  busy_ = load.host_busy >= (busy_ ? kNoLongerBusy : kBusy) * options_.host_cores;
  may_defer_ = load.pending_ratio >= 0 && load.pending_ratio < (may_defer_ ? 1 : kDeferAgain);
  Part part;
  Choice choice;
  choice.place = Decide(job, load, &part);
  if (load.can_offload_all && to_skip_ > 0) --to_skip_;
  if (part != part_) choice.why = Why(part);
  part_ = part;
  agent_does_io_ = choice.place != Place::kHost;
  ++at_[static_cast<size_t>(choice.place)];
  running_[id] = choice.place;
  return choice;
}

void Rule::Returned(uint64_t id, bool failed) {
  const auto it = running_.find(id);
  if (it == running_.end() || it->second != Place::kOffloadAll) return;
  --at_[static_cast<size_t>(Place::kOffloadAll)];
  it->second = Place::kOffloadIo;
  ++at_[static_cast<size_t>(Place::kOffloadIo)];
  // Those that ran together return for one reason.
  if (failed && to_skip_ == 0) to_skip_ = std::min(kMostSkipped, 2 << std::min(failures_++, 16));
}

void Rule::End(uint64_t id) {
  const auto it = running_.find(id);
  if (it == running_.end()) return;
  if (it->second == Place::kOffloadAll) failures_ = 0;
  --at_[static_cast<size_t>(it->second)];
  running_.erase(it);
}

}  // namespace pulse::placement
