#include "bench/macro/paper/report_remote.h"

#include <algorithm>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "absl/strings/str_join.h"
#include "bench/macro/paper/report_sections.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

using nlohmann::json;
using Shown = SectionBuilder::Shown;

constexpr char kLessIsBetter[] = ", less is better";
constexpr char kMoreIsBetter[] = ", more is better";
// Who comes so close to the best is held by the same, most likely.
constexpr double kNearTheBest = 0.85;

struct KnownPart {
  const char* benchmark;
  const char* name;
  const char* words;
  bool open_loop = false;  // at a rate: throughput says nothing
};

// In the order of the report; others come behind, by name.
constexpr KnownPart kKnownParts[] = {
    {"blocks", "reads", "Reads, as fast as they go"},
    {"blocks", "timed", "Reads at a fixed rate", true},
    {"blocks", "busy", "Reads, as fast as they go, beside a busy host"},
    {"blocks", "busy-timed", "Reads at a fixed rate, beside a busy host", true},
    {"blocks", "writes", "Writes, as fast as they go"},
    {"blocks", "busy-writes", "Writes, as fast as they go, beside a busy host"},
    {"serve", "get", "GET of what fits into the cache, one at a time"},
    {"serve", "get-pipelined", "GET of what fits into the cache, pipelined"},
    {"serve", "b", "YCSB-B on four times the cache, one at a time"},
    {"serve", "b-pipelined", "YCSB-B on four times the cache, pipelined"},
    {"serve", "busy-get", "GET of what fits into the cache, one at a time, beside a busy host"},
    {"serve", "busy-b", "YCSB-B on four times the cache, one at a time, beside a busy host"},
    {"director", "latency", "One message at a time"},
    {"director", "stream", "Streams"},
    {"director", "idle", "Idle connections"}};

const KnownPart* FindKnown(const std::string& benchmark, const std::string& part) {
  for (const KnownPart& known : kKnownParts) {
    if (known.benchmark == benchmark && known.name == part) return &known;
  }
  return nullptr;
}

std::string WordsOf(const std::string& benchmark, const std::string& part) {
  const KnownPart* const known = FindKnown(benchmark, part);
  return known == nullptr ? part : known->words;
}

// Columns of all tables, where a part has them.
const std::vector<Shown>& Columns() {
  const auto column = [](const char* name, const char* metric, double factor = 1) {
    return Shown{name, {metric, "", "", false}, factor};
  };
  static const auto* const columns =
      new std::vector<Shown>{column("a second", "ops_per_s"),
                             column("a second", "messages_per_s"),
                             column("p50, µs", "p50_us"),
                             column("p99, µs", "p99_us"),
                             column("host CPU, µs each", "host_us"),
                             column("agent CPU, µs each", "agent_us"),
                             column("director's CPU, µs each", "loop_us"),
                             column("host CPUs in use", "host_cpus"),
                             column("agent CPUs in use", "agent_cpus"),
                             column("answered by the agent, %", "offloaded_share", 100),
                             column("Gbit/s", "gbit_per_s"),
                             column("Gbit per CPU second", "gbit_per_cpu_s"),
                             column("director's CPU busy, %", "loop_share", 100),
                             column("MiB", "resident_mib"),
                             column("bytes a connection", "bytes_each")};
  return *columns;
}

// What all parts of all benchmarks call the same: latencies without "reads_", of writes where there
// are no reads; and the CPUs that were in use at that throughput.
void AddShared(json* run) {
  for (const char* metric : {"p50_us", "p99_us"}) {
    for (const char* what : {"reads_", "writes_"}) {
      const auto it = run->find(absl::StrCat(what, metric));
      if (run->contains(metric) || it == run->end() || !it->is_number()) continue;
      (*run)[metric] = *it;
    }
  }
  const double each_second = NumberIn(*run, "ops_per_s", 0);
  for (const char* who : {"host", "agent"}) {
    const double us = NumberIn(*run, absl::StrCat(who, "_us").c_str(), -1);
    if (us >= 0 && each_second > 0) (*run)[absl::StrCat(who, "_cpus")] = us * each_second / 1e6;
  }
}

