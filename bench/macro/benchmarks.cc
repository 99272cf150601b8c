#include "bench/macro/benchmarks.h"

#include "base/errors.h"
#include "fmt/format.h"
#include "store/store.h"

namespace pulse::bench {

absl::Status MakeStore(const Session& session, uint64_t bytes) {
  PULSE_RETURN_IF_ERROR(session.dir().Remove("store"));
  store::CreateOptions options;
  options.segment_bytes = kStoreSegment;
  options.size = bytes + bytes / 8 + (uint64_t{32} << 20);
  options.metadata_bytes = uint64_t{8} << 20;
  return store::Create(session.dir().Sub("store"), options);
}

absl::StatusOr<std::unique_ptr<SoakAgent>> StartAgent(const Session& session,
                                                      std::vector<std::string> options) {
  auto agent =
      std::make_unique<SoakAgent>(session.dir().Sub("agent.sock"), session.dir().Sub("agent.log"),
                                  session.args().agent_cpus, std::move(options));
  PULSE_RETURN_IF_ERROR(agent->Start());
  PULSE_RETURN_IF_ERROR(agent->WaitReady());
  return agent;
}

nlohmann::json NeighboursOf(const BenchArgs& args, const Session& session) {
  return {{"neighbours", args.own.at("neighbours")}, {"neighbours_cpus", session.host_cpus()}};
}

std::string OpsAndHostCpu(const nlohmann::json& result) {
  return fmt::format("{:.0f} a second, host {:.2f} us each", result.value("ops_per_s", 0.0),
                     result.value("host_us", 0.0));
}

absl::Status RemoveUnlessKept(const Session& session, std::initializer_list<const char*> names) {
  if (session.args().keep) return absl::OkStatus();
  for (const char* name : names) PULSE_RETURN_IF_ERROR(session.dir().Remove(name));
  return absl::OkStatus();
}

}  // namespace pulse::bench
