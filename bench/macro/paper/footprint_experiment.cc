#include "bench/macro/paper/footprint_experiment.h"

#include <algorithm>
#include <iterator>

#include "absl/strings/match.h"
#include "absl/strings/str_cat.h"
#include "apps/pulse/util/text_table.h"
#include "base/errors.h"
#include "bench/macro/fill_runs.h"
#include "bench/macro/paper/agent_process.h"
#include "bench/macro/paper/figures.h"
#include "bench/macro/paper/result_files.h"
#include "bench/macro/session.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr int kCompactions[] = {1, 2, 4};
constexpr size_t kOpponents = 2;
constexpr uint64_t kValueBytes = 1024;
constexpr uint64_t kTinyFootprint = uint64_t{6} << 20;

std::string LabelOf(int compactions) {
  return fmt::format("{} compaction{}", compactions, compactions == 1 ? "" : "s");
}

FillSettings SettingsFor(const Size& size, int compactions) {
  const uint64_t bytes =
      size.tiny ? kTinyFootprint : static_cast<uint64_t>(size.scale * kPaperBytes);
  FillSettings settings;
  settings.num = std::max(static_cast<uint64_t>(size.threads), bytes / (kKeyBytes + kValueBytes));
  settings.value_bytes = kValueBytes;
  settings.threads = size.threads;
  settings.measure_memory = true;
  settings.shape = PaperShapeFor(size.tiny, settings.data_bytes(), size.memtable_bytes);
  // RocksDB gives a quarter of the jobs, at least one, to flushes.
  settings.shape.background_jobs = compactions + 1;
  return settings;
}

class FootprintExperiment : public Experiment {
 public:
  FootprintExperiment() : Experiment("footprint", "Memory beside stock RocksDB", Paper()) {}

  Needs NeedsAt(const Size& size) const override {
    const FillSettings s = SettingsFor(size, 4);
    return {s.space(), RunMemory(s.shape, kUsualQueueBytes)};
  }

  nlohmann::json Settings(const Size& size) const override {
    nlohmann::json points = nlohmann::json::array();
    for (const int compactions : kCompactions) {
      const FillSettings s = SettingsFor(size, compactions);
      points.push_back({{"compactions", compactions},
                        {"value_bytes", kValueBytes},
                        {"num", s.num},
                        {"shape", ToJson(s.shape)}});
    }
    return {{"workload", "fillrandom"}, {"threads", size.threads}, {"points", std::move(points)}};
  }

  int Steps(const Session& session, const Size&, const RowLog& rows) const override {
    return Left(rows) * static_cast<int>(kOpponents) * session.rounds();
  }

  double Seconds(const Session& session, const Size& size, const RowLog& rows) const override {
    const FillSettings s = SettingsFor(size, 4);
    return Left(rows) * kOpponents * session.rounds() *
           RunSeconds(s.num, kKeyBytes + s.value_bytes);
  }

  absl::Status Check(const Session& session) const override {
    PULSE_RETURN_IF_ERROR(CheckOptions(session.args().uri_options));
    return CheckAgentProcess(session);
  }

  absl::Status Run(Session* session, const Size& size, RowLog* rows) const override {
    AgentProcess agent(session, {});
    PULSE_RETURN_IF_ERROR(agent.Start());
    PulseTarget target = session->pulse_target();
    target.agent_socket = agent.socket();
    const std::vector<Opponent> opponents = {StockOpponents(session->host_cpus()).front(),
                                             PulseOpponent(target, session->host_cpus())};
    session->Say(Legend(*session, opponents));
    for (const int compactions : kCompactions) {
      if (rows->Has(LabelOf(compactions))) continue;
      auto row = RunOne(session, opponents, SettingsFor(size, compactions), LabelOf(compactions));
      if (!row.ok()) return row.status();
      PULSE_RETURN_IF_ERROR(agent.CheckRuns());
      PULSE_RETURN_IF_ERROR(rows->Add(*std::move(row)));
    }
    return absl::OkStatus();
  }

 private:
  static int Left(const RowLog& rows) {
    return static_cast<int>(
        std::count_if(std::begin(kCompactions), std::end(kCompactions),
                      [&rows](int compactions) { return !rows.Has(LabelOf(compactions)); }));
  }

  static nlohmann::json Paper() {
    return PaperJson(
        {"section IV.G"},
        {{"MB of queue per compaction thread", "IV.G", "", 33, 33, {"mib_per_queue", kPulse, ""}},
         {"MB of queues with four compaction threads",
          "IV.G",
          LabelOf(4),
          132,
          132,
          {"queue_mib", kPulse, ""}}},
        "outputs have the queues here, not threads, and a flush has one too");
  }

  // What queues and what read-ahead is, is told by the sizes that they have by default.
  static absl::Status CheckOptions(const std::string& uri) {
    for (const char* option : {"queue=", "fetch_memory=", "mover="}) {
      if (!absl::StrContains(uri, option)) continue;
      return absl::InvalidArgumentError(
          absl::StrCat("footprint measures PulseDB's default queues, and --uri has ", option,
                       "...; leave that out, or choose other experiments with --only"));
    }
    return absl::OkStatus();
  }

  absl::StatusOr<nlohmann::json> RunOne(Session* session, const std::vector<Opponent>& opponents,
                                        const FillSettings& settings,
                                        const std::string& label) const {
    nlohmann::json raw = nlohmann::json::array();
    const auto runs =
        FillRuns(session, settings).Run(opponents, absl::StrCat(name(), ", ", label), &raw);
    if (!runs.ok()) return runs.status();
    session->Say(fmt::format("\n{}, {} at a time\n", name(), label) + Table(opponents, *runs));
    return nlohmann::json{
        {"label", label},
        {"num", settings.num},
        {"opponents",
         SpreadsJson(*runs, opponents,
                     {"host_idle_rss_mib", "host_rss_mib", "host_private_mib", "agent_idle_rss_mib",
                      "agent_rss_mib", "agent_private_mib", "queues", "queue_mib", "mib_per_queue",
                      "fetch_mib", "shared_mib", "ops_per_s"})},
        {"runs", std::move(raw)}};
  }

  static std::string Table(const std::vector<Opponent>& opponents, const RunSet& runs) {
    TextTable table({"MiB (medians)", "host idle", "host loaded", "agent idle", "agent loaded",
                     "queues", "of MiB", "read-ahead"});
    for (const Opponent& o : opponents) {
      const auto cell = [&](const char* metric) {
        return runs.Series(o.name, metric).empty()
                   ? std::string("-")
                   : fmt::format("{:.1f}", runs.Of(o.name, metric).median);
      };
      table.AddRow({o.name, cell("host_idle_rss_mib"), cell("host_rss_mib"),
                    cell("agent_idle_rss_mib"), cell("agent_rss_mib"), cell("queues"),
                    cell("queue_mib"), cell("fetch_mib")});
    }
    return table.Render();
  }
};

}  // namespace

std::unique_ptr<Experiment> MakeFootprintExperiment() {
  return std::make_unique<FootprintExperiment>();
}

}  // namespace pulse::bench
