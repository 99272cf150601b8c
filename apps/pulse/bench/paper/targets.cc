#include "bench/paper/targets.h"

#include "absl/strings/str_cat.h"
#include "bench/opponent.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

Target AtLeast(double value) { return {Target::Kind::kAtLeast, value}; }
Target AtMost(double value) { return {Target::Kind::kAtMost, value}; }

std::vector<Aim> MakeAims() {
  const Quantity speed = {"ops_per_s", kPulse, kStockDefault};
  std::vector<Aim> aims = {
      {"random writes of 1 KiB against stock on the host's CPU", "fillrandom", "1024 B", speed,
       AtLeast(1.6)},
      {"random writes of 1 KiB against stock on both CPUs",
       "fillrandom",
       "1024 B",
       {"ops_per_s", kPulse, kStock2Cpu},
       AtLeast(1.05)},
      {"write latency, p99, against stock",
       "tails",
       "1024 B",
       {"p99_us", kPulse, kStockDefault},
       AtMost(0.7)},
      {"write latency, p99.9, against stock",
       "tails",
       "1024 B",
       {"p99.9_us", kPulse, kStockDefault},
       AtMost(0.58)},
      {"share of time stalled, in points below stock's",
       "tails",
       "1024 B",
       {"stall_share", kStockDefault, kPulse, true},
       AtLeast(19)},
  };
  const std::pair<const char*, double> workloads[] = {
      {"load", 1.5}, {"A", 1.35}, {"B", 1.13}, {"C", 1.02}, {"D", 1.2}, {"E", 1.12}, {"F", 1.35}};
  for (const auto& [workload, ratio] : workloads) {
    aims.push_back({absl::StrCat("YCSB ", workload, " against stock on the host's CPU"), "ycsb",
                    workload, speed, AtLeast(ratio)});
  }
  for (const char* profile : {"bf2", "bf3"}) {
    const auto order = [&](const std::string& what, const char* of, const char* over) {
      aims.push_back({absl::StrCat(what, ", profile ", profile),
                      absl::StrCat("dcomp-", profile),
                      "1024 B",
                      {"ops_per_s", of, over},
                      AtLeast(1)});
    };
    order("PulseDB above DComp", kPulse, kDcomp);
    order("DComp above stock", kDcomp, kStockDefault);
    order("adaptive at or above PulseDB", kAdaptive, kPulse);
    order("adaptive at or above DComp", kAdaptive, kDcomp);
    order("adaptive at or above stock", kAdaptive, kStockDefault);
  }
  return aims;
}

const FigureRow* FindRow(const std::vector<FigureRow>& rows, const std::string& label) {
  for (const FigureRow& row : rows) {
    if (row.label() == label) return &row;
  }
  return nullptr;
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
  if (aim.quantity.points) {
    // A share cannot fall by more than there is.
    const auto there = row->Of({aim.quantity.metric, aim.quantity.of, "", false});
    if (there && 100 * there->median < aim.target.value) {
      judged.verdict = Verdict::kNotApplicable;
      judged.why = fmt::format("stock has {:.1f} % only", 100 * there->median);
      return judged;
    }
  }
  judged.verdict = aim.target.ReachedBy(judged.got->median) ? Verdict::kReached : Verdict::kMissed;
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
    case Verdict::kReached:
      return "reached";
    case Verdict::kMissed:
      return "missed";
    case Verdict::kNotMeasured:
      return "not measured";
    case Verdict::kNotApplicable:
      return "does not apply";
  }
  return "";
}

std::string Describe(const Target& target) {
  return fmt::format("{} {:g}", target.kind == Target::Kind::kAtLeast ? "at least" : "at most",
                     target.value);
}

}  // namespace pulse::bench
