// One measured load of `pulse bench blocks`. This process is the client; host and agent are others,
// whose CPU time is read from outside.

#include "base/errors.h"
#include "bench/macro/child_jobs.h"
#include "bench/macro/cpu_meter.h"
#include "bench/macro/neighbours.h"
#include "examples/blocks/load.h"
#include "examples/common/load.h"
#include "nlohmann/json.hpp"

namespace pulse::bench {
namespace {

// 0 for a process that there is none of.
absl::StatusOr<int64_t> Nanos(pid_t pid) {
  if (pid == 0) return int64_t{0};
  return ProcessNanos(pid);
}

}  // namespace

absl::StatusOr<nlohmann::json> RunBlocksLoadJob(const nlohmann::json& spec) {
  blocks::LoadOptions o;
  o.port = spec.at("port").get<uint16_t>();
  o.read_share = spec.value("reads", 1.0);
  o.block = spec.at("block").get<uint32_t>();
  o.batch = spec.at("batch").get<uint32_t>();
  o.outstanding = spec.at("outstanding").get<uint32_t>();
  o.connections = spec.at("connections").get<uint32_t>();
  o.rate = spec.value("rate", 0.0);
  o.seconds = spec.value("seconds", 1.0);
  o.fill = spec.value("fill", false);
  o.verify = spec.value("verify", true);
  o.seed = spec.at("seed").get<uint64_t>();
  Neighbours neighbours;
  PULSE_RETURN_IF_ERROR(neighbours.WorkAsAsked(spec));
  const auto host = spec.value("host_pid", 0);
  const auto agent = spec.value("agent_pid", 0);
  const auto host_begin = Nanos(host), agent_begin = Nanos(agent), own_begin = Nanos(getpid());
  const auto result = blocks::RunLoad(o);
  const auto host_end = Nanos(host), agent_end = Nanos(agent), own_end = Nanos(getpid());
  if (!result.ok()) return result.status();
  for (const auto* n : {&host_begin, &agent_begin, &own_begin, &host_end, &agent_end, &own_end}) {
    if (!n->ok()) return n->status();
  }
  if (result->errors > 0) {
    return absl::InternalError("a request of the load was refused: " + result->last_error);
  }
  const examples::LoadFigures figures[] = {{"reads", result->reads, &result->read_nanos},
                                           {"writes", result->writes, &result->write_nanos}};
  nlohmann::json out = examples::FiguresJson(figures, result->seconds);
  const auto ops = static_cast<double>(result->reads + result->writes);
  if (ops == 0) return absl::InternalError("nothing was answered in time");
  out["host_us"] = static_cast<double>(*host_end - *host_begin) / 1e3 / ops;
  out["agent_us"] = static_cast<double>(*agent_end - *agent_begin) / 1e3 / ops;
  out["client_us"] = static_cast<double>(*own_end - *own_begin) / 1e3 / ops;
  return out;
}

}  // namespace pulse::bench
