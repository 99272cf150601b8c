// What the report says and shows of each experiment.
#include <functional>
#include <map>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "bench/macro/opponent.h"
#include "bench/macro/paper/report_remote.h"
#include "bench/macro/paper/report_sections.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using Shown = SectionBuilder::Shown;

constexpr double kMiB = 1 << 20;
constexpr char kMore[] = ", more is better";
constexpr char kLess[] = ", less is better";
constexpr char kBelowOne[] = "ratio, median of pairs with its spread; 1 = equal, below 1 is better";

std::string Size(double bytes) {
  // So that three digits never round to a thousand.
  if (bytes >= 999.5e6) return fmt::format("{:.3g} GB", bytes / 1e9);
  if (bytes >= 999.5e3) return fmt::format("{:.3g} MB", bytes / 1e6);
  return fmt::format("{:.3g} kB", bytes / 1e3);
}

std::string ShapeWords(const nlohmann::json& shape, const std::string& jobs) {
  return fmt::format(
      "memtables and tables of {:g} MiB, level 1 of {:g} MiB, {} background jobs, a block cache of "
      "{:.3g} MiB",
      NumberIn(shape, "memtable_bytes", 0) / kMiB, NumberIn(shape, "level1_bytes", 0) / kMiB, jobs,
      NumberIn(shape, "block_cache_bytes", 0) / kMiB);
}

std::string JobsOf(const nlohmann::json& shape) {
  return fmt::format("{:g}", NumberIn(shape, "background_jobs", 0));
}

// How the run is to the paper's.
std::string Scaling(const nlohmann::json& settings) {
  std::string text;
  if (FlagIn(settings, "tiny")) {
    text = "A tiny run of a few megabytes, which shows that all works: its figures mean nothing. ";
  } else {
    text = fmt::format("{}cale {:.3g} of the paper's 40 GB and 20 million YCSB operations: ",
                       FlagIn(settings, "quick") ? "A quick run at s" : "S",
                       NumberIn(settings, "scale", 0));
  }
  nlohmann::json shape = ObjectIn(settings, "shape");
  std::string jobs = JobsOf(shape);
  if (settings.contains("points") && settings["points"].is_array() && !settings["points"].empty()) {
    const nlohmann::json& first = settings["points"].front();
    shape = ObjectIn(first, "shape");
    jobs = JobsOf(shape);
    const std::string last = JobsOf(ObjectIn(settings["points"].back(), "shape"));
    if (last != jobs) jobs = absl::StrCat(jobs, " to ", last);
    text += fmt::format("{} of keys and values for each run",
                        Size(NumberIn(first, "num", 0) * (16 + NumberIn(first, "value_bytes", 0))));
  } else if (settings.contains("records")) {
    const double records = NumberIn(settings, "records", 0);
    text += fmt::format("{} records of {:g} B ({}), {} operations for each workload",
                        FormatFigure(records), NumberIn(settings, "value_bytes", 0),
                        Size(records * (16 + NumberIn(settings, "value_bytes", 0))),
                        FormatFigure(NumberIn(settings, "operations", 0)));
  }
  if (settings.contains("size_bytes")) {
    return text + Size(NumberIn(settings, "size_bytes", 0)) + " of keys and values in level 0.";
  }
  text += fmt::format(
      ", by {:g} thread{}. Keys of 16 B, no compression, direct reads, {}; the block cache is "
      "scaled "
      "with the data, memtables and levels are {}.",
      NumberIn(settings, "threads", 0), NumberIn(settings, "threads", 0) == 1 ? "" : "s",
      ShapeWords(shape, jobs),
      NumberIn(shape, "memtable_bytes", 0) == 64 * kMiB
          ? "the paper's, so that fewer levels fill than by 40 GB"
          : "not the paper's (64 MiB and 256 MiB)");
  return text;
}

void FillColumns(SectionBuilder* b) {
  b->Figures({{"operations/s", {"ops_per_s", "", "", false}},
              {"... compactions paid for", {kPaidFor, "", "", false}},
              {"p99, µs", {"p99_us", "", "", false}},
              {"p99.9, µs", {"p99.9_us", "", "", false}},
              {"stalled, %", {"stall_share", "", "", false}, 100},
              {"compaction, MiB/s", {"compaction_mib_per_s", "", "", false}},
              {"host CPU of compactions, s per GiB", {"compaction_cpu_s_per_gib", "", "", false}},
              {"whole compactions", {"whole_compactions", "", "", false}},
              {"host CPU, s", {"host_cpu_s", "", "", false}},
              {"agent CPU, s", {"agent_cpu_s", "", "", false}}});
}

