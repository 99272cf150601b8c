#include "bench/macro/paper/targets.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_split.h"
#include "bench/macro/opponent.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

Target AtLeast(double value) { return {Target::Kind::kAtLeast, value}; }
Target AtMost(double value) { return {Target::Kind::kAtMost, value}; }
Target Above(double value) { return {Target::Kind::kAbove, value}; }
Target Within(double least, double most) { return {Target::Kind::kWithin, least, most}; }

// Shares, in per cent points, below which nobody would speak of stalls.
constexpr double kStallsNoticed = 1;

constexpr char kNeedsDebt[] =
    "compactions that fall behind the writers, as 40 GB on 48 cores made them: more data "
    "(--scale), smaller memtables (--memtable), fewer writers on the host's CPU (--threads 1)";
constexpr char kNeedsWhole[] =
    "more compactions of deeper levels at a time than the host has slots for: more data (--scale) "
    "or smaller memtables (--memtable)";

void AddPlacementAims(std::vector<Aim>* aims) {
  const std::string fixed = absl::StrCat(kStockDefault, "|", kDcomp, "|", kAggressive, "|", kPulse);
  for (const char* profile : {"none", "bf2", "bf3"}) {
    // As long as the writes last, and until their compactions are done as well.
    const auto add = [&](const std::string& what, const std::string& of, const std::string& over,
                         const Target& target) {
      for (const bool paid : {false, true}) {
        aims->push_back(
            {absl::StrCat(what, ", profile ", profile, paid ? ", compactions paid for" : ""),
             absl::StrCat("dcomp-", profile),
             "1024 B",
             {paid ? kPaidFor : "ops_per_s", of, over},
             target,
             kNeedsWhole});
      }
    };
    if (profile != std::string("none")) {
      add("pulse above dcomp", kPulse, kDcomp, Above(1));
      add("dcomp above stock", kDcomp, kStockDefault, Above(1));
      add("adaptive at or above all fixed choices", kAdaptive, fixed, AtLeast(1));
    }
    add("adaptive against the best fixed choice", kAdaptive, fixed, AtLeast(0.97));
  }
  aims->push_back({"adaptive against the best fixed choice, where the load shifts",
                   "shift",
                   "all phases",
                   {"ops_per_s", kAdaptive, absl::StrCat(kHost, "|", kSplit, "|", kWhole)},
                   Above(1),
                   "phases long enough for several compactions each: more data (--scale)"});
  // What the paper measured on its card, give or take a tenth.
  aims->push_back({"whole compactions on profile bf2, speed against the host",
                   "emulation",
                   "bf2",
                   {"mib_per_s", kWhole, kStockDefault},
                   Within(0.41, 0.50),
                   "a second processor that does nothing else meanwhile"});
}

std::vector<Aim> MakeAims() {
  const Quantity speed = {"ops_per_s", kPulse, kStockDefault};
  std::vector<Aim> aims;
  const auto add = [&aims](const std::string& what, const std::string& experiment,
                           const std::string& row, const Quantity& quantity, const Target& target,
                           const char* needs = kNeedsDebt) {
    aims.push_back({what, experiment, row, quantity, target, needs});
  };
  // Each says which line is judged: what was asked of PulseDB is asked of both.
  add("random writes of 1 KiB, pulse, against stock on the host's CPU", "fillrandom", "1024 B",
      speed, AtLeast(1.6));
  add("random writes of 1 KiB, pulse, against stock on both CPUs", "fillrandom", "1024 B",
      {"ops_per_s", kPulse, kStock2Cpu}, AtLeast(1.05));
  add("write latency, p99, pulse, against stock", "tails", "1024 B",
      {"p99_us", kPulse, kStockDefault}, AtMost(0.7));
  add("write latency, p99.9, pulse, against stock", "tails", "1024 B",
      {"p99.9_us", kPulse, kStockDefault}, AtMost(0.58));
  // The paper places all merging on the host. What a user gets who leaves that to PulseDB:
  add("random writes of 1 KiB, adaptive, against stock on the host's CPU", "fillrandom", "1024 B",
      {"ops_per_s", kAdaptive, kStockDefault}, AtLeast(1.6));
  add("random writes of 1 KiB, adaptive, against stock on both CPUs", "fillrandom", "1024 B",
      {"ops_per_s", kAdaptive, kStock2Cpu}, AtLeast(1.05));
  add("write latency, p99, adaptive, against stock", "tails", "1024 B",
      {"p99_us", kAdaptive, kStockDefault}, AtMost(0.7));
  add("write latency, p99.9, adaptive, against stock", "tails", "1024 B",
      {"p99.9_us", kAdaptive, kStockDefault}, AtMost(0.58));
  add("share of time stalled, pulse, in points below stock's", "tails", "1024 B",
      {"stall_share", kStockDefault, kPulse, true}, AtLeast(19),
      "a stock RocksDB that stalls for more than 19 % of the time (the paper's: 58 %): a slower "
      "disk, or compactions that fall further behind by more data (--scale) and longer runs");
  const std::pair<const char*, double> workloads[] = {
      {"load", 1.5}, {"A", 1.35}, {"B", 1.13}, {"C", 1.02}, {"D", 1.2}, {"E", 1.12}, {"F", 1.35}};
  for (const auto& [workload, ratio] : workloads) {
    add(absl::StrCat("YCSB ", workload, ", pulse, against stock on the host's CPU"), "ycsb",
        workload, speed, AtLeast(ratio));
    add(absl::StrCat("YCSB ", workload, ", adaptive, against stock on the host's CPU"), "ycsb",
        workload, {"ops_per_s", kAdaptive, kStockDefault}, AtLeast(ratio));
  }
  AddPlacementAims(&aims);
  return aims;
}

