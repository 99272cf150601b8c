#include "bench/macro/fill_runs.h"

#include "base/errors.h"
#include "bench/macro/description.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr uint64_t kFillSlack = uint64_t{256} << 20;
constexpr char kLoaded[] = "loaded";

std::string Words(const nlohmann::json& r) {
  return fmt::format("{:.0f} ops/s, p99.9 {:.0f} us", r.value("ops_per_s", 0.0),
                     r.value("p99.9_us", 0.0));
}

}  // namespace

uint64_t FillSettings::data_bytes() const { return num * (kKeyBytes + value_bytes); }

// The data, as much again while it is compacted, and the log.
uint64_t FillSettings::run_space() const {
  return data_bytes() * (overwrite ? 2 : 1) * 5 / 2 + kFillSlack;
}

uint64_t FillSettings::space() const {
  return run_space() + (overwrite ? data_bytes() * 5 / 4 : 0);
}

nlohmann::json FillRuns::Spec(const Variant& variant, const std::string& dir,
                              uint64_t key_seed) const {
  nlohmann::json phases = nlohmann::json::array();
  for (const FillPhase& phase : settings_.phases) {
    phases.push_back(
        {{"on_host_cpus", phase.on_host_cpus}, {"on_agent_cpus", phase.on_agent_cpus}});
  }
  return {{"job", "fill"},
          {"phases", std::move(phases)},
          {"host_cpus", session_->host_cpus()},
          {"agent_cpus", session_->agent_cpus()},
          {"dir", session_->dir().Sub(dir)},
          {"shape", settings_.shape},
          {"variant", variant},
          {"num", settings_.num},
          {"value_bytes", settings_.value_bytes},
          {"threads", settings_.threads},
          {"measure_memory", settings_.measure_memory},
          {"seed", session_->args().seed},
          {"key_seed", key_seed}};
}

absl::StatusOr<Runs> FillRuns::Run(const std::vector<Variant>& variants, const std::string& label) {
  if (settings_.overwrite) {
    if (!session_->args().keep) PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll(kLoaded));
    const Variant loader = StockVariants({}).front();
    // Other keys than the runs will write: they are drawn with repeats, so many are new.
    PULSE_ASSIGN_OR_RETURN(
        const auto made,
        session_->Prepared(kLoaded, label + ", loading",
                           Spec(loader, kLoaded, session_->args().seed + 1), Words));
  }
  auto runs = session_->RunRounds(
      variants, label, [this](const Variant& variant, const std::string& what, bool first) {
        return RunOne(variant, what, first);
      });
  if (!session_->args().keep) PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll(kLoaded));
  return runs;
}

absl::StatusOr<nlohmann::json> FillRuns::RunOne(const Variant& variant, const std::string& label,
                                                bool first) {
  PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
  if (settings_.overwrite) PULSE_RETURN_IF_ERROR(session_->dir().CloneDb(kLoaded, "run"));
  if (!variant.pool.empty()) PULSE_RETURN_IF_ERROR(session_->ReadyPool(settings_.run_space()));
  session_->CoolDown();
  auto result =
      session_->Step(label, Spec(variant, "run", session_->args().seed), variant.cpus, Words);
  if (!result.ok()) return result.status();
  // Which of two threads wrote a key last is chance.
  if (first) {
    PULSE_RETURN_IF_ERROR(session_->Verify(label, "run", settings_.shape, settings_.value_bytes,
                                           variant, settings_.threads > 1, &contents_));
  }
  PULSE_RETURN_IF_ERROR(session_->dir().RemoveAll("run"));
  return result;
}

std::string FillTables(const std::vector<Variant>& variants, const RunSet& runs) {
  const nlohmann::json& data = DataOf("fill");
  return MedianTable("variant (medians)", data.at("speed"), variants, runs) + "\n" +
         MedianTable("write latency, us (medians)", data.at("latency"), variants, runs);
}

}  // namespace pulse::bench
