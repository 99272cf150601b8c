// `pulse bench ring`: the progress ring against a ring with a flag in each message and one whose
// producers take a lock, for small messages from many threads. DDS 8.5.
#include "bench/macro/ring_bench.h"

#include <algorithm>
#include <optional>

#include "absl/strings/str_cat.h"
#include "apps/pulse/commands.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/common_options.h"
#include "bench/macro/report_program.h"
#include "fmt/format.h"
#include "mover/mover.h"

namespace pulse::bench {
namespace {

constexpr char kLocks[][16] = {"lock-mutex", "lock-spin"};

struct RingArgs {
  CommonArgs common;
  std::vector<int> producers = {1, 2, 4, 8, 16, 32, 64};
  std::vector<std::string> movers = {"vmread", "shared"};
  double seconds = 0.4;
  uint64_t capacity = uint64_t{1} << 20;
  uint64_t limit = kRingLimit;
  uint32_t slots = kRingSlots;
  std::string svg_file;
};

// What producers do: send as fast as they are let, or wait for each message.
enum class Load { kFlood, kWait };
constexpr Load kLoads[] = {Load::kFlood, Load::kWait};
const char* NameOf(Load load) { return load == Load::kFlood ? "flood" : "one each"; }
const char* Meaning(Load load) {
  return load == Load::kFlood ? "every producer sends as fast as it is let"
                              : "every producer waits until its message was taken";
}

std::vector<Opponent> Rings(const std::vector<int>& cpus) {
  std::vector<Opponent> all;
  const auto add = [&](const char* name, const char* meaning) {
    Opponent o;
    o.name = name;
    o.meaning = meaning;
    o.cpus = cpus;
    all.push_back(std::move(o));
  };
  add(kRingProgress, "head, tail and progress: batches, no lock");
  add(kRingMutex, "producers take a mutex: batches");
  add(kRingSpin, "producers take a lock that spins, then yields: batches");
  add(kRingFarm, "a flag in each message, polled and cleared one by one");
  return all;
}

// The runs of one mover, load and number of producers.
struct Cell {
  std::string mover;
  Load load = Load::kFlood;
  int producers = 1;
  RunSet runs;
};

class RingBench {
 public:
  RingBench(Session* session, const RingArgs& args, std::vector<Opponent> rings)
      : session_(*session), args_(args), rings_(std::move(rings)) {}

  absl::Status Run() {
    session_.ExpectSteps(static_cast<int>(args_.movers.size() * std::size(kLoads) *
                                          args_.producers.size() * rings_.size()) *
                         session_.rounds());
    nlohmann::json raw = nlohmann::json::array();
    for (const std::string& mover : args_.movers) {
      for (const Load load : kLoads) {
        for (const int producers : args_.producers) {
          PULSE_RETURN_IF_ERROR(Measure(mover, load, producers, &raw));
        }
        Tables(mover, load);
      }
    }
    for (const std::string& mover : args_.movers) {
      const std::vector<RatioRow> rows = Ratios(mover);
      if (rows.empty()) continue;
      session_.Say(fmt::format("\nMover {}\n", mover) + RenderRatios(rows));
      session_.report()["ratios"][mover] = ToJson(rows);
      Judge(mover);
    }
    session_.report()["runs"] = std::move(raw);
    PULSE_RETURN_IF_ERROR(session_.WriteReport());
    return WriteResultChart(session_.json_file(), args_.svg_file.empty()
                                                      ? session_.dir().Sub("ring.svg")
                                                      : args_.svg_file);
  }

 private:
  absl::Status Measure(const std::string& mover, Load load, int producers, nlohmann::json* raw) {
    const size_t before = raw->size();
    auto runs = session_.RunRounds(
        rings_, fmt::format("{}, {}, {} producers", mover, NameOf(load), producers),
        [&](const Opponent& o, const std::string& label, bool) {
          return session_.Step(label,
                               {{"job", "ring"},
                                {"ring", o.name},
                                {"producers", producers},
                                {"mover", mover},
                                {"seconds", args_.seconds},
                                {"waits", load == Load::kWait},
                                {"capacity", args_.capacity},
                                {"limit", args_.limit},
                                {"slots", args_.slots},
                                {"host_cpus", session_.host_cpus()},
                                {"agent_cpus", session_.agent_cpus()}},
                               session_.both_cpus(), [](const nlohmann::json& r) {
                                 return fmt::format("{:.3f} million/s, p50 {:.1f} us",
                                                    r.value("messages_per_s", 0.0) / 1e6,
                                                    r.value("p50_us", 0.0));
                               });
        },
        raw);
    if (!runs.ok()) return runs.status();
    for (size_t i = before; i < raw->size(); ++i) {
      (*raw)[i]["mover"] = mover;
      (*raw)[i]["load"] = NameOf(load);
      (*raw)[i]["producers"] = producers;
    }
    cells_.push_back({mover, load, producers, *std::move(runs)});
    return absl::OkStatus();
  }

