// `pulse bench ring`: the progress ring against a ring with a flag in each message and one whose
// producers take a lock, for small messages from many threads. DDS 8.5.
#include "bench/macro/ring_bench.h"

#include <algorithm>

#include "absl/strings/str_cat.h"
#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/description.h"
#include "bench/macro/report_program.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

// With one mover, load and number of producers.
struct RingCell {
  std::string load;
  int producers = 1;
  Runs runs;
  std::string LowestOther() const {
    return runs.Lowest({kRingMutex, kRingSpin, kRingFarm}, "p50_us");
  }
};

absl::StatusOr<RingCell> Measure(Session* s, const BenchArgs& args,
                                 const std::vector<Variant>& rings, const std::string& mover,
                                 const std::string& load, int producers) {
  nlohmann::json spec = args.own;
  spec.update({{"job", "ring"},
               {"producers", producers},
               {"mover", mover},
               {"waits", load != "flood"},
               {"host_cpus", s->host_cpus()},
               {"agent_cpus", s->agent_cpus()}});
  PULSE_ASSIGN_OR_RETURN(
      auto runs, s->RunRounds(rings, fmt::format("{}, {}, {} producers", mover, load, producers),
                              [&](const Variant& o, const std::string& label, bool) {
                                spec["ring"] = o.name;
                                return s->Step(
                                    label, spec, s->both_cpus(), [](const nlohmann::json& r) {
                                      return fmt::format("{:.3f} million/s, p50 {:.1f} us",
                                                         r.value("messages_per_s", 0.0) / 1e6,
                                                         r.value("p50_us", 0.0));
                                    });
                              }));
  for (nlohmann::json& run : runs.raw) {
    run.update({{"mover", mover}, {"load", load}, {"producers", producers}});
  }
  s->report()["figures"][mover][load][absl::StrCat(producers)] = Section(runs, rings)["variants"];
  return RingCell{load, producers, std::move(runs)};
}

// The targets are for the mover with a price, and for all producers.
std::vector<RatioRow> RingRatios(const std::vector<RingCell>& cells, bool judged) {
  std::vector<RatioRow> rows;
  const RingCell* flood = nullptr;  // of the most producers
  for (const RingCell& c : cells) {
    if (c.load == "flood") flood = &c;
  }
  rows = RatiosOf(DataOf("ring").at("rates"), flood->runs,
                  judged && flood->producers == kMaxRingProducers,
                  absl::StrCat(flood->producers, " producers, "));
  for (const RingCell& c : cells) {
    const std::string other = c.LowestOther();
    if (other.empty() || !c.runs.Has(kRingProgress)) continue;
    const auto p50 = nlohmann::json::array({"p50", "p50_us", kRingProgress, other, "at most 1"});
    for (RatioRow& row : RatiosOf(nlohmann::json::array({p50}), c.runs, judged,
                                  fmt::format("{} producers, {}, ", c.producers, c.load))) {
      rows.push_back(std::move(row));
    }
  }
  return rows;
}

void SayLowest(Session* s, const std::string& mover, const std::string& load,
               const std::vector<RingCell>& cells) {
  int lowest = 0, all = 0;
  for (const RingCell& c : cells) {
    const std::string other = c.LowestOther();
    if (c.load != load || other.empty() || !c.runs.Has(kRingProgress)) continue;
    ++all;
    lowest += c.runs.Of(kRingProgress, "p50_us").median <= c.runs.Of(other, "p50_us").median;
  }
  if (all == 0) return;
  s->Say(fmt::format("  latency of progress the lowest, {}: at {} of {} counts: {}\n", load, lowest,
                     all, lowest == all ? "reached" : "missed"));
  s->report()["latency_lowest"][mover][load] = {{"counts", all}, {"lowest_at", lowest}};
}

}  // namespace

absl::Status RunRingBench(BenchArgs args) {
  const nlohmann::json& data = DataOf("ring");
  PULSE_ASSIGN_OR_RETURN(auto session, Session::Open(args, uint64_t{1} << 20));
  Session& s = *session;
  const auto rings = Select(VariantsOf(data, s), args.common.variants);
  if (!rings.ok()) return rings.status();
  auto producers = args.Get<std::vector<int>>("producers");
  std::sort(producers.begin(), producers.end());
  const auto movers = args.Get<std::vector<std::string>>("movers");
  s.Say(Legend(s, *rings));
  s.Say(
      fmt::format("Producers are the host, the consumer the agent. Messages of 8 bytes; the rings "
                  "hold {} KiB, of which {} KiB unread; farm: {} slots.\n",
                  args.Get<uint64_t>("capacity") >> 10, args.Get<uint64_t>("limit") >> 10,
                  args.Get<uint64_t>("slots")));
  s.ExpectSteps(static_cast<int>(movers.size() * 2 * producers.size() * rings->size()) *
                s.rounds());
  nlohmann::json& raw = s.report()["runs"] = nlohmann::json::array();
  for (const std::string& mover : movers) {
    std::vector<RingCell> cells;
    for (const auto& [load, meaning] : data.at("loads").items()) {
      s.Say(fmt::format("\nMover {}; {}: {}\n", mover, load, meaning.get<std::string>()));
      for (const int n : producers) {
        PULSE_ASSIGN_OR_RETURN(auto cell, Measure(&s, args, *rings, mover, load, n));
        raw.insert(raw.end(), cell.runs.raw.begin(), cell.runs.raw.end());
        s.Say(MedianTable(fmt::format("{} producers (medians)", n), data.at("columns"), *rings,
                          cell.runs));
        cells.push_back(std::move(cell));
      }
    }
    const auto rows = RingRatios(cells, mover == "vmread" && !args.common.tiny);
    if (rows.empty()) continue;
    s.Say(fmt::format("\nMover {}\n", mover) + RenderRatios(rows));
    s.report()["ratios"][mover] = ToJson(rows);
    for (const auto& [load, meaning] : data.at("loads").items()) SayLowest(&s, mover, load, cells);
  }
  PULSE_RETURN_IF_ERROR(s.WriteReport());
  const auto svg = args.Get<std::string>("svg");
  return WriteResultChart(s.json_file(), svg.empty() ? s.dir().Sub("ring.svg") : svg);
}

}  // namespace pulse::bench