void Throughput(SectionBuilder* b) {
  b->Absolute("Throughput", absl::StrCat("operations per second", kMore), "ops_per_s");
}

void HostCpu(SectionBuilder* b, const std::vector<std::pair<std::string, std::string>>& of_over) {
  b->Ratios("Host CPU of compactions for each GiB compacted", "compaction_cpu_s_per_gib", false,
            of_over);
}

std::string BySize(SectionBuilder* b, const std::string& what) {
  Throughput(b);
  b->Ratios("Throughput against stock RocksDB", "ops_per_s", true,
            {{kPulse, kStockDefault}, {kPulse, kStock2Cpu}, {kAdaptive, kStockDefault}});
  b->Ratios("Compaction throughput", "compaction_mib_per_s", true, {{kPulse, kStockDefault}});
  HostCpu(b, {{kPulse, kStockDefault}});
  FillColumns(b);
  return what;
}

std::string Tails(SectionBuilder* b) {
  ReportChart latency;
  latency.kind = ReportChart::Kind::kDots;
  latency.logarithmic = true;
  latency.title = "Latency of a write";
  latency.unit = absl::StrCat("microseconds, logarithmic", kLess);
  b->ByMetric(std::move(latency), {{"mean", "mean_us"},
                                   {"p99", "p99_us"},
                                   {"p99.9", "p99.9_us"},
                                   {"p99.99", "p99.99_us"},
                                   {"max", "max_us"}});
  ReportChart ratios;
  ratios.kind = ReportChart::Kind::kDots;
  ratios.title = absl::StrCat("Latency of a write, ", kPulse, " ÷ ", kStockDefault);
  ratios.unit = kBelowOne;
  ratios.reference = 1;
  b->ByRow(std::move(ratios), {{"mean", {"mean_us", kPulse, kStockDefault, false}},
                               {"p99", {"p99_us", kPulse, kStockDefault, false}},
                               {"p99.9", {"p99.9_us", kPulse, kStockDefault, false}},
                               {"p99.99", {"p99.99_us", kPulse, kStockDefault, false}}});
  b->Absolute("Time in which writes were held up", absl::StrCat("per cent of the run", kLess),
              "stall_share", 100);
  FillColumns(b);
  return "What a writer feels of compactions: random writes of 1 KiB, each timed, and the share of "
         "the run in which RocksDB delayed or stopped its writers. Writers are a closed loop.";
}

std::string Ycsb(SectionBuilder* b, const nlohmann::json& settings) {
  Throughput(b);
  b->Ratios("Throughput against stock RocksDB", "ops_per_s", true,
            {{kPulse, kStockDefault}, {kPulse, kStock2Cpu}, {kAdaptive, kStockDefault}});
  b->Figures({{"operations/s", {"ops_per_s", "", "", false}},
              {"read p99, µs", {"read_p99_us", "", "", false}},
              {"write p99, µs", {"write_p99_us", "", "", false}},
              {"scan p99, µs", {"scan_p99_us", "", "", false}},
              {"stalled, %", {"stall_share", "", "", false}, 100},
              {"host CPU, s", {"host_cpu_s", "", "", false}},
              {"agent CPU, s", {"agent_cpu_s", "", "", false}},
              {"sorted runs at the beginning", {"sorted_runs_before", "", "", false}}});
  std::string text =
      "YCSB's core workloads: Load inserts, A reads and updates by halves, B reads with 5 % "
      "updates, "
      "C only reads, D reads the latest with 5 % inserts, E scans with 5 % inserts, F reads and "
      "reads, modifies, writes by halves. Every value read is checked. Sorted runs are what a scan "
      "has to merge: tables of level 0, and other levels.";
  const std::string from = TextIn(settings, "initial_database");
  if (!from.empty()) text += " The database that A to F begin with: " + from + ".";
  return text;
}