  const Cell* Find(const std::string& mover, Load load, int producers) const {
    for (const Cell& c : cells_) {
      if (c.mover == mover && c.load == load && c.producers == producers) return &c;
    }
    return nullptr;
  }

  void Tables(const std::string& mover, Load load) {
    std::vector<std::string> head = {"producers"};
    for (const Opponent& o : rings_) head.push_back(o.name);
    TextTable speed(head), latency(head);
    for (const int producers : args_.producers) {
      const Cell* c = Find(mover, load, producers);
      if (c == nullptr) continue;
      std::vector<std::string> rates = {absl::StrCat(producers)}, times = rates;
      for (const Opponent& o : rings_) {
        rates.push_back(fmt::format("{:.3f}", c->runs.Of(o.name, "messages_per_s").median / 1e6));
        times.push_back(fmt::format("{:.1f} / {:.1f}", c->runs.Of(o.name, "p50_us").median,
                                    c->runs.Of(o.name, "p99_us").median));
        for (const char* metric : {"messages_per_s", "p50_us", "p99_us"}) {
          session_
              .report()["figures"][mover][NameOf(load)][absl::StrCat(producers)][o.name][metric] =
              ToJson(c->runs.Of(o.name, metric));
        }
      }
      speed.AddRow(std::move(rates));
      latency.AddRow(std::move(times));
    }
    session_.Say(fmt::format("\nMover {}; {}: million messages/s (medians)\n{}", mover,
                             Meaning(load), speed.Render()));
    session_.Say(fmt::format("latency, us: p50 / p99 (medians)\n{}", latency.Render()));
  }

  std::vector<RatioRow> Ratios(const std::string& mover) const {
    std::vector<RatioRow> rows;
    // The figures are for the mover with a price. A tiny run's figures mean nothing.
    const bool judged = mover == MoverName(MoverKind::kVmRead) && !args_.common.tiny;
    const int most = args_.producers.back();
    const Cell* flood = Find(mover, Load::kFlood, most);
    if (flood == nullptr || !flood->runs.Has(kRingProgress)) return rows;
    const auto rate = [&](const std::string& other, double target) {
      if (!flood->runs.Has(other)) return;
      std::optional<Target> goal;
      if (judged && most == kMaxRingProducers) goal = Target{Target::Kind::kAtLeast, target};
      rows.push_back({fmt::format("{} producers, messages/s, progress / {}", most, other),
                      flood->runs.Ratio(kRingProgress, other, "messages_per_s"), goal});
    };
    rate(kRingFarm, 10);
    for (const char* lock : kLocks) rate(lock, 4.5);
    for (const Load load : kLoads) {
      for (const int producers : args_.producers) {
        const Cell* c = Find(mover, load, producers);
        const std::string other = LowestOther(c->runs);
        if (other.empty()) continue;
        std::optional<Target> goal;
        if (judged) goal = Target{Target::Kind::kAtMost, 1};
        rows.push_back(
            {fmt::format("{} producers, {}, p50, progress / {}", producers, NameOf(load), other),
             c->runs.Ratio(kRingProgress, other, "p50_us"), goal});
      }
    }
    return rows;
  }

  static std::string LowestOther(const RunSet& runs) {
    return runs.Lowest({kRingMutex, kRingSpin, kRingFarm}, "p50_us");
  }

  void Judge(const std::string& mover) {
    for (const Load load : kLoads) {
      int lowest = 0, all = 0;
      for (const int producers : args_.producers) {
        const RunSet& runs = Find(mover, load, producers)->runs;
        const std::string other = LowestOther(runs);
        if (other.empty()) continue;
        ++all;
        lowest += runs.Of(kRingProgress, "p50_us").median <= runs.Of(other, "p50_us").median;
      }
      if (all == 0) continue;
      session_.Say(fmt::format("  latency of progress the lowest, {}: at {} of {} counts: {}\n",
                               NameOf(load), lowest, all, lowest == all ? "reached" : "missed"));
      session_.report()["latency_lowest"][mover][NameOf(load)] = {{"counts", all},
                                                                  {"lowest_at", lowest}};
    }
  }