const FigureRow* FindRow(const std::vector<FigureRow>& rows, const std::string& label) {
  for (const FigureRow& row : rows) {
    if (row.label() == label) return &row;
  }
  return nullptr;
}

Verdict VerdictOf(Outcome outcome) {
  switch (outcome) {
    case Outcome::kHeld:
      return Verdict::kHeld;
    case Outcome::kMissed:
      return Verdict::kMissed;
    case Outcome::kNotClear:
      break;
  }
  return Verdict::kNotClear;
}

// Of several choices that it is compared with, whom it does worst against: held is what holds
// against each. `best` goes before others against which it does no worse.
Outcome AgainstAll(const Aim& aim, const FigureRow& row, std::string* best) {
  std::vector<std::string> names = absl::StrSplit(aim.quantity.over, '|');
  std::stable_partition(names.begin(), names.end(),
                        [&](const std::string& name) { return name == *best; });
  Outcome outcome = Outcome::kHeld;
  for (const std::string& name : names) {
    Quantity one = aim.quantity;
    one.over = name;
    const auto got = row.Of(one);
    if (!got || !LacksWhole(row, one).empty()) continue;
    const Outcome now = aim.target.Judge(*got);
    const bool worse = now == Outcome::kMissed
                           ? outcome != Outcome::kMissed
                           : now == Outcome::kNotClear && outcome == Outcome::kHeld;
    if (!worse) continue;
    outcome = now;
    *best = name;
  }
  return outcome;
}

Judgement Judge(const Aim& aim, const nlohmann::json* result) {
  Judgement judged;
  judged.aim = &aim;
  if (result == nullptr) return judged;
  const std::vector<FigureRow> rows = RowsOf(*result);
  const FigureRow* const row = FindRow(rows, aim.row);
  if (row != nullptr) judged.got = row->Of(aim.quantity);
  if (!judged.got) {
    judged.why = absl::StrCat(aim.experiment, " has no such figure");
    return judged;
  }
  if (FlagIn(ObjectIn(*result, "settings"), "tiny")) {
    judged.why = "a tiny run shows nothing";
    return judged;
  }
  Outcome outcome = aim.target.Judge(*judged.got);
  if (absl::StrContains(aim.quantity.over, '|')) {
    judged.against = row->Against(aim.quantity);
    outcome = AgainstAll(aim, *row, &judged.against);
    Quantity one = aim.quantity;
    one.over = judged.against;
    judged.got = row->Of(one);
  }
  if (const std::string lacks = LacksWhole(*row, aim.quantity);
      !lacks.empty() && outcome != Outcome::kMissed) {
    judged.why = lacks;
    return judged;
  }
  if (aim.quantity.points) {
    // A share cannot fall by more than there is.
    const auto there = row->Of({aim.quantity.metric, aim.quantity.of, "", false});
    if (there && 100 * there->median < aim.target.value) {
      judged.verdict = Verdict::kNotApplicable;
      judged.why =
          100 * there->median < kStallsNoticed
              ? std::string("stock did not stall")
              : fmt::format("stock stalled {:.1f} % of the time only", 100 * there->median);
      // That is no leave to be silent about the other one's.
      const auto other = row->Of({aim.quantity.metric, aim.quantity.over, "", false});
      if (other && judged.got->max < 0) {
        judged.why += fmt::format("; {} stalled {:.1f} %", aim.quantity.over, 100 * other->median);
      }
      return judged;
    }
  }
  judged.verdict = VerdictOf(outcome);
  if (judged.verdict == Verdict::kNotClear) {
    judged.why = judged.got->count < 2 ? "one pair has no spread" : "the pairs differ";
  }
  return judged;
}

}  // namespace

const std::vector<Aim>& Aims() {
  static const auto* const aims = new std::vector<Aim>(MakeAims());
  return *aims;
}

std::optional<Target> AimFor(const std::string& experiment, const std::string& row,
                             const Quantity& quantity) {
  for (const Aim& aim : Aims()) {
    if (aim.experiment == experiment && aim.row == row && aim.quantity == quantity) {
      return aim.target;
    }
  }
  return std::nullopt;
}

std::vector<Judgement> JudgeAll(
    const std::function<const nlohmann::json*(const std::string& experiment)>& result_of) {
  std::vector<Judgement> all;
  for (const Aim& aim : Aims()) all.push_back(Judge(aim, result_of(aim.experiment)));
  return all;
}

const char* VerdictName(Verdict verdict) {
  switch (verdict) {
    case Verdict::kHeld:
      return OutcomeName(Outcome::kHeld);
    case Verdict::kMissed:
      return OutcomeName(Outcome::kMissed);
    case Verdict::kNotClear:
      return OutcomeName(Outcome::kNotClear);
    case Verdict::kNotMeasured:
      return "not measured";
    case Verdict::kNotApplicable:
      return "not shown here";
  }
  return "";
}

}  // namespace pulse::bench