// One part as a row of an experiment.
json RowOf(const std::string& name, const json& part) {
  json row = {{"label", name}, {"runs", json::array()}};
  if (!part.is_object() || !part.contains("runs") || !part["runs"].is_array()) return row;
  for (json run : part["runs"]) {
    if (!run.is_object()) continue;
    AddShared(&run);
    row["runs"].push_back(std::move(run));
  }
  return row;
}

// All parts, as an experiment's result.
json RowsOfParts(const ReportEntry& entry) {
  const json& parts = ObjectIn(entry.result, "parts");
  json rows = json::array();
  for (const KnownPart& known : kKnownParts) {
    if (known.benchmark != entry.benchmark || !parts.contains(known.name)) continue;
    rows.push_back(RowOf(known.name, parts[known.name]));
  }
  for (const auto& [name, part] : parts.items()) {
    if (FindKnown(entry.benchmark, name) == nullptr) rows.push_back(RowOf(name, part));
  }
  return rows;
}

// Charts and tables of one part.
class PartWriter {
 public:
  PartWriter(const std::string& benchmark, const json& row, ReportSection* section)
      : name_(TextIn(row, "label")),
        words_(WordsOf(benchmark, name_)),
        section_(section),
        builder_({{"rows", json::array({row})}}, nullptr, section) {}

  void Table() {
    const size_t before = section_->tables.size();
    builder_.Figures(Columns());
    if (section_->tables.size() == before) {
      section_->notes.push_back(absl::StrCat(words_, ": the file has no runs of this."));
      return;
    }
    section_->tables.back().caption =
        absl::StrCat(words_, ": medians over pairs, with the least and the most");
  }

  // As the DDS paper's figures 13 and 22 have it.
  void CpuAgainstThroughput() {
    ReportChart chart;
    chart.kind = ReportChart::Kind::kAgainst;
    chart.title = absl::StrCat(words_, ": host CPU against throughput");
    chart.unit = absl::StrCat("host CPUs in use, from bottom to top", kLessIsBetter);
    chart.group_title = absl::StrCat("requests a second", kMoreIsBetter);
    chart.groups = {words_};
    for (const std::string& opponent : builder_.Opponents()) {
      ChartPoint point = {Of("host_cpus", opponent), {}, Of("ops_per_s", opponent)};
      if (!point.ours || !point.across) continue;
      chart.series.push_back({opponent, ColourOf(opponent), {point}});
    }
    // One alone is against nobody.
    if (chart.series.size() > 1) section_->charts.push_back(std::move(chart));
  }

  void Latency() {
    ReportChart chart;
    chart.kind = ReportChart::Kind::kDots;
    chart.logarithmic = true;
    chart.title = absl::StrCat(words_, ": latency");
    chart.unit = absl::StrCat("microseconds, logarithmic", kLessIsBetter);
    chart.series = {{"p50", 1, {}}, {"p99", 4, {}}};
    bool any = false;
    for (const std::string& opponent : builder_.Opponents()) {
      chart.groups.push_back(opponent);
      chart.series[0].points.push_back({Of("p50_us", opponent), {}});
      chart.series[1].points.push_back({Of("p99_us", opponent), {}});
      any = any || Of("p50_us", opponent) || Of("p99_us", opponent);
    }
    if (any) section_->charts.push_back(std::move(chart));
  }

  void Spliced() {
    const size_t before = section_->charts.size();
    builder_.Absolute(absl::StrCat(words_, ": what a CPU of the director passes on"),
                      absl::StrCat("Gbit per second of its CPU time; the line is the DDS paper's "
                                   "6.4",
                                   kMoreIsBetter),
                      "gbit_per_cpu_s");
    if (section_->charts.size() > before) section_->charts.back().reference = 6.4;
  }

  // What nobody got past, and who came so close to it that a ratio of throughputs says little.
  void Limit() {
    std::string best;
    double most = 0;
    for (const std::string& opponent : builder_.Opponents()) {
      const auto speed = Of("ops_per_s", opponent);
      if (speed && speed->median > most) best = opponent, most = speed->median;
    }
    if (best.empty()) return;
    std::vector<std::string> near;
    for (const std::string& opponent : builder_.Opponents()) {
      const auto speed = Of("ops_per_s", opponent);
      if (!speed || speed->median < kNearTheBest * most) continue;
      const auto cpu = Of("host_us", opponent);
      near.push_back(fmt::format("{} {}{}", opponent, FormatFigure(speed->median),
                                 cpu ? fmt::format(" for {} µs", FormatFigure(cpu->median)) : ""));
    }
    std::string text = fmt::format("Limit of this machine, {}: nobody got past {} a second ({}).",
                                   name_, FormatFigure(most), best);
    if (near.size() > 1) {
      absl::StrAppend(&text, " Within ", fmt::format("{:.0f}", 100 * (1 - kNearTheBest)),
                      " % of it, with their host CPU for each request: ", absl::StrJoin(near, "; "),
                      ". What holds them is likely to be the same, such as the disk or the client; "
                      "then the ratio of their throughputs cannot show how they differ, and the "
                      "host's CPU can.");
    }
    section_->notes.push_back(std::move(text));
  }

