#include <algorithm>
#include <iterator>

#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/pair_stats.h"
#include "bench/macro/paper/agent_process.h"
#include "bench/macro/paper/experiments.h"
#include "bench/macro/result_files.h"
#include "bench/macro/session.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

// `none` shows how fast the processor behind the profiles is.
constexpr const char* kProfiles[] = {"none", "bf2", "bf3"};
constexpr size_t kVariants = 2;
constexpr uint64_t kValueBytes = 1024;
constexpr uint64_t kTinyBytes = uint64_t{6} << 20;
// A level 0 of several tables, and a merge of seconds.
constexpr uint64_t kLeastBytes = uint64_t{512} << 20;
constexpr uint64_t kMostBytes = uint64_t{1} << 30;

uint64_t BytesAt(const Size& size) {
  if (size.tiny) return kTinyBytes;
  return std::clamp(static_cast<uint64_t>(size.scale * kPaperBytes), kLeastBytes, kMostBytes);
}

class EmulationExperiment : public Experiment {
 public:
  explicit EmulationExperiment(const nlohmann::json& spec)
      : Experiment(spec.at("name"), spec.at("title"), spec.at("paper")) {}

  Needs NeedsAt(const Size& size) const override {
    return {FrozenSpace(BytesAt(size)),
            RunMemory(ShapeFor(size.tiny, /*auto_compactions=*/false), kUsualQueueBytes)};
  }

  nlohmann::json Settings(const Size& size) const override {
    return {{"workload", "one manual compaction of a frozen level 0"},
            {"size_bytes", BytesAt(size)},
            {"value_bytes", kValueBytes}};
  }

  int Steps(const Session& session, const Size&, const RowLog& rows) const override {
    return Left(rows) * (static_cast<int>(kVariants) * session.rounds() + 1);
  }

  double Seconds(const Session& session, const Size& size, const RowLog& rows) const override {
    const uint64_t num = BytesAt(size) / (kKeyBytes + kValueBytes);
    // One pass, where random writes have several; the load, and the slower of two processors.
    return Left(rows) * (1 + kVariants * session.rounds()) *
           (RunSeconds(0, 0) + RunSeconds(num, kKeyBytes + kValueBytes) / 4);
  }

  absl::Status Check(const Session& session) const override { return CheckAgentProcess(session); }

  absl::Status Run(Session* session, const Size& size, RowLog* rows) const override {
    for (const char* profile : kProfiles) {
      if (rows->Has(profile)) continue;
      AgentProcess agent(session, {"--profile", profile, "--tasks", "1"});
      PULSE_RETURN_IF_ERROR(agent.Start());
      PulseTarget target = session->pulse_target();
      target.agent_socket = agent.socket();
      const auto variants = ExperimentVariants({kStockDefault, kWhole}, *session, target);
      session->Say(Legend(*session, variants));
      PULSE_ASSIGN_OR_RETURN(auto row, RunFrozen(session, BytesAt(size), profile, variants));
      PULSE_RETURN_IF_ERROR(agent.CheckRuns());
      RunSet runs;
      for (const nlohmann::json& run : row.at("runs")) {
        runs.Add(run.at("variant"), run.at("pair"), run);
      }
      if (const Spread speed = runs.Ratio(kWhole, kStockDefault, "mib_per_s"); speed.count != 0) {
        session->Say(fmt::format("{}, profile {}: {:.2f} ({:.2f} .. {:.2f}) of the host's speed\n",
                                 name(), profile, speed.median, speed.min, speed.max));
      }
      PULSE_RETURN_IF_ERROR(rows->Add(std::move(row)));
    }
    return absl::OkStatus();
  }

 private:
  static int Left(const RowLog& rows) {
    return static_cast<int>(std::count_if(std::begin(kProfiles), std::end(kProfiles),
                                          [&rows](const char* p) { return !rows.Has(p); }));
  }
};

}  // namespace

std::unique_ptr<Experiment> MakeEmulationExperiment(const nlohmann::json& spec) {
  return std::make_unique<EmulationExperiment>(spec);
}

}  // namespace pulse::bench