std::string Ablation(SectionBuilder* b) {
  Throughput(b);
  const std::vector<std::pair<std::string, std::string>> all = {{"pool-on-host", kStockDefault},
                                                                {"pulse-on-host", kStockDefault},
                                                                {kPulse, kStockDefault},
                                                                {kPulsePool, kStockDefault},
                                                                {kStock2Cpu, kStockDefault}};
  b->Ratios("Throughput against stock RocksDB", "ops_per_s", true, all);
  HostCpu(b, all);
  FillColumns(b);
  return "What each part gives, on random writes of 1 KiB: pool-on-host writes as stock RocksDB "
         "does, into a pool, pulse-on-host has the pipeline but no "
         "second processor, pulse has its agent on the other one, pulse-pool has its tables in a "
         "pool as well.";
}

std::string Engines(SectionBuilder* b) {
  Throughput(b);
  b->Ratios("Throughput against io_uring", "ops_per_s", true,
            {{"pulse-poll", kPulse}, {"pulse-libaio", kPulse}, {"pulse-threads", kPulse}});
  FillColumns(b);
  return "The same random writes of 1 KiB with each of the agent's I/O engines: pulse is io_uring, "
         "pulse-poll io_uring that polls the device (where it can), then libaio, and threads with "
         "blocking calls.";
}

std::string Queue(SectionBuilder* b) {
  std::vector<Shown> speeds;
  std::vector<std::pair<std::string, std::string>> ratios;
  for (const std::string& opponent : b->Opponents()) {
    std::string mib = opponent.substr(opponent.find('-') + 1);
    if (absl::EndsWith(mib, "M")) mib.pop_back();
    speeds.push_back({mib, {"ops_per_s", opponent, "", false}});
    if (opponent != "pulse-32M") ratios.emplace_back(opponent, "pulse-32M");
  }
  ReportChart line;
  line.title = "Throughput by the size of the request queue";
  line.unit = absl::StrCat("operations per second", kMore);
  line.group_title = "MiB of queue for each output, doubling from point to point";
  b->Sweep(std::move(line), speeds);
  b->Ratios("Throughput against the smallest queue", "ops_per_s", true, ratios);
  FillColumns(b);
  return "Random writes of 1 KiB with request queues from 32 to 512 MiB: how much must be able to "
         "wait between the merging host and the persisting agent.";
}

std::string Footprint(SectionBuilder* b) {
  ReportChart queues;
  queues.kind = ReportChart::Kind::kBars;
  queues.title = "Memory of the queues under load";
  queues.unit = absl::StrCat("MiB that host and agent share, at the most", kLess);
  b->ByRow(std::move(queues), {{"queues", {"queue_mib", kPulse, "", false}},
                               {"queues and read-ahead", {"shared_mib", kPulse, "", false}}});
  ReportChart host;
  host.title = "The process of the database under load";
  host.unit = absl::StrCat("MiB resident at the most, shared memory included", kLess);
  b->ByRow(std::move(host), {{kStockDefault, {"host_rss_mib", kStockDefault, "", false}},
                             {kPulse, {"host_rss_mib", kPulse, "", false}}});
  ReportChart agent;
  agent.title = "The agent's process";
  agent.unit = absl::StrCat("MiB resident, shared memory included", kLess);
  b->ByRow(std::move(agent), {{"under load", {"agent_rss_mib", kPulse, "", false}},
                              {"idle", {"agent_idle_rss_mib", kPulse, "", false}}});
  b->Figures({{"host idle, MiB", {"host_idle_rss_mib", "", "", false}},
              {"host loaded, MiB", {"host_rss_mib", "", "", false}},
              {"host, not shared, MiB", {"host_private_mib", "", "", false}},
              {"agent idle, MiB", {"agent_idle_rss_mib", "", "", false}},
              {"agent loaded, MiB", {"agent_rss_mib", "", "", false}},
              {"agent, not shared, MiB", {"agent_private_mib", "", "", false}},
              {"queues", {"queues", "", "", false}},
              {"queues, MiB", {"queue_mib", "", "", false}},
              {"MiB per queue", {"mib_per_queue", "", "", false}},
              {"read-ahead, MiB", {"fetch_mib", "", "", false}}});
  return "What memory PulseDB takes beside stock RocksDB, with so many compactions at a time: of "
         "the "
         "database's process and of the agent in a process of its own, opened and at rest, and at "
         "the most while the threads write. Queues and read-ahead are memory that both map; it "
         "counts as resident in both, and exists once. A flush and outputs that are being synced "
         "have queues too, so there can be more queues than compactions.";
}