 private:
  std::optional<Spread> Of(const char* metric, const std::string& opponent) const {
    return builder_.rows().front().Of({metric, opponent, "", false});
  }

  const std::string name_;
  const std::string words_;
  ReportSection* const section_;
  SectionBuilder builder_;
};

void FillParts(const std::string& benchmark, const json& rows, ReportSection* section) {
  for (const json& row : rows) {
    const std::string name = TextIn(row, "label");
    const KnownPart* const known = FindKnown(benchmark, name);
    PartWriter part(benchmark, row, section);
    if (name == "stream") {
      part.Spliced();
    } else if (name == "latency" || name == "b" || (known != nullptr && known->open_loop)) {
      part.Latency();
    }
    // Pipelined loads have theirs in the tables.
    if (!absl::EndsWith(name, "-pipelined") && (known == nullptr || !known->open_loop)) {
      part.CpuAgainstThroughput();
    }
    part.Table();
    if (known == nullptr || !known->open_loop) part.Limit();
  }
}

Spread SpreadIn(const json& ratio) {
  const double median = NumberIn(ratio, "median", 0);
  return {median, NumberIn(ratio, "min", median), NumberIn(ratio, "max", median),
          static_cast<size_t>(std::max(0.0, NumberIn(ratio, "count", 0)))};
}

std::vector<json> RatiosIn(const ReportEntry& entry) {
  std::vector<json> ratios;
  if (!entry.result.is_object() || !entry.result.contains("ratios")) return ratios;
  for (const json& ratio : entry.result["ratios"]) {
    if (!TextIn(ratio, "ratio").empty()) ratios.push_back(ratio);
  }
  return ratios;
}

std::vector<std::string> RatioCells(const json& ratio) {
  return {TextIn(ratio, "ratio"), TextIn(ratio, "target", "–"), FormatSpread(SpreadIn(ratio)),
          TextIn(ratio, "verdict", "–")};
}

void RatioTable(const ReportEntry& entry, ReportSection* section) {
  ReportTable table;
  table.caption = "Compared over pairs: medians, with the least and the most";
  table.header = {"", "asked", "got", ""};
  for (const json& ratio : RatiosIn(entry)) table.rows.push_back(RatioCells(ratio));
  if (!table.rows.empty()) section->tables.push_back(std::move(table));
}

std::string Load(const std::string& benchmark, const json& result) {
  const json& settings = ObjectIn(result, "settings");
  const auto number = [&](const char* key) {
    const double count = NumberIn(settings, key, 0);
    return count < 1000 ? fmt::format("{:g}", count) : FormatFigure(count);
  };
  const json& parts = ObjectIn(result, "parts");
  const auto measured = parts.items();
  const bool busy = std::any_of(measured.begin(), measured.end(), [](const auto& part) {
    return absl::StartsWith(part.key(), "busy");
  });
  const std::string busy_host =
      !busy || NumberIn(settings, "neighbours", 0) == 0
          ? ""
          : absl::StrCat(" A busy host has ", number("neighbours"),
                         " other processes on its CPUs, which compute and count for nobody.");
  if (benchmark == "blocks") {
    return absl::StrCat(
        "Random I/O on a file over the network, the DDS paper's own benchmark: requests of ",
        number("block"), " B, ", number("batch"), " in a message, ", number("outstanding"),
        " messages outstanding on each of ", number("connections"), " connections, a file of ",
        fmt::format("{:.0f} MiB", NumberIn(settings, "bytes", 0) / (1 << 20)),
        ". os-*: network and files by the host; library: files by the agent; forwarded: that, "
        "behind the agent's director; offloaded: reads by the agent alone.",
        busy_host);
  }
  if (benchmark == "serve") {
    return absl::StrCat(
        "Redis clients on a RocksDB of ", number("records"), " records with values of ",
        number("value_bytes"), " B; ", number("connections"), " connections, pipelines of ",
        number("pipeline"),
        ". off: the server alone; off-2cpu: with the agent's CPU too; forwarded: behind the "
        "agent's director, which passes all on; on: reads of clean keys answered by the agent. "
        "Every value is checked, and its age.",
        busy_host);
  }
  return absl::StrCat(
      "What a director in front of a server that echoes costs, on epoll and on io_uring: direct: "
      "without it; forward: it looks at each message of ",
      number("bytes"), " B; spin: that, and it looks for more for up to ", number("spin_us"),
      " us before it sleeps; splice: it passes bytes through. ", number("idle_connections"),
      " idle connections.");
}