  Session& session_;
  const RingArgs& args_;
  const std::vector<Opponent> rings_;
  std::vector<Cell> cells_;
};

absl::Status RunRingBench(RingArgs args) {
  if (args.common.tiny) {
    args.producers = {1, 4};
    args.seconds = 0.05;
  }
  std::sort(args.producers.begin(), args.producers.end());
  for (const std::string& mover : args.movers) {
    if (const auto kind = ParseMoverKind(mover); !kind.ok()) return kind.status();
  }
  auto session = Session::Open("ring", args.common, uint64_t{1} << 20);
  if (!session.ok()) return session.status();
  Session& s = **session;
  const auto rings = Select(Rings(s.both_cpus()), args.common.opponents);
  if (!rings.ok()) return rings.status();
  std::string legend = fmt::format(
      "Producers on CPU {}, consumer on CPU {}. Messages of 8 bytes; the rings hold {} KiB, of "
      "which {} KiB unread; farm: {} slots.\n",
      s.args().host_cpus, s.args().agent_cpus, args.capacity >> 10, args.limit >> 10, args.slots);
  for (const Opponent& o : *rings) {
    absl::StrAppend(&legend, fmt::format("  {:<10}  {}\n", o.name, o.meaning));
  }
  s.Say(legend);
  nlohmann::json& settings = s.report()["settings"];
  settings["capacity"] = args.capacity;
  settings["limit"] = args.limit;
  settings["slots"] = args.slots;
  settings["seconds"] = args.seconds;
  return RingBench(&s, args, *rings).Run();
}

}  // namespace

void AddRingBench(CLI::App& bench) {
  auto args = std::make_shared<RingArgs>();
  CommonArgs& common = args->common;
  CLI::App* cmd = bench.add_subcommand(
      "ring", "Send small messages from many threads: the progress ring against two others");
  cmd->add_option("--dir", common.dir, "Write the report and the chart here; created if missing")
      ->capture_default_str();
  cmd->add_option("--pairs", common.pairs, "Runs of each ring after one warm-up [5]")
      ->check(CLI::Range(1, 1000));
  cmd->add_option("--producers", args->producers, "Numbers of producing threads")
      ->delimiter(',')
      ->check(CLI::Range(1, kMaxRingProducers))
      ->capture_default_str();
  cmd->add_option("--movers", args->movers, "How the consumer reaches the ring")
      ->delimiter(',')
      ->capture_default_str();
  cmd->add_option("--rings", common.opponents, "Only these, by the names in the legend")
      ->delimiter(',');
  cmd->add_option("--seconds", args->seconds, "Length of one run; its first quarter warms up")
      ->check(CLI::Range(0.01, 60.0))
      ->capture_default_str();
  cmd->add_option("--capacity", args->capacity, "Bytes of the rings that take batches")
      ->capture_default_str();
  cmd->add_option("--limit", args->limit, "Of which may be unread (DDS's M)")
      ->capture_default_str();
  cmd->add_option("--slots", args->slots, "Messages that fit into the ring farm")
      ->capture_default_str();
  cmd->add_option("--host-cpus", common.host_cpus, "CPUs of the producers [the first]");
  cmd->add_option("--agent-cpus", common.agent_cpus, "CPU of the consumer [the second]");
  cmd->add_option("--json", common.json_file, "Write all figures here [DIR/ring.json]")
      ->type_name("FILE");
  cmd->add_option("--svg", args->svg_file, "Write the chart here [DIR/ring.svg]")
      ->type_name("FILE");
  cmd->add_flag("--tiny", common.tiny, "Two counts and one short pair: does everything work?");
  cmd->add_flag("--allow-tmpfs", common.allow_tmpfs, "Accept a directory in memory");
  cmd->footer(
      "Latency is from the moment when a producer begins to send a message, waiting for room "
      "included, until the consumer has it in its own memory. A producer without room yields its "
      "CPU and tries again; the same in all rings.");
  cmd->callback([args] { Finish(RunRingBench(*args)); });
}

}  // namespace pulse::bench
