// Options of `pulse graph` that choose who carries out copies and compactions. Main thread only.
#pragma once

#include <CLI/CLI.hpp>
#include <memory>
#include <string>

#include "absl/status/statusor.h"
#include "services/graph/engines/engine_set.h"

namespace pulse {

struct EngineArgs {
  std::string engine = "auto";
  std::string agent;
  int threads = 1;
  std::string cpus;
};

void AddEngineOptions(CLI::App* cmd, EngineArgs* args);
// Errors name the option. Opens nothing, and looks for no CPU: for what only reads.
absl::Status CheckEngineName(const EngineArgs& args);
// Errors name the option.
absl::StatusOr<std::unique_ptr<graph::engines::EngineSet>> OpenEngines(const EngineArgs& args);

}  // namespace pulse