PaperValue Says(const char* what, const char* where, const char* row, double value,
                const Quantity& ours) {
  return {what, where, row, value, value, ours};
}

// In what all three differ.
constexpr char kElsewhere[] =
    "no DPU: the agent is a program on another CPU of this machine, as fast as the host's; the "
    "client is on the same machine, reaches the server over loopback and takes time from both "
    "CPUs; the kernel's TCP and io_uring instead of TLDK and SPDK. The paper has two machines with "
    "two 24-core CPUs each, 100 Gbit/s between them, and a BlueField-2 with three cores in use";

json BlocksPaper() {
  const auto of = [](const char* metric, const char* who, const char* over = "") {
    return Quantity{metric, who, over, false};
  };
  const char* const fig13a = "section 8.2, Fig. 13a";
  const char* const fig14 = "section 8.3, Fig. 14";
  const char* const fig20 = "section 8.5, Fig. 20";
  return PaperJson(
      {"DDS Fig. 13", "Fig. 14", "Fig. 20"},
      {Says("reads/s, files by the OS (Windows; here os-io_uring)", fig13a, "reads", 390e3,
            of("ops_per_s", "os-io_uring")),
       Says("host CPUs in use at that, files by the OS", fig13a, "reads", 10.7,
            of("host_cpus", "os-io_uring")),
       Says("reads/s, files by the library", fig13a, "reads", 580e3, of("ops_per_s", "library")),
       Says("host CPUs in use at that, files by the library", fig13a, "reads", 6.5,
            of("host_cpus", "library")),
       Says("reads/s, offloaded (no host CPU to speak of)", fig13a, "reads", 730e3,
            of("ops_per_s", "offloaded")),
       Says("reads/s, library ÷ OS (580 by 390)", fig13a, "reads", 580.0 / 390,
            of("ops_per_s", "library", "os-io_uring")),
       Says("reads/s, offloaded ÷ OS (730 by 390)", fig13a, "reads", 730.0 / 390,
            of("ops_per_s", "offloaded", "os-io_uring")),
       Says("latency of reads at the most, OS, µs (percentile not said; ours p99)", fig14, "reads",
            11e3, of("p99_us", "os-io_uring")),
       Says("latency of reads at the most, offloaded, µs (the same)", fig14, "reads", 850,
            of("p99_us", "offloaded")),
       Says("latency at the same throughput, library ÷ OS (6 times less; ours p99)", fig14, "timed",
            1.0 / 6, of("p99_us", "library", "os-io_uring")),
       Says("writes/s, files by the OS", fig14, "writes", 210e3, of("ops_per_s", "os-io_uring")),
       Says("writes/s, files by the library", fig14, "writes", 290e3, of("ops_per_s", "library")),
       Says("p99 of these writes, OS, µs (the paper: tail)", fig14, "writes", 48e3,
            of("p99_us", "os-io_uring")),
       Says("p99 of these writes, library, µs (the paper: tail)", fig14, "writes", 3e3,
            of("p99_us", "library")),
       Says("reads/s, without a copy ÷ copying (730 by 520)", fig20, "reads", 730.0 / 520,
            of("ops_per_s", "offloaded", "offloaded-copying")),
       Says("median latency, without a copy ÷ copying (260 by 310 µs)", fig20, "reads", 260.0 / 310,
            of("p50_us", "offloaded", "offloaded-copying"))},
      absl::StrCat(kElsewhere,
                   "; not a 1 TB NVMe SSD but a disk of this machine, whose limit "
                   "these notes name"));
}

