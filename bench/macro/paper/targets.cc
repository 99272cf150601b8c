#include "bench/macro/paper/targets.h"

#include <utility>

#include "absl/strings/str_cat.h"
#include "bench/macro/opponent.h"

namespace pulse::bench {
namespace {

Target AtLeast(double value) { return {Target::Kind::kAtLeast, value}; }
Target AtMost(double value) { return {Target::Kind::kAtMost, value}; }
Target Above(double value) { return {Target::Kind::kAbove, value}; }
Target Within(double least, double most) { return {Target::Kind::kWithin, least, most}; }

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
        aims->push_back({absl::StrCat(what, ", profile ", profile,
                                      paid ? ", including the compaction backlog" : ""),
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

// As bench/report names them.
const char* KindName(Target::Kind kind) {
  switch (kind) {
    case Target::Kind::kAtLeast:
      return "at least";
    case Target::Kind::kAtMost:
      return "at most";
    case Target::Kind::kAbove:
      return "above";
    case Target::Kind::kWithin:
      return "within";
  }
  return "";
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

nlohmann::json AimsJson() {
  nlohmann::json list = nlohmann::json::array();
  for (const Aim& aim : Aims()) {
    nlohmann::json target = {{"kind", KindName(aim.target.kind)}, {"value", aim.target.value}};
    if (aim.target.kind == Target::Kind::kWithin) target["most"] = aim.target.most;
    list.push_back({{"what", aim.what},
                    {"experiment", aim.experiment},
                    {"row", aim.row},
                    {"quantity", ToJson(aim.quantity)},
                    {"target", std::move(target)},
                    {"needs", aim.needs}});
  }
  return list;
}

}  // namespace pulse::bench
