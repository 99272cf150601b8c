#include "services/ops/placement_numbers.h"

#include <algorithm>
#include <cmath>
#include <cstddef>
#include <iterator>
#include <map>
#include <memory>

#include "absl/strings/str_cat.h"

namespace pulse::ops {
namespace {

constexpr const char* kSides[] = {"host", "agent"};
constexpr const char* kPlacementNames[] = {"host", "agent", "split", "auto", "paper"};

// Of one task, in the order of Take; the names have to last.
constexpr size_t kPerSide = 8;
constexpr size_t kPerTask = 2 * kPerSide + 5;

class TaskSpecs {
 public:
  explicit TaskSpecs(const char* task) : task_(task) {
    for (const char* side : kSides) {
      const std::string by = absl::StrCat("_by_", side);
      Add("chunks" + by, Unit::kCount, NumberKind::kCounter, "pulse_placement_chunks_total",
          "Chunks by the side that did them.", side);
      Add("input_bytes" + by, Unit::kBytes, NumberKind::kCounter,
          "pulse_placement_input_bytes_total", "Bytes of these chunks.", side);
      Add("redone" + by, Unit::kCount, NumberKind::kCounter, "pulse_placement_redone_chunks_total",
          "Chunks of late lanes that the side began a second time.", side);
      Add("rate" + by, Unit::kBytes, NumberKind::kGauge, "pulse_placement_rate_bytes_per_second",
          "TT: what all lanes of the side do, as learnt last; 0: not known.", side);
      Add("refused" + by, Unit::kCount, NumberKind::kCounter,
          "pulse_placement_refused_chunks_total", "Chunks that an engine of the side could not do.",
          side);
      Add("discarded" + by, Unit::kCount, NumberKind::kCounter,
          "pulse_placement_discarded_results_total",
          "Results that were not used, since another lane had done the chunk sooner.", side);
      Add("lost" + by, Unit::kCount, NumberKind::kCounter, "pulse_placement_engines_lost_total",
          "Engines of the side that were lost.", side);
      Add("busy_nanos" + by, Unit::kNanos, NumberKind::kCounter,
          "pulse_placement_busy_seconds_total", "Time of the side's lanes at work.", side);
    }
    Add("throughput", Unit::kBytes, NumberKind::kGauge,
        "pulse_placement_throughput_bytes_per_second",
        "OT: what the last run did as a whole, until its last chunk was delivered.");
    Add("c1", Unit::kCount, NumberKind::kGauge, "pulse_placement_agent_faster",
        "C1: 1 if the agent's rate was above the host's in the last run that knew both.");
    Add("c2", Unit::kCount, NumberKind::kGauge, "pulse_placement_both_faster",
        "C2: 1 if the throughput was above either side's rate in the last run that knew both.");
    Add("setup_nanos", Unit::kNanos, NumberKind::kGauge, "pulse_placement_setup_seconds",
        "What the agent's engine needed before it began, in the last run that knew both rates.");
    Add("break_even_bytes", Unit::kBytes, NumberKind::kGauge, "pulse_placement_break_even_bytes",
        "What the host does in that time: the agent is worth it for larger inputs.");
  }

  const NumberSpec* at(size_t i) const { return specs_[i].get(); }

 private:
  void Add(const std::string& name, Unit unit, NumberKind kind, const char* metric,
           const char* help, const char* side = nullptr) {
    names_[count_] = absl::StrCat("placement_", task_, "_", name);
    specs_[count_] = std::make_unique<NumberSpec>(
        NumberSpec{names_[count_].c_str(), unit, kind, metric, help, "task", task_,
                   side == nullptr ? nullptr : "side", side});
    ++count_;
  }

