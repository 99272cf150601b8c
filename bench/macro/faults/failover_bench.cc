// `pulse bench failover`: what writers feel while agents die and come back, against stock RocksDB.
#include <algorithm>

#include "base/cpu_list.h"
#include "base/errors.h"
#include "bench/macro/benchmarks.h"
#include "bench/macro/description.h"
#include "bench/macro/workload.h"
#include "fmt/format.h"

namespace pulse::bench {
namespace {

constexpr char kFlapping[] = "pulse-flapping";
constexpr char kOrphan[] = "pulse-orphan";

std::vector<Variant> FailoverVariants(const Session& session, const std::string& socket) {
  PulseTarget target = session.pulse_target();
  target.agent_socket = socket;
  Variant steady = PulseVariant(target, session.host_cpus());
  steady.agent_socket.clear();  // its CPU time cannot be followed through its deaths
  steady.meaning = "PulseDB with an external agent that is let alone";
  Variant flapping = steady, orphan = steady;
  flapping.name = kFlapping;
  flapping.meaning = "the same; the agent is killed and started again all the time, a second each";
  orphan.name = kOrphan;
  orphan.meaning = "the same; the agent is killed after half a second, for good";
  return {StockVariants(session.host_cpus()).front(), steady, flapping, orphan,
          StockOnBothProcessors(session.both_cpus()).front()};
}

// `spec` but for the variant.
absl::StatusOr<nlohmann::json> RunOne(Session* session, SoakAgent* agent, nlohmann::json spec,
                                      const Variant& variant, const std::string& label) {
  PULSE_RETURN_IF_ERROR(session->dir().RemoveAll("run"));
  if (variant.IsPulse()) {
    if (!agent->Runs()) PULSE_RETURN_IF_ERROR(agent->Start());
    PULSE_RETURN_IF_ERROR(agent->WaitReady());
  }
  session->CoolDown();
  int ticks = 0, kills = 0;
  absl::Status status;
  session->OnTick([&] {  // each half second
    ++ticks;
    const bool runs = agent->Runs();
    if (variant.IsPulse()) status.Update(agent->CheckNotCrashed());
    const bool down =
        variant.name == kFlapping ? ticks % 4 == 1 || ticks % 4 == 2 : variant.name == kOrphan;
    if (down && runs) {
      agent->Kill();
      ++kills;
    } else if (!down && !runs && variant.IsPulse()) {
      status.Update(agent->Start());
    }
  });
  spec["variant"] = variant;
  auto result = session->Step(label, spec, variant.cpus, [&kills](const nlohmann::json& r) {
    return fmt::format("{:.0f} ops/s, max {:.0f} ms, {} kills", r.value("ops_per_s", 0.0),
                       r.value("max_us", 0.0) / 1e3, kills);
  });
  session->OnTick(nullptr);
  PULSE_RETURN_IF_ERROR(status);
  if (!result.ok()) return result.status();
  const bool must_kill = variant.name == kFlapping || variant.name == kOrphan;
  if (must_kill && kills == 0 && !session->args().tiny) {
    return absl::FailedPreconditionError(
        "the run ended before an agent was killed; choose a larger --size");
  }
  (*result)["agent_kills"] = kills;
  PULSE_RETURN_IF_ERROR(session->dir().RemoveAll("run"));
  return result;
}

}  // namespace

absl::Status RunFailoverBench(BenchArgs args) {
  const auto value_bytes = args.Get<uint64_t>("value_bytes");
  PULSE_RETURN_IF_ERROR(CheckValueBytes(value_bytes, kStampBytes));
  QuietLostAgents();
  const auto size = SizeOf(args.common, uint64_t{2} << 30);
  if (!size.ok()) return size.status();
  const uint64_t each = kKeyBytes + value_bytes;
  const uint64_t num = std::max<uint64_t>(1, *size / each);
  PULSE_ASSIGN_OR_RETURN(auto session,
                         Session::Open(args, num * each * 5 / 2 + (uint64_t{256} << 20)));
  Session& s = *session;
  PULSE_RETURN_IF_ERROR(s.dir().Remove("agent.log"));
  // Starting agents is this program's work, and not to slow the host.
  PULSE_RETURN_IF_ERROR(SetThreadAffinity(s.agent_cpus()));
  SoakAgent agent(s.dir().Sub("agent.sock"), s.dir().Sub("agent.log"), s.args().agent_cpus);
  PULSE_ASSIGN_OR_RETURN(const auto variants,
                         Select(FailoverVariants(s, agent.socket()), args.common.variants));
  s.Say(Legend(s, variants));
  s.ExpectSteps(static_cast<int>(variants.size()) * s.rounds());
  DbShape shape = ShapeFor(args.common.tiny, /*auto_compactions=*/true);
  shape.background_jobs = 2;
  const nlohmann::json spec = {{"job", "fill"},
                               {"dir", s.dir().Sub("run")},
                               {"shape", shape},
                               {"num", num},
                               {"value_bytes", value_bytes},
                               {"threads", 1},
                               {"seed", args.common.seed},
                               {"key_seed", args.common.seed}};
  const auto runs =
      s.RunRounds(variants, "failover", [&](const Variant& o, const std::string& label, bool) {
        return RunOne(&s, &agent, spec, o, label);
      });
  if (!runs.ok()) return runs.status();
  const nlohmann::json& data = DataOf("failover");
  const auto ratios = RatiosOf(data.at("ratios"), *runs, !args.common.tiny);
  s.Say("\n" + MedianTable("variant (medians)", data.at("columns"), variants, *runs) + "\n" +
        RenderRatios(ratios));
  s.report()["settings"]["num"] = num;
  s.report().update(Section(*runs, variants));
  s.report()["ratios"] = ToJson(ratios);
  return s.WriteReport();
}

}  // namespace pulse::bench