json ServePaper() {
  const char* const fig22 = "section 9.2, Fig. 22";
  return PaperJson(
      {"DDS Fig. 21", "Fig. 22"},
      {Says("reads/s, FASTER over TCP (here off)", fig22, "get", 340e3,
            {"ops_per_s", "off", "", false}),
       Says("host CPUs in use at that, without DDS", fig22, "get", 20,
            {"host_cpus", "off", "", false}),
       Says("reads/s, FASTER with DDS (here on)", fig22, "get", 970e3,
            {"ops_per_s", "on", "", false}),
       Says("host CPUs in use at that, with DDS", fig22, "get", 0, {"host_cpus", "on", "", false}),
       Says("reads/s, with DDS ÷ without (970 by 340)", fig22, "get", 970.0 / 340,
            {"ops_per_s", "on", "off", false}),
       Says("p99 of its page server at 90 K pages/s without DDS, µs", "section 9.1, Fig. 21",
            "pages", 4.4e3, {"p99_us", "off", "", false}),
       Says("p99 of its page server at 160 K pages/s with DDS, µs", "section 9.1, Fig. 21", "pages",
            1.3e3, {"p99_us", "on", "", false})},
      absl::StrCat(kElsewhere,
                   "; RocksDB with keys of 16 B behind the Redis protocol instead of "
                   "FASTER with keys and values of 8 B, which has most of its data on "
                   "disk where GET here has it in the cache. The page server is not "
                   "measured by this benchmark: pulse-pages load is a load for it"));
}

json DirectorPaper() {
  const char* const where = "section 8.5";
  return PaperJson({"DDS Fig. 18"},
                   {Says("Gbit/s that one core directs (here spliced, epoll)", where, "stream", 6.4,
                         {"gbit_per_cpu_s", "splice-epoll", "", false}),
                    Says("Gbit/s that one core directs (here spliced, io_uring)", where, "stream",
                         6.4, {"gbit_per_cpu_s", "splice-io_uring", "", false})},
                   absl::StrCat(kElsewhere,
                                ". Its Fig. 18 has an echo that the DPU answers, 3 times faster by "
                                "TLDK than by Linux's TCP, which is slower there than the host's "
                                "answer; here the host answers, and what is added is measured"));
}

}  // namespace

std::vector<ReportEntry> RemoteEntries(const std::string& out) {
  const auto entry = [&](const char* benchmark, const char* title, json paper) {
    ReportEntry made;
    made.name = absl::StrCat("remote-", benchmark);
    made.title = absl::StrCat("Remote storage: ", title);
    made.paper = std::move(paper);
    made.benchmark = benchmark;
    made.command =
        absl::StrCat("pulse bench ", benchmark, " --json ", out, "/", benchmark, ".json");
    return made;
  };
  return {entry("blocks", "random block I/O", BlocksPaper()),
          entry("serve", "Redis clients on a RocksDB", ServePaper()),
          entry("director", "the director", DirectorPaper())};
}

bool IsRemoteResult(const ReportEntry& entry, const json& result) {
  return TextIn(result, "benchmark") == entry.benchmark && !ObjectIn(result, "parts").empty();
}

std::string FillRemoteSection(const ReportEntry& entry, ReportSection* section) {
  const json& settings = ObjectIn(entry.result, "settings");
  const json rows = RowsOfParts(entry);
  RatioTable(entry, section);
  FillParts(entry.benchmark, rows, section);
  // At the end: what is ours first.
  SectionBuilder({{"rows", rows}}, entry.paper, section).PaperTable();
  if (!section->tables.empty())
    section->tables.back().caption = "The DDS paper's figures beside ours";
  return absl::StrCat(FlagIn(settings, "tiny") ? "A tiny run: its figures mean nothing. " : "",
                      Load(entry.benchmark, entry.result));
}

std::vector<std::vector<std::string>> RemoteTargets(const ReportEntry& entry) {
  std::vector<std::vector<std::string>> rows;
  for (const json& ratio : RatiosIn(entry)) {
    if (TextIn(ratio, "target").empty()) continue;
    rows.push_back(RatioCells(ratio));
    rows.back().push_back(entry.name);
    rows.back().push_back(fmt::format("{:g}", NumberIn(ratio, "count", 0)));
  }
  return rows;
}

}  // namespace pulse::bench
