#include "apps/pulse/util/processor_options.h"

#include <CLI/CLI.hpp>
#include <algorithm>
#include <vector>

#include "absl/strings/str_cat.h"
#include "absl/strings/strip.h"
#include "apps/pulse/util/option_values.h"
#include "base/cpu_list.h"
#include "base/errors.h"
#include "services/ops/dpdk/device.h"
#include "services/ops/remote/host_agent.h"

namespace pulse {
namespace {

absl::StatusOr<std::vector<int>> Cpus(const std::string& text, const char* option) {
  std::vector<int> cpus;
  PULSE_RETURN_IF_ERROR(ReadCpus(option, text, &cpus));
  const std::vector<int> mine = MyCpus();
  for (const int cpu : cpus) {
    if (!mine.empty() && std::find(mine.begin(), mine.end(), cpu) == mine.end()) {
      return absl::InvalidArgumentError(absl::StrCat(option, " ", text, ": CPU ", cpu,
                                                     " is not one that this process may use (",
                                                     FormatCpuList(mine), ")"));
    }
  }
  return cpus;
}

}  // namespace

void AddProcessorOptions(CLI::App* cmd, ProcessorArgs* args) {
  cmd->add_option("--cpus", args->cpus, "the host's CPUs, as 0,2-3 (default: all)");
  cmd->add_option("--agent-cpus", args->agent_cpus,
                  "CPUs of this process that stand for an agent's (default: none)");
  cmd->add_option("--agent", args->agent,
                  "the socket of an agent (pulse agent --ops), which shares the work");
  cmd->add_option(
         "--placement", args->placement,
         "which of these do the work: host, agent, split=PERCENT (of the chunks, to the\n"
         "agent), auto: whoever finishes a chunk first, or paper: the agent only while it\n"
         "is faster than the host, and then both unless the agent alone is faster than both")
      ->capture_default_str();
}

void AddEngineOption(CLI::App* cmd, ProcessorArgs* args) {
  cmd->add_option("--engine", args->engine,
                  "a device that shares the work, in place of an agent: dpdk:NAME, a compression\n"
                  "device of DPDK: its software drivers compress_isal and compress_zlib, or the\n"
                  "PCI address of a card, as dpdk:0000:03:00.0");
}

absl::StatusOr<ops::Processors> ReadProcessors(const ProcessorArgs& args) {
  ops::Processors processors;
  PULSE_ASSIGN_OR_RETURN(processors.host_cpus, Cpus(args.cpus, "--cpus"));
  PULSE_ASSIGN_OR_RETURN(processors.agent_cpus, Cpus(args.agent_cpus, "--agent-cpus"));
  const auto placement = ops::Placement::Parse(args.placement);
  if (!placement.ok()) return OptionError("--placement", placement.status());
  processors.placement = *placement;
  if (!args.engine.empty()) {
    if (!args.agent.empty() || !args.agent_cpus.empty()) {
      return absl::InvalidArgumentError(
          "a device stands for the agent; name one of --engine, --agent and --agent-cpus");
    }
    absl::string_view name = args.engine;
    if (!absl::ConsumePrefix(&name, "dpdk:") || name.empty()) {
      return absl::InvalidArgumentError(absl::StrCat(
          "--engine ", args.engine, ": expected dpdk:NAME, such as dpdk:compress_isal"));
    }
    auto device = ops::dpdk::Device::Open(std::string(name));
    if (!device.ok()) return OptionError("--engine", device.status());
    processors.agent = *std::move(device);
    return processors;
  }
  if (args.agent.empty()) return processors;
  auto agent = ops::remote::RemoteAgent::Connect(args.agent);
  if (!agent.ok()) return OptionError("--agent", agent.status());
  processors.agent = *std::move(agent);
  return processors;
}

}  // namespace pulse