  const char* const task_;
  size_t count_ = 0;
  std::array<std::string, kPerTask> names_;
  std::array<std::unique_ptr<NumberSpec>, kPerTask> specs_;
};

struct Specs {
  Specs() {
    for (size_t i = 0; i < kTasks; ++i) tasks[i] = std::make_unique<TaskSpecs>(TaskName(i));
    for (size_t i = 0; i < runs.size(); ++i) {
      run_names[i] = absl::StrCat("placement_runs_", kPlacementNames[i]);
      runs[i] = {run_names[i].c_str(),
                 Unit::kCount,
                 NumberKind::kCounter,
                 "pulse_placement_runs_total",
                 "Streams, or members of streams, whose chunks were shared out, by placement.",
                 "placement",
                 kPlacementNames[i]};
    }
  }
  std::array<std::unique_ptr<TaskSpecs>, kTasks> tasks;
  std::array<std::string, std::size(kPlacementNames)> run_names;
  std::array<NumberSpec, std::size(kPlacementNames)> runs{};
};

const Specs& TheSpecs() {
  static const Specs specs;
  return specs;
}

uint64_t Rounded(double value) {
  constexpr auto kMost = static_cast<double>(int64_t{1} << 62);
  return static_cast<uint64_t>(std::llround(std::clamp(value, 0.0, kMost)));
}

}  // namespace

void PlacementNumbers::Add(size_t task, const PlacementReport& report) {
  const std::lock_guard lock(mutex_);
  Task& of = tasks_[task];
  of.any = true;
  of.sum.AddCountsOf(report);
  // What a run had no part in, it says nothing about.
  for (size_t i = 0; i < report.sides.size(); ++i) {
    if (report.sides[i].rate > 0) of.sum.sides[i].rate = report.sides[i].rate;
  }
  if (report.whole > 0) of.sum.whole = report.whole;
  // Without the whole's rate (of a batch) C2 and the set-up are not known.
  if (report.BothAreKnown() && report.whole > 0) of.both = report;
  if (report.ended) ++runs_[static_cast<size_t>(report.placement)];
}

std::vector<Number> PlacementNumbers::Take() const {
  const Specs& specs = TheSpecs();
  std::vector<Number> numbers;
  const std::lock_guard lock(mutex_);
  static_assert(std::tuple_size_v<decltype(runs_)> == std::size(kPlacementNames));
  for (size_t i = 0; i < runs_.size(); ++i) numbers.push_back({&specs.runs[i], runs_[i]});
  for (size_t i = 0; i < kTasks; ++i) {
    const Task& task = tasks_[i];
    if (!task.any) continue;
    size_t at = 0;
    const auto add = [&](uint64_t value) { numbers.push_back({specs.tasks[i]->at(at++), value}); };
    for (const PlacementReport::OfSide& side : task.sum.sides) {
      add(side.chunks);
      add(side.bytes);
      add(side.redone);
      add(Rounded(side.rate));
      add(side.refused);
      add(side.discarded);
      add(side.lost);
      add(side.busy_nanos);
    }
    add(Rounded(task.sum.whole));
    add(task.both.C1() ? 1 : 0);
    add(task.both.C2() ? 1 : 0);
    add(static_cast<uint64_t>(task.both.most_before_nanos));
    add(Rounded(task.both.BreakEvenBytes()));
  }
  return numbers;
}

std::string MetricsText(const std::vector<Number>& numbers) {
  // Families in the order of their first number, each with its samples.
  std::vector<std::string> families;
  std::map<std::string, size_t> places;
  for (const Number& number : numbers) {
    const NumberSpec& spec = *number.spec;
    if (spec.metric == nullptr) continue;
    const auto [place, fresh] = places.emplace(spec.metric, families.size());
    if (fresh) {
      families.push_back(
          absl::StrCat("# HELP ", spec.metric, " ", spec.help, "\n# TYPE ", spec.metric, " ",
                       spec.kind == NumberKind::kCounter ? "counter" : "gauge", "\n"));
    }
    std::string& family = families[place->second];
    absl::StrAppend(&family, spec.metric);
    // Constants of this program: nothing in them is to be escaped.
    if (spec.label != nullptr) {
      absl::StrAppend(&family, "{", spec.label, "=\"", spec.label_value, "\"");
      if (spec.second_label != nullptr) {
        absl::StrAppend(&family, ",", spec.second_label, "=\"", spec.second_value, "\"");
      }
      family += '}';
    }
    if (spec.unit == Unit::kNanos) {
      // A double's six digits would let a long sum move in steps.
      std::string seconds = absl::StrCat(number.value / 1'000'000'000, ".",
                                         absl::Dec(number.value % 1'000'000'000, absl::kZeroPad9));
      seconds.erase(seconds.find_last_not_of('0') + 1);
      if (seconds.back() == '.') seconds.pop_back();
      absl::StrAppend(&family, " ", seconds, "\n");
    } else {
      absl::StrAppend(&family, " ", number.value, "\n");
    }
  }
  std::string text;
  for (const std::string& family : families) text += family;
  return text;
}

}  // namespace pulse::ops