std::string Dcomp(SectionBuilder* b) {
  Throughput(b);
  b->Ratios("Throughput against stock RocksDB", "ops_per_s", true,
            {{kDcomp, kStockDefault},
             {kAggressive, kStockDefault},
             {kPulse, kStockDefault},
             {kAdaptive, kStockDefault}});
  b->Ratios("Throughput against stock RocksDB, compactions paid for", kPaidFor, true,
            {{kDcomp, kStockDefault},
             {kAggressive, kStockDefault},
             {kPulse, kStockDefault},
             {kAdaptive, kStockDefault}});
  b->Ratios("Throughput against DComp", "ops_per_s", true, {{kPulse, kDcomp}, {kAdaptive, kDcomp}});
  FillColumns(b);
  return "Random writes with compactions in three places: all on the host (stock), whole ones on "
         "the "
         "agent when the host's slots are busy (dcomp) or always (aggressive), merged on the host "
         "and persisted by the "
         "agent (pulse), and the choice left to PulseDB (adaptive). \"Compactions paid for\" "
         "counts "
         "the time until they rest, too: who leaves more of them behind writes faster for as long "
         "as "
         "there is room for that.";
}

std::string Shift(SectionBuilder* b) {
  Throughput(b);
  b->Ratios("Throughput of the adaptive placement against the fixed ones", "ops_per_s", true,
            {{kAdaptive, kHost}, {kAdaptive, kSplit}, {kAdaptive, kWhole}});
  FillColumns(b);
  return "Random writes of 1 KiB in four phases, each of which ends when compactions rest: in the "
         "first and third a busy process shares the host's CPU, in the others three share the "
         "agent's. Compactions all on the host, merged there and persisted by the agent (split), "
         "all on the agent (whole), and the choice left to PulseDB.";
}

std::string Emulation(SectionBuilder* b) {
  b->Ratios("Speed of a whole compaction against the host's", "mib_per_s", true,
            {{kWhole, kStockDefault}});
  b->Figures({{"MiB/s", {"mib_per_s", "", "", false}},
              {"seconds", {"wall_s", "", "", false}},
              {"host CPU, s per GiB", {"host_cpu_s_per_gib", "", "", false}},
              {"agent CPU, s per GiB", {"agent_cpu_s_per_gib", "", "", false}}});
  return "Whether the virtual DPU is what its profile says: one manual compaction of a frozen "
         "level "
         "0 in values of 1 KiB, by stock RocksDB on the host and whole by an agent with one "
         "compaction at a time, by profile.";
}

// Whether an ordering holds over all pairs, row by row.
void NoteOrdering(const SectionBuilder& b, ReportSection* section) {
  for (const FigureRow& row : b.rows()) {
    const Quantity first = {"ops_per_s", kPulse, kDcomp, false};
    const Quantity second = {"ops_per_s", kDcomp, kStockDefault, false};
    const auto one = row.Of(first), two = row.Of(second);
    if (!one || !two || !LacksWhole(row, first).empty()) continue;
    const Target above = {Target::Kind::kAbove, 1};
    const Outcome a = above.Judge(*one), c = above.Judge(*two);
    const Outcome both = a == Outcome::kMissed || c == Outcome::kMissed ? Outcome::kMissed
                         : a == Outcome::kHeld                          ? c
                                                                        : a;
    section->notes.push_back(fmt::format(
        "{}: the paper's order, PulseDB before DComp before stock: {} (PulseDB ÷ DComp {}, DComp ÷ "
        "stock {}).",
        row.label(), OutcomeName(both), FormatSpread(*one), FormatSpread(*two)));
  }
}

// Placements that were not what their name says.
void NoteWhole(const SectionBuilder& b, ReportSection* section) {
  for (const FigureRow& row : b.rows()) {
    for (const std::string& opponent : row.opponents()) {
      const size_t all = row.Count({"whole_compactions", opponent, "", false});
      const size_t without = row.RunsWithoutWhole(opponent);
      if (without == 0 || (!IsWholeByName(opponent) && opponent != kAdaptive)) continue;
      section->notes.push_back(fmt::format(
          "{}, {}: {}no compaction ran whole in {} of {} runs{}.", row.label(), opponent,
          IsWholeByName(opponent) ? "not measured: " : "", without, all,
          IsWholeByName(opponent) ? "; more data or smaller memtables would make some wait for it"
                                  : ", so that what it shows is another placement"));
    }
  }
}

