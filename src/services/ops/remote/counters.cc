#include "services/ops/remote/counters.h"

#include <string>
#include <vector>

namespace pulse::ops::remote {
namespace {

constexpr NumberSpec kThreads = {"threads", Unit::kCount, NumberKind::kGauge, "pulse_ops_threads",
                                 "Threads that process chunks of operators."};
constexpr NumberSpec kRunning = {"running", Unit::kCount, NumberKind::kGauge,
                                 "pulse_ops_chunks_running", "Chunks that threads work on."};
constexpr NumberSpec kWaiting = {"waiting", Unit::kCount, NumberKind::kGauge,
                                 "pulse_ops_chunks_waiting", "Chunks that wait for a thread."};
constexpr NumberSpec kUndelivered = {"undelivered", Unit::kCount, NumberKind::kGauge,
                                     "pulse_ops_results_undelivered",
                                     "Results for which their host has no room."};
constexpr NumberSpec kOperators = {"operators", Unit::kCount, NumberKind::kGauge,
                                   "pulse_ops_operators", "Operators that hosts have prepared."};
constexpr NumberSpec kRules = {"rules", Unit::kCount, NumberKind::kCounter,
                               "pulse_ops_rules_compiled_total", "Rules of filters compiled."};

// Of one task; the names have to last.
struct TaskSpecs {
  explicit TaskSpecs(const char* task)
      : names{std::string(task) + "_chunks", std::string(task) + "_failed",
              std::string(task) + "_input_bytes", std::string(task) + "_output_bytes",
              std::string(task) + "_busy_nanos"} {
    const auto set = [&](size_t i, Unit unit, const char* metric, const char* help) {
      specs[i] = {names[i].c_str(), unit, NumberKind::kCounter, metric, help, "task", task};
    };
    set(0, Unit::kCount, "pulse_ops_chunks_total", "Chunks that operators have processed.");
    set(1, Unit::kCount, "pulse_ops_chunks_failed_total", "Chunks answered with an error.");
    set(2, Unit::kBytes, "pulse_ops_input_bytes_total", "Bytes of these chunks.");
    set(3, Unit::kBytes, "pulse_ops_output_bytes_total", "Bytes of their results.");
    set(4, Unit::kNanos, "pulse_ops_busy_seconds_total", "Time of threads on these chunks.");
  }
  TaskSpecs(const TaskSpecs&) = delete;
  TaskSpecs& operator=(const TaskSpecs&) = delete;

  const std::array<std::string, 5> names;
  std::array<NumberSpec, 5> specs{};
};

}  // namespace

NumberGroup OpsNumbers(const OpsCounters& counters) {
  static const std::array<TaskSpecs, kTasks> specs = {
      TaskSpecs(TaskName(0)), TaskSpecs(TaskName(1)), TaskSpecs(TaskName(2)),
      TaskSpecs(TaskName(3)), TaskSpecs(TaskName(4)), TaskSpecs(TaskName(5)),
      TaskSpecs(TaskName(6)), TaskSpecs(TaskName(7)), TaskSpecs(TaskName(8))};
  const auto read = [](const std::atomic<uint64_t>& n) {
    return n.load(std::memory_order_relaxed);
  };
  NumberGroup group{"ops",
                    {{&kThreads, read(counters.threads)},
                     {&kRunning, read(counters.running)},
                     {&kWaiting, read(counters.waiting)},
                     {&kUndelivered, read(counters.undelivered)},
                     {&kOperators, read(counters.operators)},
                     {&kRules, read(counters.rules)}}};
  for (size_t i = 0; i < kTasks; ++i) {
    const OpsCounters::Task& task = counters.tasks[i];
    group.numbers.push_back({specs[i].specs.data(), read(task.chunks)});
    group.numbers.push_back({&specs[i].specs[1], read(task.failed)});
    group.numbers.push_back({&specs[i].specs[2], read(task.bytes_in)});
    group.numbers.push_back({&specs[i].specs[3], read(task.bytes_out)});
    group.numbers.push_back({&specs[i].specs[4], read(task.busy_nanos)});
  }
  for (const Number& number : counters.placement.Take()) group.numbers.push_back(number);
  return group;
}

}  // namespace pulse::ops::remote
