// Options that the commands on operators share: which processors work, and which share each has.
#pragma once

#include <string>

#include "absl/status/statusor.h"
#include "services/ops/operation.h"

namespace CLI {
class App;
}  // namespace CLI

namespace pulse {

struct ProcessorArgs {
  std::string cpus;
  std::string agent_cpus;
  std::string agent;
  std::string engine;
  std::string placement = "auto";
};

// --cpus, --agent-cpus, --agent, --placement.
void AddProcessorOptions(CLI::App* cmd, ProcessorArgs* args);
// --engine, for commands whose work a device can do.
void AddEngineOption(CLI::App* cmd, ProcessorArgs* args);
// InvalidArgument names the option, also of a CPU that this process may not use. Connects to
// --agent: blocks for its answer, and fails as RemoteAgent::Connect says. Opens the device of
// --engine: blocks for its driver, and fails as ops::dpdk::Device::Open says.
absl::StatusOr<ops::Processors> ReadProcessors(const ProcessorArgs& args);

}  // namespace pulse
