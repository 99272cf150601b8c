#include "apps/pulse/graph/engine_options.h"

#include <vector>

#include "apps/pulse/util/option_values.h"
#include "base/errors.h"

namespace pulse {

void AddEngineOptions(CLI::App* cmd, EngineArgs* args) {
  cmd->add_option("--engine", args->engine,
                  "who carries out the copies of flushes and compactions:\n"
                  "auto|inline|threads|agent|dsa|sim (a stand-in for dsa)")
      ->capture_default_str();
  cmd->add_option("--agent", args->agent,
                  "socket of an agent that does compactions: pulse agent --socket SOCKET --graph");
  cmd->add_option("--engine-threads", args->threads, "of --engine threads")
      ->check(CLI::Range(1, 256))
      ->capture_default_str();
  cmd->add_option("--engine-cpus", args->cpus,
                  "CPUs of --engine threads, and of --engine agent without --agent, whose\n"
                  "compactions a thread of this process does");
}

absl::Status CheckEngineName(const EngineArgs& args) {
  const auto kind = graph::engines::ParseEngineKind(args.engine);
  if (!kind.ok()) return OptionError("--engine", kind.status());
  std::vector<int> ignored;
  return ReadCpus("--engine-cpus", args.cpus, &ignored);
}

absl::StatusOr<std::unique_ptr<graph::engines::EngineSet>> OpenEngines(const EngineArgs& args) {
  graph::engines::EngineSetOptions options;
  const auto kind = graph::engines::ParseEngineKind(args.engine);
  if (!kind.ok()) return OptionError("--engine", kind.status());
  options.kind = *kind;
  if (args.threads != 1 && *kind != graph::engines::EngineKind::kThreads) {
    return absl::InvalidArgumentError(absl::StrCat(
        "--engine-threads is for --engine threads: leave it out for --engine ", args.engine));
  }
  std::vector<int> ignored;  // a list that is none, said of its option
  PULSE_RETURN_IF_ERROR(ReadCpus("--engine-cpus", args.cpus, &ignored));
  options.agent_socket = args.agent;
  options.threads = args.threads;
  options.cpus = args.cpus;
  auto set = graph::engines::EngineSet::Open(std::move(options));
  if (!set.ok()) {
    return absl::Status(set.status().code(),
                        absl::StrCat("--engine ", args.engine, ": ", set.status().message()));
  }
  return set;
}

}  // namespace pulse