std::string Content(const ReportEntry& entry, const nlohmann::json& settings, SectionBuilder* b) {
  const std::string& name = entry.name;
  if (name == "fillrandom") {
    return BySize(
        b,
        "Random writes into an empty database, as db_bench's fillrandom has them, by the "
        "size of the values. Stock RocksDB runs on the host's CPU, and as a third line on "
        "host's and agent's together.");
  }
  if (name == "overwrite") {
    return BySize(
        b,
        "Random writes into a copy of a database of the same size, which stock RocksDB has "
        "filled, by the size of the values.");
  }
  if (name == "tails") return Tails(b);
  if (name == "ycsb") return Ycsb(b, settings);
  if (name == "ablation") return Ablation(b);
  if (name == "engines") return Engines(b);
  if (name == "queue") return Queue(b);
  if (name == "footprint") return Footprint(b);
  if (absl::StartsWith(name, "dcomp") || absl::StartsWith(name, "overwrite-")) return Dcomp(b);
  if (absl::StartsWith(name, "ycsb-")) return Ycsb(b, settings);
  if (name == "shift") return Shift(b);
  if (name == "emulation") return Emulation(b);
  Throughput(b);
  FillColumns(b);
  return entry.title + ".";
}

std::string Value(const nlohmann::json& value) {
  return value.is_string() ? value.get<std::string>() : value.dump();
}

void AddSettings(const nlohmann::json& result, ReportSection* section) {
  for (const char* part : {"machine", "settings"}) {
    for (const auto& [key, value] : ObjectIn(result, part).items()) {
      const bool empty = value.is_string() && value.get<std::string>().empty();
      // What follows from the others is long, and in the JSON file.
      if (empty || value.is_structured()) continue;
      section->settings.emplace_back(key, Value(value));
    }
  }
  for (const char* key : {"page_cache", "pulse_version", "revision", "finished"}) {
    const std::string text = TextIn(result, key);
    if (!text.empty()) section->settings.emplace_back(key, text);
  }
}

// Of an experiment, all of its text but how it was run.
std::string FillExperiment(const ReportEntry& entry, ReportSection* section) {
  const nlohmann::json& settings = ObjectIn(entry.result, "settings");
  SectionBuilder builder(entry.result, entry.paper, section);
  const std::string what = Content(entry, settings, &builder);
  builder.PaperTable();
  if (absl::StartsWith(entry.name, "dcomp-b") && !FlagIn(settings, "tiny")) {
    NoteOrdering(builder, section);
  }
  NoteWhole(builder, section);
  if (builder.rows().empty()) section->notes.push_back("The result has no rows.");
  return absl::StrCat(what, " ", Scaling(settings));
}

}  // namespace

void FillSection(const ReportEntry& entry, ReportSection* section) {
  const nlohmann::json& settings = ObjectIn(entry.result, "settings");
  const std::string what =
      entry.benchmark.empty() ? FillExperiment(entry, section) : FillRemoteSection(entry, section);
  const double pairs = NumberIn(settings, "pairs", 0), warm_ups = NumberIn(settings, "warm_ups", 0);
  section->statement =
      fmt::format("{} {:g} pair{} after {:g} warm-up{}; host on CPU {}, agent on CPU {}.", what,
                  pairs, pairs == 1 ? "" : "s", warm_ups, warm_ups == 1 ? "" : "s",
                  TextIn(settings, "host_cpus", "?"), TextIn(settings, "agent_cpus", "?"));
  const std::string differs = TextIn(entry.paper, "differs");
  if (!differs.empty()) section->notes.push_back("Other than in the paper: " + differs + ".");
  if (const std::string cache = TextIn(entry.result, "page_cache"); cache == "fadvise") {
    section->notes.push_back(
        "The page cache could only be emptied file by file, which the kernel may ignore.");
  }
  if (const std::string uri = TextIn(settings, "uri_options"); !uri.empty()) {
    section->notes.push_back("PulseDB ran with further options: " + uri + ".");
  }
  if (const std::string env = TextIn(settings, "environment_options"); !env.empty()) {
    section->notes.push_back("PULSE_OPTIONS was set and held for PulseDB: " + env + ".");
  }
  AddSettings(entry.result, section);
}

}  // namespace pulse::bench
