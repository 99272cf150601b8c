#include "services/lsm/placement/task_numbers.h"

namespace pulse::lsm {
namespace {

constexpr char kOutcomes[] = "Whole compactions, by what became of them.";
constexpr NumberSpec kMost = {"most", Unit::kCount, NumberKind::kGauge, "pulse_agent_task_slots",
                              "Whole compactions that the agent may run at a time."};
constexpr NumberSpec kRunning = {"running", Unit::kCount, NumberKind::kGauge,
                                 "pulse_agent_tasks_running",
                                 "Whole compactions that the agent runs."};
constexpr NumberSpec Outcome(const char* name) {
  return {name,      Unit::kCount, NumberKind::kCounter, "pulse_agent_tasks_total", kOutcomes,
          "outcome", name};
}
constexpr NumberSpec kDone = Outcome("done");
constexpr NumberSpec kFailed = Outcome("failed");
constexpr NumberSpec kRefused = Outcome("refused");

}  // namespace

NumberGroup TaskNumbers(const TaskCounters& c) {
  const auto read = [](const std::atomic<uint64_t>& n) {
    return n.load(std::memory_order_relaxed);
  };
  return {"tasks",
          {{&kMost, read(c.most)},
           {&kRunning, read(c.running)},
           {&kDone, read(c.done)},
           {&kFailed, read(c.failed)},
           {&kRefused, read(c.refused)}}};
}

}  // namespace pulse::lsm
